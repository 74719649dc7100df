"""The offline model on real packages, one directory each: writes its answers down and checks them."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from drone.models.offline.report import HONEST
from drone.models.offline.tool_output import paths_in
from drone.tools.catalog import Toolbox
from tests.drone.models.offline.playing import play
from tests.drone.models.offline.test_offline_on_real_trees import with_explorers

PROMPT = "Explain this repository"
SECTIONS = ("Purpose", "How the parts depend on each other", "Read these first", "Entry points", "Build", "Tests")


async def answered(package: Path) -> str:
    return (await play(PROMPT, *with_explorers(Toolbox.found().tools(package)))).answer


def mistakes(package: Path, answer: str) -> Iterator[str]:
    """Mistakes that are visible without knowing the package."""
    yield from (f"no section {title!r}" for title in SECTIONS if f"## {title}\n" not in answer)
    if HONEST not in answer:
        yield "it does not say what it is"
    read = answer.partition("## Read these first\n")[2].partition("\n## ")[0].splitlines()
    named = [path for line in read for path in paths_in(line)[:1]]
    if len(read) < min(3, sum(path.is_file() for path in package.rglob("*"))):
        yield f"only {len(read)} files to read"
    yield from (f"{path} is to be read and is not there" for path in named if not (package / path).is_file())


def main(directory: Path) -> int:
    """Returns the exit code: 1 when an answer has a mistake. `directory` holds packages, or answers of an earlier
    trial."""
    wrong = 0
    for package in sorted(path for path in directory.iterdir() if path.is_dir()):
        answer = asyncio.run(answered(package))
        (directory / f"{package.name}.answer.md").write_text(answer + "\n", "utf-8")
        found = list(mistakes(package, answer))
        wrong += bool(found)
        print(f"{package.name}: {'; '.join(found) or 'well'}, {len(answer):,} characters", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

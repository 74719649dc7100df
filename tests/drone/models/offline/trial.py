"""The offline model on real packages, one directory each: writes its answers down and checks them."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from drone.in_process import InProcessRunner
from drone.models.offline import OfflineModel
from drone.models.offline.report import HONEST
from mcc.rules.patterns import Pattern

PROMPT = "Explain this repository"
QUOTE = Pattern(r"^- `([^`\n]+):(\d+)`: “(.+?)(?:…)?”$", lines=True)


async def answered(package: Path) -> str:
    return (await InProcessRunner({"offline": OfflineModel()}, workspace=package).run_isolated("explore", PROMPT)).text


def mistakes(package: Path, answer: str) -> Iterator[str]:
    """Mistakes that are visible without knowing the package: what is said to stand somewhere, and does not."""
    if HONEST not in answer:
        yield "it does not say what it is"
    quotes = list(QUOTE.finditer(answer))
    if not quotes:
        yield "it quotes nothing"
    for path, line, text in (found.groups() for found in quotes):
        lines = (package / path).read_text("utf-8", "replace").split("\n")[int(line) - 1 :]
        if text.strip() not in " ".join(" ".join(lines[:20]).split()):
            yield f"{path}:{line} does not say “{text}”"


def main(directory: Path) -> int:
    """Returns the exit code: 1 when an answer has a mistake. `directory` holds packages."""
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

"""What a program of the sandbox costs before and after it runs: by profile, and by what its workspace holds."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.workload import table
from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds
from drone.sandbox.paths import Workspace

CALLS = 50
FILES = 10_000
PROFILES = {
    "git's own commands": Profile(ours=True),
    "read-only": Profile(),
    "workspace-write": Profile(write=True),
}


def main() -> None:
    sandbox = Bubblewrap.found()
    problem = "bubblewrap is not installed" if sandbox is None else sandbox.problem()
    if sandbox is None or problem:
        print(f"There is no sandbox here: {problem}")
        return
    with TemporaryDirectory(prefix="mcc-") as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        small.mkdir()
        _fill(large)
        rows = [
            row
            for what, root in (("one file", small), (f"{FILES:,} files", large))
            for row in _rows(sandbox, what, root)
        ]
    table(f"`true` in the sandbox ({CALLS} calls each)", ("workspace", "profile", "p50", "p90"), rows)


def _fill(root: Path) -> None:
    for number in range(FILES):
        place = root / f"{number // 20 // 20}" / f"{number // 20}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"file-{number}.py").touch()


def _rows(sandbox: Bubblewrap, what: str, root: Path) -> Iterator[tuple[str, ...]]:
    for name, profile in PROFILES.items():
        took = asyncio.run(_calls(sandbox, root, profile))
        yield what, name, f"{took[len(took) // 2]:.1f} ms", f"{took[len(took) * 9 // 10]:.1f} ms"


async def _calls(sandbox: Bubblewrap, root: Path, profile: Profile) -> list[float]:
    """Milliseconds, sorted."""
    workspace, took = Workspace(root), []
    for _ in range(CALLS):
        began = time.perf_counter()
        ended = await sandbox.run(("true",), workspace, Bounds(20.0), profile=profile)
        took.append((time.perf_counter() - began) * 1000)
        assert ended.status == 0
    return sorted(took)

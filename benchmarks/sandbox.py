"""The time that the sandbox adds to a program, by profile and by the size of the workspace."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.workload import table
from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace

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
        print(f"The sandbox is not available: {problem}")
        return
    with TemporaryDirectory(prefix="mcc-") as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        small.mkdir()
        _make_files(large)
        rows = [
            row
            for label, root in (("one file", small), (f"{FILES:,} files", large))
            for row in _rows(sandbox, label, root)
        ]
    table(f"Running `true` in the sandbox ({CALLS} calls each)", ("workspace", "profile", "p50", "p90"), rows)


def _make_files(root: Path) -> None:
    for number in range(FILES):
        directory = root / f"{number // 20 // 20}" / f"{number // 20}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"file-{number}.py").touch()


def _rows(sandbox: Bubblewrap, label: str, root: Path) -> Iterator[tuple[str, ...]]:
    for name, profile in PROFILES.items():
        milliseconds = asyncio.run(_calls(sandbox, root, profile))
        yield (
            label,
            name,
            f"{milliseconds[len(milliseconds) // 2]:.1f} ms",
            f"{milliseconds[len(milliseconds) * 9 // 10]:.1f} ms",
        )


async def _calls(sandbox: Bubblewrap, root: Path, profile: Profile) -> list[float]:
    """Milliseconds of each call, sorted."""
    workspace, milliseconds = Workspace(root), []
    for _ in range(CALLS):
        began = time.perf_counter()
        ended = await sandbox.run(("true",), workspace, Bounds(20.0), profile=profile)
        milliseconds.append((time.perf_counter() - began) * 1000)
        assert ended.status == 0
    return sorted(milliseconds)

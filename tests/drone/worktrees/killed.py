"""A process that works on one order with two writing subagents, and is killed at its Nth act on files or programs.

    python -m tests.drone.worktrees.killed DIRECTORY ACTS

DIRECTORY has the repository `repo`; the journal is kept in `journal`, a line an entry, and is gone on with. ACTS 0: it
is not killed, and prints how many acts there were.
"""

import asyncio
import os
import signal
import sys
from io import FileIO
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import MemoryJournal
from drone.models.scripted import Line, call
from drone.sandbox.bubblewrap import Bubblewrap
from drone.tools.git.program import Git
from mcc.contracts.entry import Entry
from mcc.contracts.shape import to_json
from tests.drone.tools.git_scene import Scene
from tests.drone.worktrees.said_by_models import hire, script, write
from tests.drone.worktrees.workshop import ORDER, Workshop

ACTS = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "subprocess.Popen"})
"""What the process does that can be seen on disk, as it is audited; programs are git's in the sandbox."""


class Killing:
    """Counts acts, and kills this process right before the act with this number."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.counts = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.counts and event in ACTS:
            self.act()

    def act(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def journal(path: Path) -> MemoryJournal:
    """A journal in this file; an entry is written before it takes effect."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    kept = path.open("ab", buffering=0)
    return MemoryJournal(
        ORDER, entries=map(Entry.model_validate_json, lines), watch=lambda entry: print_line(kept, to_json(entry))
    )


def print_line(file: FileIO, line: bytes) -> None:
    file.write(line + b"\n")


SCRIPT = script(
    [hire("x", "y"), "done"],
    x=[write("a.txt", "ONE\ntwo\nthree\nmine\n"), write("same.txt", "x\n"), write("deep/er/x.txt", "x\n"), "done"],
    y=[write("same.txt", "y\n"), write("y.txt", "y\n"), Line(calls=(call("delete_file", path="old.txt"),)), "done"],
)


async def work(directory: Path, killing: Killing) -> None:
    git = Git.found(Bubblewrap.found())
    kept = journal(directory / "journal")
    shop = Workshop(git, Scene.existing(directory / "repo"), directory / "worktrees", kept)
    killing.counts = True
    await shop.run(SCRIPT, again=bool(kept.entries))
    await shop.clear_up()
    killing.counts = False


if __name__ == "__main__":
    killing = Killing(int(sys.argv[2]))
    sys.addaudithook(killing)
    asyncio.run(work(Path(sys.argv[1]), killing))
    print(killing.count)

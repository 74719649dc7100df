"""The live tree on a terminal, and the state of the terminal after the program is stopped or interrupted."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MANY_PICTURES = 50_000
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"

DRAWING = """
import signal
from mcc.view.live import live_tree
from tests.mcc.view.order_journal import TURN, journal
from mcc.view.story import Story

with live_tree(Story.of(journal(*TURN))):
    signal.pause()
    signal.pause()
"""


class Terminal:
    """The output of a program on its terminal so far."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = ""

    def until(self, pattern: str) -> str:
        """The output up to and including `pattern`. Raises OSError when the program ends before."""
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            assert len(self.seen) < MANY_PICTURES, f"{pattern} is not drawn"
            self.seen += os.read(self._descriptor, 65_536).decode("utf-8", "replace")
        text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return text

    def rest(self) -> str:
        try:
            while piece := os.read(self._descriptor, 65_536):
                self.seen += piece.decode("utf-8", "replace")
        except OSError:
            pass
        return self.seen


@contextmanager
def drawing() -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    """A program that draws a tree. In a session of its own Ctrl-Z does not stop it, as no shell could continue it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", DRAWING]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            yield process, Terminal(ours)
        finally:
            process.kill()
            os.close(ours)


def test_ctrl_z_gives_the_cursor_back_and_afterwards_the_tree_is_drawn_again() -> None:
    with drawing() as (process, terminal):
        terminal.until("a\\.py")
        process.send_signal(signal.SIGTSTP)
        terminal.until(re.escape(SHOWN))
        terminal.until(f"{re.escape(HIDDEN)}.*a\\.py")


def test_ctrl_c_leaves_the_last_picture_standing() -> None:
    with drawing() as (process, terminal):
        terminal.until("a\\.py")
        process.send_signal(signal.SIGINT)
        left = terminal.rest().rpartition(SHOWN)[2]
    assert "read_file  a.py" in re.sub("\x1b\\[[0-9;]*m", "", left)

"""The live tree on a terminal, and the state of the terminal after the program is stopped or interrupted."""

import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

MANY_PICTURES = 50_000
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"

DRAWING = """
import fcntl, signal, sys, termios
fcntl.ioctl(sys.stdin, termios.TIOCSCTTY, 0)
from mcc.view.live import live_tree
from tests.mcc.view.order_journal import TURN, journal
from mcc.view.story import Story

with live_tree(Story.of(journal(*TURN))):
    signal.pause()
    signal.pause()
"""

ASKING = f"""
import os
{DRAWING.partition("with live_tree")[0]}
with live_tree(Story.of(journal(*TURN))) as aside:
    os.read(int(sys.argv[1]), 1)
    with aside():
        print("May it?", flush=True)
        print("answered", sys.stdin.readline().strip(), flush=True)
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

    def type(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._descriptor)[3] & termios.ECHO)

    def rest(self) -> str:
        try:
            while piece := os.read(self._descriptor, 65_536):
                self.seen += piece.decode("utf-8", "replace")
        except OSError:
            pass
        return self.seen


@contextmanager
def drawing(
    program: str = DRAWING, *arguments: str, passed: Sequence[int] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    """A program that draws a tree. In a session of its own Ctrl-Z does not stop it, as no shell could continue it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True, pass_fds=passed
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


def test_keys_are_not_echoed_into_the_picture_and_are_again_afterwards() -> None:
    with drawing() as (process, terminal):
        terminal.until("a\\.py")
        assert not terminal.echoes
        process.send_signal(signal.SIGTSTP)
        terminal.until(re.escape(SHOWN))
        terminal.until(f"{re.escape(HIDDEN)}.*a\\.py")
        assert not terminal.echoes
        process.send_signal(signal.SIGINT)
        terminal.rest()
        assert terminal.echoes


def test_what_was_typed_before_something_is_asked_does_not_answer_it() -> None:
    told, tell = os.pipe()
    try:
        with drawing(ASKING, str(told), passed=[told]) as (_, terminal):
            terminal.until("a\\.py")
            terminal.type(b"y\n")
            os.write(tell, b".")
            terminal.until("May it")
            terminal.type(b"no\n")
            assert "answered no" in terminal.until("answered \\w+")
    finally:
        os.close(told)
        os.close(tell)

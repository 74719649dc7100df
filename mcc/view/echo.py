"""Keys that are typed while a picture is drawn: the terminal would echo them into it, and move it by a line."""

import os
import sys
import termios
from contextlib import suppress
from typing import Any


class Echo:
    """The echo of the terminal at stdin, while this process is in its foreground: another one would be stopped."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def off(self) -> None:
        with suppress(OSError, ValueError, termios.error):
            terminal = sys.stdin.fileno()
            if self._before is None and os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp():
                before = termios.tcgetattr(terminal)
                termios.tcsetattr(terminal, termios.TCSANOW, [*before[:3], before[3] & ~termios.ECHO, *before[4:]])
                self._before = before

    def on(self, *, forget: bool = False) -> None:
        """As it was before `off`. `forget` what was typed since: nobody has seen it, and it answers nothing that is
        asked now."""
        with suppress(OSError, ValueError, termios.error):
            if self._before is not None and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp():
                when = termios.TCSAFLUSH if forget else termios.TCSANOW
                termios.tcsetattr(sys.stdin.fileno(), when, self._before)
        self._before = None

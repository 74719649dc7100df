"""Output as a terminal leaves it: what overwrites its line with carriage returns, backspaces or cursor moves is shown
once, as it was in the end."""

from drone.sandbox.child import Captured
from drone.tools.frame.display_text import strip_controls
from mcc.rules.patterns import Pattern

FRAMES = 16
"""Frames between carriage returns that are kept of one line while an output arrives."""

OPEN_BYTES = 8_192
"""Bytes of an unfinished line that wait for what overwrites them."""

WIDTH = 1_000
"""Columns that the cursor can be moved to."""

HEIGHT = 60
"""Lines, counted from the last, that the cursor can be moved to."""

PADDING = 100_000
"""Blanks that cursor moves add to a text at most; what is written behind them stands without them."""

_MOVES = Pattern(r"(?:\x1b\[|\x{9b})[0-9]*[ABCDEFGJK]|\x1bM")
_LINE_BEGINS = (b"\x1b[G", b"\x1b[0G", b"\x1b[1G")
"""Moves to the first column, which are carriage returns by another name."""

_LARGEST = 10_000


class Overwriting:
    """An output of any length as it arrives, without the frames of progress bars that were overwritten long ago.

    `written`: all bytes that were added. What was overwritten takes no room from what stays.
    """

    def __init__(self, into: Captured) -> None:
        self.written = 0
        self._into = into
        self._open = b""

    def add(self, piece: bytes) -> None:
        self.written += len(piece)
        data = self._open + piece
        for begin in _LINE_BEGINS:
            data = data.replace(begin, b"\r")
        end = data.rfind(b"\n") + 1
        finished, self._open = data[:end], _last_frames(data[end:])
        if finished.count(b"\r") - finished.count(b"\r\n") > FRAMES:
            finished = b"\n".join(map(_last_frames, finished.split(b"\n")))
        self._into.add(finished)
        if len(self._open) > OPEN_BYTES:
            self._into.add(self._open)
            self._open = b""

    @property
    def head(self) -> bytes:
        return self._into.head if self._into.left_out or self._into.tail else self._into.head + self._open

    @property
    def tail(self) -> bytes:
        return self._into.tail + self._open if self._into.left_out or self._into.tail else b""

    @property
    def total(self) -> int:
        """Bytes of what stays."""
        return self._into.total + len(self._open)


def _last_frames(line: bytes) -> bytes:
    """A line without all but its last frames, unless the others moved the cursor to other lines."""
    if line.count(b"\r") <= FRAMES:
        return line
    dropped, *kept = line.rsplit(b"\r", FRAMES)
    return line if _goes_up_or_down(dropped) else b"\r" + b"\r".join(kept)


def _goes_up_or_down(line: bytes) -> bool:
    sequences = (part.lstrip(b"0123456789")[:1] for part in line.split(b"\x1b[")[1:])
    return b"\x1bM" in line or any(last in (b"A", b"B", b"E", b"F", b"J") for last in sequences)


def rendered(text: str) -> str:
    """`text` without control sequences, as it looks after all of them. Linear in its length.

    The cursor moves within the last `HEIGHT` lines. What clears the screen or jumps to a place of it changes nothing,
    so that no earlier line is lost.
    """
    plain = text.replace("\r\n", "\n")
    if not _moves(plain):
        return strip_controls(plain)
    screen = _Screen()
    for number, line in enumerate(plain.split("\n")):
        if number:
            screen.line_feed()
        if _moves(line):
            _play(line, screen)
        else:
            screen.write(strip_controls(line))
    return screen.text()


def _moves(text: str) -> bool:
    return "\r" in text or "\b" in text or (_may_have_sequences(text) and _MOVES.search(text) is not None)


def _may_have_sequences(text: str) -> bool:
    return "\x1b" in text or "\x9b" in text


def _play(line: str, screen: "_Screen") -> None:
    for number, frame in enumerate(line.split("\r")):
        if number:
            screen.move("\r")
        for step, part in enumerate(frame.split("\b")):
            if step:
                screen.move("\b")
            if part:
                _play_sequences(part, screen)


def _play_sequences(line: str, screen: "_Screen") -> None:
    if not _may_have_sequences(line):
        screen.write(strip_controls(line))
        return
    at = 0
    for move in _MOVES.finditer(line):
        screen.write(strip_controls(line[at : move.start()]))
        at = move.end()
        screen.move(move[0])
    screen.write(strip_controls(line[at:]))


class _Screen:
    """Lines, and a cursor in one of the last ones. A line is a list of characters once it is written into."""

    def __init__(self) -> None:
        self._lines: list[list[str] | str] = [""]
        self._row = self._column = 0
        self._padding = PADDING

    def text(self) -> str:
        # A line that was written over may end in the blanks that wiped it out.
        return "\n".join(line if isinstance(line, str) else "".join(line).rstrip(" ") for line in self._lines)

    def line_feed(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._lines):
            self._lines.append("")

    def write(self, text: str) -> None:
        if not text:
            return
        if self._lines[self._row] == "" and not self._column:
            self._lines[self._row], self._column = text, len(text)
            return
        cells = self._cells()
        if (gap := min(self._column - len(cells), self._padding)) > 0:
            self._padding -= gap
            cells += " " * gap
        self._column = min(self._column, len(cells))
        cells[self._column : self._column + len(text)] = text
        self._column += len(text)

    def _cells(self) -> list[str]:
        line = self._lines[self._row]
        if isinstance(line, list):
            return line
        self._lines[self._row] = cells = list(line)
        return cells

    def move(self, sequence: str) -> None:
        if sequence in "\b\r":
            self._cells()
            self._column = 0 if sequence == "\r" else max(0, self._column - 1)
            return
        digits = sequence.strip("\x1b\x9b[")[:-1]
        count = min(int(digits[:5]), _LARGEST) if digits else 0
        match sequence[-1]:
            case "A" | "M" | "F":
                self._row = max(0, len(self._lines) - HEIGHT, self._row - max(1, count))
            case "B" | "E":
                self._row = min(len(self._lines) - 1, self._row + max(1, count))
            case "C":
                self._column = max(self._column, min(WIDTH, self._column + max(1, count)))
            case "D":
                self._column = max(0, self._column - max(1, count))
            case "G":
                self._column = min(WIDTH, max(1, count) - 1)
        self._column = 0 if sequence[-1] in "EF" else self._column
        if sequence[-1] in "JK":
            self._erase(sequence[-1], count)

    def _erase(self, what: str, part: int) -> None:
        """Erase in the line (`K`): from the cursor on, up to it, or all; or from the cursor to the end (`J`)."""
        if what == "J" and part != 0:
            return
        cells = self._cells()
        if part in (1, 2):
            cells[: self._column + 1] = " " * min(len(cells), self._column + 1)
        if part in (0, 2):
            del cells[self._column if part == 0 else 0 :]
        if what == "J":
            del self._lines[self._row + 1 :]

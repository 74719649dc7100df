"""The logs of a family as one: the last lines of each process in the order of their times, then what is added."""

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOOK_SECONDS = 0.3
MOST_BYTES = 200_000
"""Of each log so much of its end is read."""

_KNOWN = ("event", "level", "logger", "timestamp")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log of `process`; `at` is its time as it says it, or that of the line before, "" for none."""

    process: str
    at: str
    text: str


@dataclass(slots=True)
class Log:
    """One file, read on from where the last reading ended; a file that was emptied or replaced from its beginning."""

    process: str
    path: Path
    _inode: int = 0
    _read: int = 0
    _rest: bytes = b""
    _at: str = field(default="")

    def lines(self) -> Iterator[Line]:
        """What is new, whole lines only."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._read:
                    self._inode, self._read, self._rest = found.st_ino, max(0, found.st_size - MOST_BYTES), b""
                file.seek(self._read)
                content = file.read(MOST_BYTES)
        except OSError:
            return
        self._read += len(content)
        *whole, self._rest = (self._rest + content).split(b"\n")
        for line in whole:
            yield self._line(line.decode("utf-8", "replace"))

    def _line(self, text: str) -> Line:
        at, shown = _read(text)
        self._at = at or self._at
        return Line(self.process, self._at, shown)


def logs_in(directory: Path) -> Sequence[Log]:
    return [Log(file.stem, file) for file in sorted(directory.glob("*.log"))]


def last_lines(logs: Sequence[Log], count: int) -> Sequence[Line]:
    """The last `count` lines of each, in the order of their times."""
    return sorted((line for log in logs for line in deque(log.lines(), maxlen=count)), key=lambda line: line.at)


def following(logs: Sequence[Log], look_seconds: float = LOOK_SECONDS) -> Iterator[Line]:
    """What is added, without end."""
    while True:
        yield from sorted((line for log in logs for line in log.lines()), key=lambda line: line.at)
        time.sleep(look_seconds)


def _read(text: str) -> tuple[str, str]:
    """The time of a line, and the line as people read it: an event, then what else it says."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return "", text
    if not isinstance(said, dict) or "event" not in said:
        return "", text
    more = " ".join(f"{name}={value}" for name, value in said.items() if name not in _KNOWN)
    level = "" if said.get("level") in (None, "info") else f"{said['level']}: "
    return str(said.get("timestamp", "")), f"{level}{said['event']}{' ' if more else ''}{more}"

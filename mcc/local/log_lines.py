"""The logs of all processes of a data directory, merged by time: their last lines, then new ones as they are added."""

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOOK_SECONDS = 0.3
MOST_BYTES = 200_000
"""How much of the end of each log is read."""

_STANDARD_KEYS = ("event", "level", "logger", "timestamp")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log of `process`. `at`: its own timestamp, else that of the line before, "" for none."""

    process: str
    at: str
    text: str


@dataclass(slots=True)
class Log:
    """One log file. Each reading continues where the last one ended, or starts anew where the file was emptied or
    replaced."""

    process: str
    path: Path
    _inode: int = 0
    _offset: int = 0
    _rest: bytes = b""
    _at: str = field(default="")

    def lines(self) -> Iterator[LogLine]:
        """The lines added since the last reading, complete ones only."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset, self._rest = status.st_ino, max(0, status.st_size - MOST_BYTES), b""
                file.seek(self._offset)
                content = file.read(MOST_BYTES)
        except OSError:
            return
        self._offset += len(content)
        *complete, self._rest = (self._rest + content).split(b"\n")
        for line in complete:
            yield self._line(line.decode("utf-8", "replace"))

    def _line(self, text: str) -> LogLine:
        at, shown = _for_people(text)
        self._at = at or self._at
        return LogLine(self.process, self._at, shown)


def logs_in(directory: Path) -> Sequence[Log]:
    return [Log(file.stem, file) for file in sorted(directory.glob("*.log"))]


def last_lines(logs: Sequence[Log], count: int) -> Sequence[LogLine]:
    """The last `count` lines of each log, sorted by time."""
    return sorted((line for log in logs for line in deque(log.lines(), maxlen=count)), key=lambda line: line.at)


def following(logs: Sequence[Log], look_seconds: float = LOOK_SECONDS) -> Iterator[LogLine]:
    """Lines as they are added, endlessly; sorted by time within each look."""
    while True:
        yield from sorted((line for log in logs for line in log.lines()), key=lambda line: line.at)
        time.sleep(look_seconds)


def _for_people(text: str) -> tuple[str, str]:
    """The timestamp of a line, "" for none, and its text: of a JSON line the event and then its other keys."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return "", text
    if not isinstance(record, dict) or "event" not in record:
        return "", text
    more = " ".join(f"{name}={value}" for name, value in record.items() if name not in _STANDARD_KEYS)
    level = "" if record.get("level") in (None, "info") else f"{record['level']}: "
    return str(record.get("timestamp", "")), f"{level}{record['event']}{' ' if more else ''}{more}"

"""This room is for the log of a child: a file that its output is appended to, kept small."""

import contextlib
import os
import shutil
from collections import deque
from dataclasses import dataclass
from pathlib import Path

LARGEST_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class LogFile:
    """`path` holds at most about `largest` bytes, and `path`.1 what was there before."""

    path: Path
    largest: int = LARGEST_BYTES

    @property
    def older(self) -> Path:
        return self.path.with_name(self.path.name + ".1")

    def rotate(self) -> None:
        """Set aside what an earlier family wrote."""
        if self.path.exists():
            self.path.replace(self.older)

    def open(self) -> int:
        """A descriptor to append with, readable by the owner alone; the caller closes it."""
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(self, line: str) -> None:
        """Append a line; a disk that is full, or a directory that is gone, is no reason to fail."""
        with contextlib.suppress(OSError):
            descriptor = self.open()
            try:
                os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
            finally:
                os.close(descriptor)

    def bound(self) -> None:
        """Copy a file that grew too large and empty it; its writer appends, so it need not know.

        Where there is no room for the copy, what was there before is gone.
        """
        if not self.path.exists() or self.path.stat().st_size <= self.largest:
            return
        try:
            shutil.copyfile(self.path, self.older)
            self.older.chmod(0o600)
        except OSError:
            self.older.unlink(missing_ok=True)
        os.truncate(self.path, 0)

    def tail(self, lines: int = 8) -> str:
        """The last lines, as text."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                return "".join(deque(file, maxlen=lines)).rstrip()
        except OSError:
            return ""

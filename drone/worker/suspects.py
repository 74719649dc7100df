"""Orders that froze a drone of this machine, as its reaper noted before it was lost: they are not tried again."""

from contextlib import suppress
from pathlib import Path


class Suspects:
    """A directory that all drones of one data directory share, with a file for each such order."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def made(self) -> Path:
        """The directory; it is there now."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._directory

    def holds(self, order_id: str) -> bool:
        """Whether the order was noted."""
        return (self._directory / order_id).exists()

    def forget(self, order_id: str) -> None:
        """It has ended: nobody tries it any more."""
        with suppress(OSError):
            (self._directory / order_id).unlink(missing_ok=True)

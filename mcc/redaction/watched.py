"""The redactor of a process that goes on: a secret that is written into a file later is known from then on."""

from collections.abc import Callable, Iterable
from pathlib import Path

from mcc.redaction.redactor import Redactor


class WatchedSecrets:
    """Answers the redactor of this moment. What is read anew when one of `files` is made or replaced are all `secrets`;
    one that is replaced stays secret. Safe for many threads."""

    def __init__(self, files: Iterable[Path], secrets: Callable[[], frozenset[str]]) -> None:
        self._files = tuple(files)
        self._secrets = secrets
        self._known: frozenset[str] = frozenset()
        self._last: tuple[object, Redactor] | None = None

    def __call__(self) -> Redactor:
        marks, last = tuple(map(_mark, self._files)), self._last
        if last is None or last[0] != marks:
            self._known |= self._secrets()
            last = self._last = (marks, Redactor(self._known))
        return last[1]


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is made or replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

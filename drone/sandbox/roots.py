"""The directories under which orders may name a workspace, and how one is opened: once, without a link on the way."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread

from drone.sandbox.beneath import open_by_components, openat2, works
from drone.sandbox.paths import PathDenied, PathError, Workspace, shown
from drone.sandbox.private import Private

ANSWER_SECONDS = 5.0
"""A root whose file system says nothing for so long is not waited for when a drone starts."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK


class Roots:
    """Allowed roots, each resolved when this object is made: what takes their place later is not followed.

    One whose file system does not answer within `answer_seconds` is resolved when an order first names it and is
    answered. `private` is what lies in none of their workspaces for any tool. Safe for many threads.
    """

    def __init__(
        self,
        roots: Iterable[str | Path],
        private: Private | None = None,
        *,
        resolve: Callable[[str], str] = os.path.realpath,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._resolve = resolve
        self._real: dict[str, Path | None] = dict.fromkeys(map(os.path.abspath, roots))
        self._private = private or Private()
        looks = [Thread(target=self._look_at, args=(root,), daemon=True) for root in self._real]
        give_up = time.monotonic() + answer_seconds
        for look in looks:
            look.start()
        for look in looks:
            look.join(max(give_up - time.monotonic(), 0.0))

    def __bool__(self) -> bool:
        return bool(self._real)

    def covering(self, asked: str, real: Path) -> Path | None:
        """The root under which a path lies that was resolved to `real`. Blocks."""
        root = self.named_by(asked)
        if root in self._real:
            self._look_at(root)
        return next((root for root in self._real.values() if root is not None and real.is_relative_to(root)), None)

    def _look_at(self, root: str) -> None:
        if self._real[root] is None:
            self._real[root] = Path(self._resolve(root))

    def named_by(self, asked: str) -> str:
        """The innermost root that a path names as it is written, "" when it names none: no file system is asked."""
        path = Path(os.path.abspath(asked))
        known = {*self._real, *map(str, filter(None, self._real.values()))}
        return max((root for root in known if path.is_relative_to(root)), key=len, default="")

    def opened(self, asked: str) -> Workspace:
        """The workspace that an order names: its path is resolved once, then opened from its root on without a link.

        Raises `PathError` with a sentence. Blocks.
        """
        if not os.path.isabs(asked):
            raise PathError(f"The workspace {shown(asked)} is not an absolute path.")
        real = resolved(asked)
        root = self.covering(asked, real)
        if root is None:
            allowed = ", ".join(str(real or root) for root, real in self._real.items()) or "none"
            raise PathDenied(
                f"The workspace {shown(asked)} lies outside this drone's allowed roots ({allowed}); "
                "add its parent to DRONE_WORKSPACE_ROOTS or choose another."
            )
        try:
            fd = _descended(root, real)
        except (OSError, ValueError) as error:
            if not os.path.isdir(asked):
                raise PathError(f"The workspace {shown(asked)} is not a directory on this drone's machine.") from error
            why = getattr(error, "strerror", None) or "a part of it is being replaced"
            raise PathError(f"The workspace {shown(asked)} cannot be opened: {why}.") from error
        workspace = Workspace(real, fd=fd, also=asked, private=self._private)
        if self._private.around(fd):
            raise PathDenied(
                f"The workspace {shown(asked)} lies inside MCC's own data, configuration or secrets, which no agent "
                "may see: name a directory outside of them, or let MCC keep its data elsewhere (--data-dir, "
                "MCC_DATA_DIR)."
            )
        return workspace


def resolved(path: str) -> Path:
    """The path without links, as far as it can be told; nobody is let in by it."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return Path(os.path.abspath(path))


def _descended(root: Path, real: Path) -> int:
    """A descriptor for `real`, which lies under `root`. Raises OSError, ELOOP when a link is on the way by now."""
    top = os.open("/", _DIRECTORY)
    try:
        held = _beneath(top, os.path.relpath(root, "/"))
    finally:
        os.close(top)
    try:
        return _beneath(held, os.path.relpath(real, root))
    finally:
        os.close(held)


def _beneath(directory: int, path: str) -> int:
    opening = openat2 if works(directory) else open_by_components
    return opening(directory, os.fsencode(path), _DIRECTORY, 0, symlinks=False)

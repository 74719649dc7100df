"""Protected paths of a workspace that a program may write to: mounted read-only, and looked at again at its end."""

import errno
import os
from collections.abc import Iterator, Sequence

from drone.sandbox.afterwards import Top, contents, undone
from drone.sandbox.below import path_of
from drone.sandbox.beneath import opened_beneath
from drone.sandbox.placeholders import Placeholders, remove
from drone.sandbox.private import identity
from drone.sandbox.protected import GIT, Protected
from drone.sandbox.survey import Spot, directories, spots_in, survey

ALSO_WHEN_MISSING = (
    *(".mcc", ".mcc-workspace", "mcc.toml", ".mcp.json", "AGENTS.md", "CLAUDE.md"),
    *(".gitmodules", ".env", ".envrc", ".vscode", ".idea"),
)
"""Of a workspace itself: what programs of its user would take up as soon as it is there."""

OF_A_REPOSITORY_WHEN_MISSING = ("hooks", "info")
"""Of a repository: git could not work beside what stood for its other files."""

MOST_MOUNTED = 500
"""Protected paths of one workspace; bubblewrap takes some 0.2 ms for each."""

FIXED = Protected()

_HELD = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTHING = "/dev/null"


def swept(root: int, *, whole: bool) -> None:
    """Take away what stands for missing paths since a process was killed; to be called while nobody may write there,
    as a program that does loses its walls with it. `whole`: from all directories, not from the topmost alone.

    Blocks; raises OSError when it cannot be looked through.
    """
    for directory in directories(root, []):
        for spot in spots_in(directory, FIXED):
            if spot.is_placeholder:
                remove(directory.fd, spot.name)
            elif spot.name in directory.into:
                directory.into.remove(spot.name)
        if not whole:
            return


class Guard:
    """Of one program. Blocks, for as long as it takes to look through its directories; close it when it has ended."""

    def __init__(self, protected: Protected, placeholders: Placeholders, *, by_descriptor: bool = True) -> None:
        self._protected = protected
        self._placeholders = placeholders
        self._by_descriptor = by_descriptor
        self._tops: list[Top] = []
        self._put: list[tuple[int, str]] = []
        self._options: list[str] = []
        self._fds: list[int] = []

    @property
    def holds(self) -> bool:
        """Whether there is anything to guard."""
        return bool(self._tops)

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(self._options)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._fds)

    def over(self, directory: int, at: str) -> None:
        """Guard this directory, which is seen at `at`. Raises OSError when it cannot be looked through."""
        before = survey(directory, self._protected)
        top = Top(os.dup(directory), at, before, contents(directory, before.attributes))
        self._tops.append(top)
        for path in before.repositories:
            self._repository(top, path)
        if "" not in before.repositories:
            self._missing(top, "", (*ALSO_WHEN_MISSING, GIT))
        paths = [spot.path for spot in before.spots if spot.linked_to is None and not spot.is_placeholder]
        paths += [path for path in _led_to(before.spots) if path not in paths]
        if len(paths) > MOST_MOUNTED:
            raise OSError(errno.E2BIG, f"it has more than {MOST_MOUNTED} protected files and directories")
        for path in paths:
            self._mount(top, path)
        top.guarded.update((spot.parent, spot.name) for spot in before.spots if spot.linked_to is None)
        for path in before.sockets:
            self._options += ("--ro-bind", _NOTHING, os.path.join(top.at, path))

    def _repository(self, top: Top, path: str) -> None:
        """The directory itself is a mount, as one of those cannot be moved away."""
        if path:
            self._mount(top, path, "--bind")
        self._missing(top, path, OF_A_REPOSITORY_WHEN_MISSING)

    def _missing(self, top: Top, path: str, names: Sequence[str]) -> None:
        try:
            directory = opened_beneath(top.fd, path or ".", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return
        placed = [name for name in names if self._placeholders.put(directory, name)]
        for name in placed:
            self._put.append((directory, name))
            top.guarded.add((identity(os.fstat(directory)), name))
            self._options += ("--ro-bind", _NOTHING, os.path.join(top.at, path, name))
        if not placed:
            os.close(directory)

    def _mount(self, top: Top, path: str, kind: str = "--ro-bind") -> None:
        try:
            fd = opened_beneath(top.fd, path, _HELD)
        except OSError:
            return
        self._fds.append(fd)
        what = (f"{kind}-fd", str(fd)) if self._by_descriptor else (kind, path_of(fd) or "")
        self._options += (*what, os.path.join(top.at, path))

    def undone(self) -> tuple[str, ...]:
        """Sentences about what the program made or changed of what is protected, which was put aside."""
        return tuple(told for top in self._tops for told in undone(top, self._protected))

    def close(self) -> None:
        for directory, name in self._put:
            self._placeholders.take(directory, name)
        for fd in {*self._fds, *(directory for directory, _ in self._put), *(top.fd for top in self._tops)}:
            os.close(fd)
        self._put, self._fds, self._tops = [], [], []


def _led_to(spots: Sequence[Spot]) -> Iterator[str]:
    """Where those that are links lead to."""
    for spot in spots:
        if spot.linked_to is not None and not spot.linked_to.startswith("/"):
            path = os.path.normpath(os.path.join(os.path.dirname(spot.path), spot.linked_to))
            if path != "." and not path.startswith("../"):
                yield path

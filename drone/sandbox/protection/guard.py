"""The guard over protected paths of a writable workspace: mounted read-only, and checked again when a program ends."""

import errno
import os
from collections.abc import Iterator, Sequence

from drone.sandbox.places.beneath import opened_beneath
from drone.sandbox.places.mounts import path_of
from drone.sandbox.places.private import identity
from drone.sandbox.protection.placeholders import Placeholders, remove
from drone.sandbox.protection.protected import Protected
from drone.sandbox.protection.quarantine import MOST_TOLD, Quarantine, Top, contents
from drone.sandbox.protection.setid import now_ns, strip_setid
from drone.sandbox.protection.survey import Spot, directories, spots_in, survey
from drone.sandbox.protection.watch import Watch

ALSO_WHEN_MISSING = (
    *(".mcc", ".mcc-workspace", "mcc.toml", ".mcp.json", "AGENTS.md", "CLAUDE.md"),
    *(".gitmodules", ".env", ".envrc", ".vscode", ".idea"),
)
"""Names in the root of a workspace that are guarded even while they are missing: the user's programs would load such a
file as soon as it exists. No `.git`: a command may make a repository there."""

OF_A_REPOSITORY_WHEN_MISSING = ("hooks", "info")
"""The same in a git directory. Its other protected files get no placeholder: git could not work beside one."""

MOST_MOUNTED = 1_000
"""Most protected paths of one workspace; bubblewrap needs some 0.2 ms to mount each."""

FIXED = Protected()

_HELD = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTHING = "/dev/null"


def sweep_placeholders(root: int, *, whole: bool) -> None:
    """Remove the placeholders that a killed process left behind. Call it while no program may write to the workspace:
    a running one would lose its guard. `whole`: from all directories, otherwise from the root only.

    Blocks. Raises OSError when the workspace cannot be looked through.
    """
    for directory in directories(root, []):
        for spot in spots_in(directory, FIXED):
            if spot.is_placeholder:
                remove(directory.fd, spot.name)
            elif spot.name in directory.into:
                directory.into.remove(spot.name)
        if not whole:
            return


class PathGuard:
    """Guards the protected paths of one program's directories. Its methods block while they look through those
    directories. Close it when the program has ended."""

    def __init__(self, protected: Protected, placeholders: Placeholders, *, by_descriptor: bool = True) -> None:
        self._protected = protected
        self._placeholders = placeholders
        self._by_descriptor = by_descriptor
        self._tops: list[Quarantine] = []
        self._watch = Watch()
        self._put: list[tuple[int, str]] = []
        self._options: list[str] = []
        self._fds: list[int] = []
        self._since_ns = 0

    @property
    def holds(self) -> bool:
        """Whether it covers any directory."""
        return bool(self._tops)

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(self._options)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._fds)

    def cover(self, directory: int, at: str) -> None:
        """Guard this directory, which is mounted at `at`. Raises OSError when it cannot be looked through."""
        self._since_ns = self._since_ns or now_ns()
        before = survey(directory, self._protected)
        top = Top(os.dup(directory), at, before, contents(directory, before.attributes))
        self._tops.append(Quarantine(top, self._protected))
        for path in before.repositories.values():
            if path:
                # The git directory itself becomes a mount point, because a mount point cannot be renamed.
                self._mount(top, path, "--bind")
            self._put_placeholders(top, path, OF_A_REPOSITORY_WHEN_MISSING)
        if "" not in before.repositories.values():
            wanted = (name for name in ALSO_WHEN_MISSING if self._protected.covers(name, name))
            self._put_placeholders(top, "", tuple(wanted))
        paths = [spot.path for spot in before.spots if spot.linked_to is None and not spot.is_placeholder]
        paths += [path for path in _link_targets(before.spots) if path not in paths]
        if len(paths) > MOST_MOUNTED:
            raise OSError(errno.E2BIG, f"it has more than {MOST_MOUNTED} protected files and directories")
        for path in paths:
            self._mount(top, path)
        top.guarded.update((spot.parent, spot.name) for spot in before.spots if spot.linked_to is None)
        for path in before.sockets:
            self._options += ("--ro-bind", _NOTHING, os.path.join(top.at, path))

    def _put_placeholders(self, top: Top, path: str, names: Sequence[str]) -> None:
        """Put a placeholder for each missing name of the directory `path`, and mount /dev/null over it."""
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

    def watch(self) -> None:
        """From now on, while the program runs, put aside what it makes. Ends with `undo`."""
        self._watch.begin(self._tops)

    def undo(self) -> tuple[str, ...]:
        """Move protected paths that the program made or changed to quarantine, and take setuid, setgid and capabilities
        from files; sentences about them."""
        self._watch.end()
        for top in self._tops:
            top.finish()
        moved = [sentence for top in self._tops for sentence in top.sentences]
        return (*moved, *(sentence for one in self._tops for sentence in self._lowered(one.top)))

    def _lowered(self, top: Top) -> Iterator[str]:
        try:
            stripped = strip_setid(top.fd, self._since_ns)
        except OSError as error:
            yield f"{top.at} could not be looked through for files with setuid or setgid: {error.strerror or error}."
            return
        for path in stripped[:MOST_TOLD]:
            yield f"{top.shown(path)} had setuid, setgid or capabilities: they were taken away."
        if len(stripped) > MOST_TOLD:
            yield f"And {len(stripped) - MOST_TOLD:,} more such files."

    def close(self) -> None:
        self._watch.end()
        for directory, name in self._put:
            self._placeholders.take(directory, name)
        for fd in {*self._fds, *(directory for directory, _ in self._put), *(one.top.fd for one in self._tops)}:
            os.close(fd)
        self._put, self._fds, self._tops = [], [], []


def _link_targets(spots: Sequence[Spot]) -> Iterator[str]:
    """The targets, within the directory, of the spots that are relative symbolic links."""
    for spot in spots:
        if spot.linked_to is not None and not spot.linked_to.startswith("/"):
            path = os.path.normpath(os.path.join(os.path.dirname(spot.path), spot.linked_to))
            if path != "." and not path.startswith("../"):
                yield path

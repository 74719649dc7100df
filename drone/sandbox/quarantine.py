"""Quarantine: after a program with write access has ended, protected paths that it made or changed are moved away."""

import errno
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from drone.sandbox.beneath import opened_beneath
from drone.sandbox.host_lock import IGNORE, MARKER
from drone.sandbox.placeholders import remove
from drone.sandbox.private import Identity
from drone.sandbox.protected import ATTRIBUTES, Protected, plain, refused_attributes
from drone.sandbox.survey import Directory, Spot, Survey, directories, is_repository, spot_of, spots_in

QUARANTINE = f"{MARKER}/refused"
"""Where refused files go, below the directory that they were found in: no program loads anything from there."""

MOST_TOLD = 20

_MOST_BYTES = 100_000
_TRIES = 3
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_OBJECTS = ("objects", "refs", "logs")


@dataclass(slots=True)
class Top:
    """A directory that a program may write to: open as `fd`, mounted at `at`; `before` is its survey before the start.

    `attributes` maps the paths of its `.gitattributes` files to their contents. `guarded` names the mounted spots by
    directory and name: the program cannot replace a mount point, so if one was replaced, somebody else did it.
    """

    fd: int
    at: str
    before: Survey
    attributes: dict[str, bytes]
    guarded: set[tuple[Identity, str]] = field(default_factory=set)


def contents(root: int, paths: Sequence[str]) -> dict[str, bytes]:
    """Path and content of these files; irregular files and files over 100,000 bytes are left out."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = _content(root, path)
    return found


def undo_changes(top: Top, protected: Protected) -> tuple[str, ...]:
    """Move new protected paths to quarantine and restore changed ones. Answers sentences that say so. Blocks."""
    walk = _Walk(top, protected)
    for _ in range(_TRIES):
        try:
            walk.run()
            break
        except OSError as error:
            # ESTALE: another process still runs in the directory and moves directories about, so try again.
            if error.errno != errno.ESTALE:
                walk.say(f"{top.at} could not be looked through for protected files: {error.strerror or error}.")
                break
    else:
        walk.say(f"{top.at} could not be looked through for protected files: its directories are being moved.")
    walk.restore_links()
    more = len(walk.sentences) - MOST_TOLD
    return (*walk.sentences[:MOST_TOLD], *((f"And {more} more of them.",) if more > 0 else ()))


class _Walk:
    """One pass through a directory; `sentences` holds each sentence once."""

    def __init__(self, top: Top, protected: Protected) -> None:
        self.sentences: list[str] = []
        self._top = top
        self._protected = protected
        self._known = {spot.what for spot in top.before.spots}
        lines = (line for content in top.attributes.values() for line in refused_attributes(_text(content)))
        self._lines_before = set(lines)

    def say(self, sentence: str) -> None:
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def run(self) -> None:
        """Raises OSError: ESTALE when directories are moved meanwhile."""
        shut: list[str] = []
        for directory in directories(self._top.fd, shut, every=self._protected.has_globs):
            if directory.path() == QUARANTINE:
                directory.into = []
                continue
            for spot in spots_in(directory, self._protected):
                self._judge_spot(directory, spot)
            for name in directory.names:
                if plain(name) == ATTRIBUTES:
                    self._judge_attributes(directory, name)
            if is_repository(directory):
                directory.into = [name for name in directory.into if name not in _OBJECTS]
        for path in set(shut) - set(self._top.before.shut):
            self.say(f"{self._shown(path)} cannot be looked into, so protected files in there were not found.")

    def _judge_spot(self, directory: Directory, spot: Spot) -> None:
        was_mounted = (spot.parent, spot.name) in self._top.guarded
        if not (spot.is_placeholder or spot.what in self._known or was_mounted):
            self._put_aside(directory, spot.name, "is protected: what was made there")
        elif spot.name in directory.into and spot.name != MARKER:
            directory.into.remove(spot.name)

    def _judge_attributes(self, directory: Directory, name: str) -> None:
        try:
            content = _content(directory.fd, name)
        except OSError as error:
            if error.errno != errno.EFBIG:
                return
            refused = True
        else:
            refused = not self._lines_before.issuperset(refused_attributes(_text(content)))
        path = directory.path(name)
        if refused and (path in self._top.attributes or path not in self._top.before.attributes):
            self._put_aside(directory, name, "may have no new lines with filter, diff or merge: what was written there")
            if (former := self._top.attributes.get(path)) is not None:
                _write(directory.fd, name, former)

    def restore_links(self) -> None:
        """Put back protected symbolic links that were replaced or removed."""
        for spot in self._top.before.spots:
            if spot.linked_to is None:
                continue
            with suppress(OSError):
                parent = opened_beneath(self._top.fd, os.path.dirname(spot.path) or ".", _DIRECTORY)
                try:
                    self._restore_link(Directory(spot.path.split("/")[:-1], parent), spot)
                finally:
                    os.close(parent)

    def _restore_link(self, directory: Directory, spot: Spot) -> None:
        assert spot.linked_to is not None
        now = spot_of(directory, spot.name)
        if now is not None and now.linked_to == spot.linked_to:
            return
        if now is not None:
            self._put_aside(directory, spot.name, "is protected: what was made there")
        os.symlink(spot.linked_to, spot.name, dir_fd=directory.fd)

    def _put_aside(self, directory: Directory, name: str, why: str) -> None:
        path = self._shown(directory.path(name))
        try:
            to = _quarantine(self._top.fd, directory.fd, name)
        except OSError as error:
            self.say(f"{path} {why} could not be taken away: {error.strerror}.")
            return
        self.say(f"{path} {why} is now {self._shown(to)}.")
        if name in directory.into:
            directory.into.remove(name)

    def _shown(self, path: str) -> str:
        whole = path if self._top.at == "/workspace" else os.path.join(self._top.at, path)
        return whole if whole.isprintable() else ascii(whole)


def _quarantine(root: int, directory: int, name: str) -> str:
    """Move `name` of `directory` to quarantine; answers its new path below `root`. Raises OSError."""
    to = f"{secrets.token_hex(4)}-{name}"[:200]
    try:
        home = _quarantine_directory(root)
    except OSError:
        # Something else occupies the quarantine's path: rename in place, to a name that no program looks for.
        to = f".mcc-refused-{secrets.token_hex(4)}"
        os.rename(name, to, src_dir_fd=directory, dst_dir_fd=directory)
        return to
    try:
        os.rename(name, to, src_dir_fd=directory, dst_dir_fd=home)
    finally:
        os.close(home)
    return f"{QUARANTINE}/{to}"


def _quarantine_directory(root: int) -> int:
    """Make and open the quarantine, with a `.gitignore` that hides it from git. Raises OSError."""
    remove(root, MARKER)
    for made in (MARKER, QUARANTINE):
        with suppress(FileExistsError):
            os.mkdir(made, 0o755, dir_fd=root)
    above = opened_beneath(root, MARKER, _DIRECTORY)
    try:
        _write(above, ".gitignore", IGNORE.encode())
    finally:
        os.close(above)
    return opened_beneath(root, QUARANTINE, _DIRECTORY)


def _write(directory: int, name: str, content: bytes) -> None:
    """Write a new file; an existing one stays as it is."""
    with suppress(FileExistsError):
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=directory)
        with open(fd, "wb") as file:
            file.write(content)


def _content(root: int, path: str) -> bytes:
    """The content of a regular file. Raises OSError: EFBIG when it is longer than `_MOST_BYTES`."""
    fd = opened_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, "too long")
    return content


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")

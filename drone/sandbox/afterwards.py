"""After a program that could write has ended: what it made or changed of what is protected is put aside, and told."""

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

ASIDE = f"{MARKER}/refused"
"""Where it is put, below the directory that it was found in: nothing takes anything up from there."""

MOST_TOLD = 20

_MOST_BYTES = 100_000
_TRIES = 3
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_OBJECTS = ("objects", "refs", "logs")


@dataclass(slots=True)
class Top:
    """A directory that a program may write to: open as `fd`, seen at `at`, and what was found in it before.

    `attributes` are the contents of its `.gitattributes`. `guarded`: what was mounted, by its directory and its name:
    what is exchanged there was exchanged by others, as the program cannot.
    """

    fd: int
    at: str
    before: Survey
    attributes: dict[str, bytes]
    guarded: set[tuple[Identity, str]] = field(default_factory=set)


def contents(root: int, paths: Sequence[str]) -> dict[str, bytes]:
    """Of these files, as far as they are regular and not too long."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = _content(root, path)
    return found


def undone(top: Top, protected: Protected) -> tuple[str, ...]:
    """Put aside what was made, put back what was changed; sentences that say so. Blocks."""
    look = _Look(top, protected)
    for _ in range(_TRIES):
        try:
            look.through()
            break
        except OSError as error:
            # Something else still runs in there, and moves directories.
            if error.errno != errno.ESTALE:
                look.say(f"{top.at} could not be looked through for protected files: {error.strerror or error}.")
                break
    else:
        look.say(f"{top.at} could not be looked through for protected files: its directories are being moved.")
    look.links()
    more = len(look.told) - MOST_TOLD
    return (*look.told[:MOST_TOLD], *((f"And {more} more of them.",) if more > 0 else ()))


class _Look:
    """Through one directory."""

    def __init__(self, top: Top, protected: Protected) -> None:
        self.told: list[str] = []
        self._top = top
        self._protected = protected
        self._known = {spot.what for spot in top.before.spots}
        lines = (line for content in top.attributes.values() for line in refused_attributes(_text(content)))
        self._lines_before = set(lines)

    def say(self, sentence: str) -> None:
        if sentence not in self.told:
            self.told.append(sentence)

    def through(self) -> None:
        shut: list[str] = []
        for directory in directories(self._top.fd, shut, every=self._protected.has_globs):
            if directory.path() == ASIDE:
                directory.into = []
                continue
            for spot in spots_in(directory, self._protected):
                self._spot(directory, spot)
            for name in directory.names:
                if plain(name) == ATTRIBUTES:
                    self._attributes(directory, name)
            if is_repository(directory):
                directory.into = [name for name in directory.into if name not in _OBJECTS]
        for path in set(shut) - set(self._top.before.shut):
            self.say(f"{self._shown(path)} cannot be looked into, so protected files in there were not found.")

    def _spot(self, directory: Directory, spot: Spot) -> None:
        theirs = (spot.parent, spot.name) in self._top.guarded
        if not (spot.is_placeholder or spot.what in self._known or theirs):
            self._put_aside(directory, spot.name, "is protected: what was made there")
        elif spot.name in directory.into and spot.name != MARKER:
            directory.into.remove(spot.name)

    def _attributes(self, directory: Directory, name: str) -> None:
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

    def links(self) -> None:
        """Those that stood in a protected place stand there again."""
        for spot in self._top.before.spots:
            if spot.linked_to is None:
                continue
            with suppress(OSError):
                parent = opened_beneath(self._top.fd, os.path.dirname(spot.path) or ".", _DIRECTORY)
                try:
                    self._link(Directory(spot.path.split("/")[:-1], parent), spot)
                finally:
                    os.close(parent)

    def _link(self, directory: Directory, spot: Spot) -> None:
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
            to = _aside(self._top.fd, directory.fd, name)
        except OSError as error:
            self.say(f"{path} {why} could not be taken away: {error.strerror}.")
            return
        self.say(f"{path} {why} is now {self._shown(to)}.")
        if name in directory.into:
            directory.into.remove(name)

    def _shown(self, path: str) -> str:
        whole = path if self._top.at == "/workspace" else os.path.join(self._top.at, path)
        return whole if whole.isprintable() else ascii(whole)


def _aside(root: int, directory: int, name: str) -> str:
    """Moved to a place of its own, by which path below `root`. Raises OSError."""
    to = f"{secrets.token_hex(4)}-{name}"[:200]
    try:
        home = _home(root)
    except OSError:
        # Where its place should be, something else is: then under a name that means nothing to anybody.
        to = f".mcc-refused-{secrets.token_hex(4)}"
        os.rename(name, to, src_dir_fd=directory, dst_dir_fd=directory)
        return to
    try:
        os.rename(name, to, src_dir_fd=directory, dst_dir_fd=home)
    finally:
        os.close(home)
    return f"{ASIDE}/{to}"


def _home(root: int) -> int:
    """The directory for what is put aside, which is made, and ignores itself. Raises OSError."""
    remove(root, MARKER)
    for made in (MARKER, ASIDE):
        with suppress(FileExistsError):
            os.mkdir(made, 0o755, dir_fd=root)
    above = opened_beneath(root, MARKER, _DIRECTORY)
    try:
        _write(above, ".gitignore", IGNORE.encode())
    finally:
        os.close(above)
    return opened_beneath(root, ASIDE, _DIRECTORY)


def _write(directory: int, name: str, content: bytes) -> None:
    """Unless it is there."""
    with suppress(FileExistsError):
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=directory)
        with open(fd, "wb") as file:
            file.write(content)


def _content(root: int, path: str) -> bytes:
    """Raises OSError, EFBIG when it is too long."""
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

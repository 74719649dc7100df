"""Quarantine: protected paths that a program with write access made or changed are moved away."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from drone.sandbox.places.beneath import opened_beneath
from drone.sandbox.places.private import Identity, identity
from drone.sandbox.places.workspace_key import IGNORE, MARKER
from drone.sandbox.protection.git_directories import is_guarded
from drone.sandbox.protection.new_repository import what_is_left
from drone.sandbox.protection.placeholders import remove
from drone.sandbox.protection.protected import ATTRIBUTES, Protected, plain, refused_attributes
from drone.sandbox.protection.survey import (
    Directory,
    Spot,
    TreeSurvey,
    directories,
    is_repository,
    leave_out_objects,
    spot_of,
    spots_in,
)

QUARANTINE = f"{MARKER}/refused"
"""Where refused files go, below the directory that they were found in: no program loads anything from there."""

MOST_TOLD = 20

_MOST_KEPT = 500
_MOST_BYTES = 100_000
_TRIES = 3
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_RENAMED = ".mcc-refused-"
_MADE = "is protected: what was made there"
_DRIVERS = "may have no new lines with filter, diff or merge: what was written there"


@dataclass(slots=True)
class Top:
    """A directory that a program may write to: open as `fd`, mounted at `at`; `before` is its survey before the start.

    `attributes` maps the paths of its `.gitattributes` files to their contents. `guarded` names the mounted spots by
    directory and name: the program cannot replace a mount point, so if one was replaced, somebody else did it.
    """

    fd: int
    at: str
    before: TreeSurvey
    attributes: dict[str, bytes]
    guarded: set[tuple[Identity, str]] = field(default_factory=set)

    def shown(self, path: str) -> str:
        """A path of the directory, as sentences name it."""
        whole = path if self.at == "/workspace" else os.path.join(self.at, path)
        return whole if whole.isprintable() else ascii(whole)


def contents(root: int, paths: Sequence[str]) -> dict[str, bytes]:
    """Path and content of these files; irregular files and files over 100,000 bytes are left out."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = _content(root, path)
    return found


class Quarantine:
    """Judges one top, directory by directory or as a whole, while its program runs and after its end. Its methods
    block; use it in one thread at a time.

    `new_repositories`: the paths of git directories that the program made, as far as they were met.
    """

    def __init__(self, top: Top, protected: Protected) -> None:
        self.top = top
        self.new_repositories: dict[Identity, str] = {}
        self._protected = protected
        self._moved: dict[str, tuple[str, str]] = {}
        self._problems: list[str] = []
        self._more = 0
        self._is_running = True
        self._made_home = False
        self._known = {spot.what for spot in top.before.spots}
        lines = (line for content in top.attributes.values() for line in refused_attributes(_text(content)))
        self._lines_before = set(lines)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was done, the first `MOST_TOLD` of it."""
        moved = (f"{self._shown(path)} {why} is now {self._shown(to)}." for path, (why, to) in self._moved.items())
        told = [*moved, *self._problems]
        more = len(told) - MOST_TOLD + self._more
        return (*told[:MOST_TOLD], *((f"And {more} more of them.",) if more > 0 else ()))

    @property
    def looks_at_every_name(self) -> bool:
        return self._protected.has_globs

    def finish(self) -> None:
        """Judge everything after the program's end: move new protected paths to quarantine, restore changed ones."""
        self._is_running = False
        self._move_on()
        for _ in range(_TRIES):
            try:
                self.judge_everything()
                break
            except OSError as error:
                # ESTALE: another process still runs in the directory and moves directories about, so try again.
                if error.errno != errno.ESTALE:
                    why = error.strerror or error
                    self._say(f"{self.top.at} could not be looked through for protected files: {why}.")
                    break
        else:
            at = self.top.at
            self._say(f"{at} could not be looked through for protected files: its directories are being moved.")
        self.restore_links()

    def judge_everything(self) -> None:
        """One pass through the whole top. Raises OSError: ESTALE when directories are moved meanwhile."""
        shut: list[str] = []
        for directory in directories(self.top.fd, shut, every=self._protected.has_globs):
            self.judge(directory)
        for path in set(shut) - set(self.top.before.shut) if not self._is_running else ():
            self._say(f"{self._shown(path)} cannot be looked into, so protected files in there were not found.")

    def judge(self, directory: Directory) -> None:
        """Judge the entries of this one directory, and take from `into` what nobody need look into."""
        if self._is_aside(directory):
            directory.into = []
            return
        mine = identity(os.fstat(directory.fd))
        is_git = is_repository(directory) or mine in self.top.before.repositories
        is_new = is_git and mine not in self.top.before.repositories
        if is_new and len(self.new_repositories) < _MOST_KEPT:
            self.new_repositories[mine] = directory.path()
        for spot in spots_in(directory, self._protected, is_git=is_git):
            self._judge_spot(directory, spot, is_new=is_new)
        for name in directory.names:
            if plain(name) == ATTRIBUTES:
                self._judge_attributes(directory, name)
        if is_git:
            leave_out_objects(directory)

    def restore_links(self) -> None:
        """Put back protected symbolic links that were replaced or removed."""
        for spot in self.top.before.spots:
            if spot.linked_to is None:
                continue
            with suppress(OSError), _opened(self.top.fd, os.path.dirname(spot.path)) as parent:
                self._restore_link(Directory(spot.path.split("/")[:-1], parent), spot)

    def _judge_spot(self, directory: Directory, spot: Spot, *, is_new: bool) -> None:
        was_mounted = (spot.parent, spot.name) in self.top.guarded or (spot.path == MARKER and self._made_home)
        if spot.is_placeholder or spot.what in self._known or was_mounted:
            if spot.name in directory.into and spot.name != MARKER:
                directory.into.remove(spot.name)
            return
        left = what_is_left(directory.fd, spot.name) if is_new and is_guarded(spot.name) else (spot.name,)
        for path in left:
            self._put_aside(directory, path, _MADE)
        if spot.name in directory.into:
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
        if refused and (path in self.top.attributes or path not in self.top.before.attributes):
            self._put_aside(directory, name, _DRIVERS)
            if (former := self.top.attributes.get(path)) is not None:
                _write(directory.fd, name, former)

    def _restore_link(self, directory: Directory, spot: Spot) -> None:
        assert spot.linked_to is not None
        now = spot_of(directory, spot.name)
        if now is not None and now.linked_to == spot.linked_to:
            return
        if now is not None:
            self._put_aside(directory, spot.name, _MADE)
        os.symlink(spot.linked_to, spot.name, dir_fd=directory.fd)

    def _put_aside(self, directory: Directory, name: str, why: str) -> None:
        """Move what is at `name` of the directory, or one directory below it, to quarantine."""
        path = directory.path(name)
        above, _, last = name.rpartition("/")
        try:
            with _opened(directory.fd, above) as place:
                self._moved[path] = why, self._move(place, last, os.path.dirname(path))
        except FileNotFoundError:
            return  # The program, which still runs, was faster.
        except OSError as error:
            self._say(f"{self._shown(path)} {why} could not be taken away: {error.strerror}.")
        if len(self._moved) > _MOST_KEPT:
            self._more += 1
            del self._moved[path]

    def _move(self, directory: int, name: str, above: str, *, called: str = "") -> str:
        """Move `name` of `directory`, whose path is `above`; answers its new path below the top, which ends with its
        name or what it was `called`. Raises OSError.

        While a program runs that sees a placeholder where the quarantine would be, the file waits in the root under a
        name that no program looks for: the program could write to a directory that were made there.
        """
        if self._is_running and not self._has_home():
            return _renamed(directory, name, self.top.fd)
        try:
            home = _quarantine_directory(self.top.fd)
        except OSError:
            # Something else occupies the quarantine's path: rename in place.
            return os.path.join(above, _renamed(directory, name, directory))
        self._made_home = True
        to = f"{secrets.token_hex(4)}-{called or name}"[:200]
        try:
            os.rename(name, to, src_dir_fd=directory, dst_dir_fd=home)
        finally:
            os.close(home)
        return f"{QUARANTINE}/{to}"

    def _move_on(self) -> None:
        """Move to quarantine what waited in the root for the end of the program."""
        for path, (why, waits) in self._moved.items():
            if waits.startswith(_RENAMED):
                with suppress(OSError):
                    self._moved[path] = why, self._move(self.top.fd, waits, "", called=os.path.basename(path))

    def _is_aside(self, directory: Directory) -> bool:
        """Whether it is the quarantine, or was moved there, or waits for that."""
        at = directory.path()
        if at == QUARANTINE or at.startswith(f"{QUARANTINE}/"):
            return True
        return at.startswith(_RENAMED) and any(to == directory.parts[0] for _, to in self._moved.values())

    def _has_home(self) -> bool:
        """Whether the top has a directory for the quarantine that the program saw as it began, and cannot change."""
        return any(spot.path == MARKER and stat.S_ISDIR(spot.mode) for spot in self.top.before.spots)

    def _say(self, sentence: str) -> None:
        if sentence not in self._problems:
            self._problems.append(sentence)

    def _shown(self, path: str) -> str:
        return self.top.shown(path)


@contextmanager
def _opened(directory: int, path: str) -> Iterator[int]:
    fd = opened_beneath(directory, path or ".", _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _renamed(directory: int, name: str, into: int) -> str:
    to = f"{_RENAMED}{secrets.token_hex(4)}"
    os.rename(name, to, src_dir_fd=directory, dst_dir_fd=into)
    return to


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

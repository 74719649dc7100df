"""Refusals: which changes of files no tool makes, judged by their names and by what the workspace holds."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from drone.sandbox.places.beneath import opened_beneath
from drone.sandbox.protection.git_directories import is_git_directory, is_guarded, is_mark, may_be_common
from drone.sandbox.protection.guard import FIXED
from drone.sandbox.protection.protected import Protected
from drone.sandbox.protection.survey import survey

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_GUARDED = (
    "{path} is protected: {directory} is a git directory, and no tool and no command changes its {name}, which can "
    "make git run programs. Leave it as it is; a person can change it."
)
_BORN = (
    "{path} is protected: it would make {directory} a git directory, whose configuration and hooks can make git run "
    "programs. Make repositories with git init or git clone in a command."
)
_GONE = (
    "{path} is protected: without it {directory} would be no git directory any more, and its configuration and hooks "
    "not protected. A person or a command can delete it."
)


class ChangedPath(NamedTuple):
    """A relative path, and whether something `stays` there after the change."""

    path: str
    stays: bool = True


def refusals(root: int, protected: Protected, changes: Sequence[ChangedPath]) -> dict[str, str]:
    """A sentence for the path of each of these changes, made together below the open directory `root`, that may not be
    made: of protected names, in git directories, and those that make a directory one, or none. Blocks.

    The changes may come in any order, and some may be made already.
    """
    reasons = {one.path: why for one in changes if (why := protected.refuses(one.path)) is not None}
    for one in _touched(changes):
        directory = _Directory(root, one.path, one.entries)
        for change, name in one.changes:
            if (why := directory.refuses(change, name)) is not None:
                reasons.setdefault(change.path, why)
    return reasons


def git_directories_of(root: int, changes: Sequence[ChangedPath]) -> frozenset[str]:
    """Those directories, among all that these changes touch, that are git directories now. Blocks."""
    touched = (one.path for one in _touched(changes))
    return frozenset(path for path in touched if is_git_directory(_name(path), _names(root, path)))


@dataclass(frozen=True, slots=True)
class _Touched:
    """A directory with those changes in or below it whose `name` in it matters to git. `entries`: name → whether it is
    there afterwards."""

    path: str
    changes: Sequence[tuple[ChangedPath, str]]
    entries: Mapping[str, bool]


def _touched(changes: Sequence[ChangedPath]) -> Iterator[_Touched]:
    below: dict[str, list[tuple[ChangedPath, str]]] = {}
    for change in changes:
        parts = change.path.split("/")
        for at, name in enumerate(parts):
            if is_mark(name) or is_guarded(name):
                below.setdefault("/".join(parts[:at]), []).append((change, name))
    for directory, those in below.items():
        entries: dict[str, bool] = {}
        for change, name in those:
            is_itself = change.path == (f"{directory}/{name}" if directory else name)
            entries[name] = entries.get(name, False) or change.stays or not is_itself
        yield _Touched(directory, those, entries)


class _Directory:
    """A directory before and after changes, which put or remove these `entries`."""

    def __init__(self, root: int, path: str, entries: Mapping[str, bool]) -> None:
        self._root = root
        self._path = path
        self._before = set(_names(root, path))
        self._after = self._before | {name for name, stays in entries.items() if stays}
        self._after -= {name for name, stays in entries.items() if not stays}
        self._was, self._is = (is_git_directory(_name(path), names) for names in (self._before, self._after))

    def refuses(self, change: ChangedPath, name: str) -> str | None:
        """Why this change, of or below the entry `name`, may not be made."""
        words = {"path": change.path, "directory": self._path or "the workspace", "name": name}
        words = {key: word if word.isprintable() else ascii(word) for key, word in words.items()}
        if is_guarded(name) and (self._was or self._is or self._is_common()):
            return _GUARDED.format(**words)
        if self._is and not self._was and name not in self._before:
            return _BORN.format(**words)
        if self._was and not self._is and name not in self._after:
            return _GONE.format(**words)
        return None

    def _is_common(self) -> bool:
        """Whether git uses its configuration for another directory, which names it in its `commondir`."""
        if not may_be_common(self._before | self._after):
            return False
        with suppress(OSError):
            return self._path in survey(self._root, FIXED).commons
        return True


def _names(root: int, path: str) -> Iterable[str]:
    """The entries of a directory below the root; none where there is no directory."""
    try:
        fd = opened_beneath(root, path or ".", _DIRECTORY)
    except OSError:
        return ()
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _name(path: str) -> str:
    return path.rpartition("/")[2]

"""Git directories: whether git takes a directory for one, by the names in it. All who guard one ask here."""

from collections.abc import Iterable

from drone.sandbox.protection.protected import GIT, OF_A_REPOSITORY, plain

COMMONDIR = "commondir"

_REPOSITORY = frozenset({"head", "objects", "refs"})
_FURTHER_TREE = frozenset({"head", COMMONDIR})
MARKS = _REPOSITORY | _FURTHER_TREE
"""Plain names of the entries that together make a directory a git directory (git's `is_git_directory`, setup.c)."""


def is_git_directory(name: str, entries: Iterable[str]) -> bool:
    """Whether a directory of this name ("" for the root of a workspace) with these entries is a git directory.

    Only names count, in any case and composition: git asks about contents too, but those can change afterwards.
    """
    if plain(name) == GIT:
        return True
    names = set(map(plain, entries))
    return names >= _REPOSITORY or names >= _FURTHER_TREE


def is_mark(name: str) -> bool:
    return plain(name) in MARKS


def is_guarded(name: str) -> bool:
    """Whether nothing changes an entry of this name in a git directory."""
    return plain(name) in OF_A_REPOSITORY


def may_be_common(entries: Iterable[str]) -> bool:
    """Whether a `commondir` elsewhere could make git use a directory with these entries, which has no HEAD."""
    return set(map(plain, entries)) >= _REPOSITORY - {"head"}

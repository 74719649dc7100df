"""Globs of calls: which files they match, in both readings of brackets, and what an empty answer has to say."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import re2

from drone.sandbox.places.paths import PathError, Workspace
from drone.tools.files.pattern import Brackets, GlobError, expression
from drone.tools.files.walk import Kind, Walk, WalkedEntry, plural
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolFailed

MOST_LEFT_OUT = 50_000
SECONDS_LEFT_OUT = 5.0
"""Names and time that are spent on looking for matches in what .gitignore leaves out."""

_WILD = frozenset("*?[{\\")

Test = Callable[[str], bool]


class Glob:
    """A glob for files: held against the last name if it has no slash, else against the whole path.

    A bracket is read as the character itself where names with it match, as in `app/[id]/page.tsx`, and else as the
    beginning of a set. Raises `ToolFailed` when it is malformed in either reading.
    """

    def __init__(self, text: str, workspace: Workspace) -> None:
        self._text = text
        self._bare = _relative(text, workspace)
        self._error: ToolFailed | None = None
        self._by_name = self._test("names") if "[" in self._bare else None
        try:
            self._test_of = self._test("either" if self._by_name else "sets")
        except ToolFailed as error:
            if self._by_name is None:
                raise
            self._test_of, self._error = self._by_name, error
        self.notes: list[str] = []

    def _test(self, brackets: Brackets) -> Test:
        return matcher(self._bare, brackets)

    def files(self, found: Iterable[WalkedEntry], stop: Event) -> list[WalkedEntry]:
        """The files among `found` that match. Raises `ToolFailed` if none does and it is no glob."""
        files = [entry for entry in found if entry.kind is Kind.FILE]
        either = [entry for entry in files if not stop.is_set() and _fits(self._test_of, entry)]
        if self._by_name is None:
            return either
        named = [entry for entry in either if _fits(self._by_name, entry)]
        if not named and self._error is not None and not stop.is_set():
            raise self._error
        if named and (others := len(either) - len(named)):
            self.notes.append(
                f"The brackets were taken as characters of the names. With sets of characters in them "
                f"{plural(others, 'more file')} would match."
            )
        return named or either

    def on_nothing(self, walk: Walk, found: Sequence[WalkedEntry]) -> list[str]:
        """What the answer says where no file of `found`, the walk's entries, matches: why that may be."""
        notes = []
        if directory := next(
            (entry for entry in found if entry.kind is Kind.DIRECTORY and _fits(self._test_of, entry)), None
        ):
            shown = display_path(directory.path)
            notes.append(f"{shown} is a directory, and only files are found: {shown}/** finds those in it.")
        if self._by_name is not None:
            notes.append("In a glob [ab] is one character, a or b. No name here has the brackets themselves either.")
        if ignored := self._left_out(walk):
            shown = display_path(ignored[0].path)
            more = f" and {len(ignored) - 1:,} more" if len(ignored) > 1 else ""
            notes.append(
                f".gitignore leaves out what matches: {shown}{more}. Name the directory as path to look there."
            )
        return notes

    def _left_out(self, walk: Walk) -> list[WalkedEntry]:
        """The files that match and that an ignore file leaves out."""
        start, levels = walk.start, 0
        for name in self._bare.split("/")[:-1]:
            if _WILD.intersection(name):
                break
            start, levels = f"{start}/{name}", levels + 1
        for begin, depth in ((start, levels), (walk.start, 0)):
            unfiltered = Walk(walk.workspace, begin, None, walk.stop, MOST_LEFT_OUT, SECONDS_LEFT_OUT, heeds=False)
            try:
                entries = [replace(entry, depth=entry.depth + depth) for entry in unfiltered.entries()]
            except PathError:
                continue
            return [entry for entry in entries if entry.kind is Kind.FILE and _fits(self._test_of, entry)]
        return []


def _fits(test: Test, found: WalkedEntry) -> bool:
    return test(found.path) or test(found.below)


def _relative(glob: str, workspace: Workspace) -> str:
    """The glob relative to the workspace, where it begins with a spelling of the workspace's path."""
    for root in workspace.spellings if glob.startswith("/") else ():
        if glob.startswith(f"{root.rstrip('/')}/"):
            return glob[len(root.rstrip("/")) :].lstrip("/")
    return glob.removeprefix("./")


def matcher(glob: str, brackets: Brackets = "sets") -> Test:
    """A test whether a path matches the glob. Raises `ToolFailed` when it is malformed."""
    bare = glob.removeprefix("./")
    try:
        bare.encode()
        source = ("" if "/" in bare else "(?s:.*/)?") + expression(bare, braces=True, brackets=brackets)
        options = re2.Options()
        options.log_errors = False
        compiled: Any = re2.compile(source, options)
    except (GlobError, UnicodeEncodeError, re2.error) as error:
        reason = error if isinstance(error, GlobError) else "it cannot be read."
        raise ToolFailed(f"The glob {glob[:200]!r} cannot be used: {reason}") from error
    return lambda path: compiled.fullmatch(os.fsencode(path)) is not None

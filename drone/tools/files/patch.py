"""Unified diffs as models write them: parsed as a whole, then applied to files, never in part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drone.tools.files.likeness import nearest
from drone.tools.files.text_files import TextFile
from drone.tools.frame.tool import ToolFailed
from mcc.rules.patterns import Pattern

MOST_FILES = 200
MOST_CHARACTERS = 2_000_000

_HEAD = Pattern(r"^@@ -(?P<at>\d{1,9})(?:,(?P<old>\d{1,9}))? \+\d{1,9}(?:,(?P<new>\d{1,9}))? @@")
_NOWHERE = "/dev/null"
_FENCES = ("```", "~~~")
_BETWEEN_FILES = ("diff ", "Index: ")
"""Beginnings of a line before the head of a file."""
_NO_END = "\\"
_MOST_PLACES = 1_000
_PREFIXES = ("a", "b", "c", "i", "o", "w", "1", "2")
"""Prefixes of names in git's diffs: of before and after, or of what is compared (commit, index, object, work tree)."""

_COPIES = (".orig", ".old", ".bak", "~")
"""Endings of a copy of the file from before its change, with which it was compared."""

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}


@dataclass(frozen=True, slots=True)
class Hunk:
    """One part of a file's patch. `at`: the line that its head names, from 1, None if it names none.

    `lines` begin with their sign. `ended`: whether the last old line and the last new line have a line end.
    """

    at: int | None
    lines: tuple[str, ...]
    ended: tuple[bool, bool] = (True, True)

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "+"]

    @property
    def added(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] == "+"]

    @property
    def new(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "-"]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The patch of one file. `source` None: the file is created. `target` None: it is deleted."""

    source: str | None
    target: str | None
    hunks: tuple[Hunk, ...]

    @property
    def name(self) -> str:
        return self.target or self.source or ""


@dataclass(slots=True)
class _Draft:
    """A file's patch while it is parsed; `named`: its file names were read."""

    source: str | None = None
    target: str | None = None
    named: bool = False
    hunks: list[Hunk] = field(default_factory=list)

    def finished(self) -> FilePatch:
        if not self.named:
            raise ToolFailed('A part of the patch names no file: each needs "--- a/PATH" and "+++ b/PATH" lines.')
        if self.source is None and self.target is None:
            raise ToolFailed("A part of the patch is about /dev/null on both sides: it names no file.")
        if not self.hunks and self.source == self.target:
            raise ToolFailed(
                f"The patch has no lines for {self.target}: after its names come parts that begin with @@."
            )
        return FilePatch(self.source, self.target, tuple(self.hunks))


def parsed(patch: str) -> list[FilePatch]:
    """The parts of a unified diff, one for each file. Raises `ToolFailed` with what is wrong and where."""
    if len(patch) > MOST_CHARACTERS:
        raise ToolFailed(f"The patch has more than {MOST_CHARACTERS:,} characters: apply it in parts.")
    lines = _unfenced(patch.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"))
    if next((line for line in lines if line.strip()), "").startswith("*** "):
        raise ToolFailed(
            'This is no unified diff: it begins with "*** ". Write "--- a/PATH", "+++ b/PATH", and parts with "@@".'
        )
    files = list(_files(lines))
    if not files:
        raise ToolFailed('The patch names no file: a unified diff has "--- a/PATH", "+++ b/PATH" and "@@" lines.')
    if len(files) > MOST_FILES:
        raise ToolFailed(f"The patch is about {len(files):,} files: {MOST_FILES} at most in one call.")
    return files


def _unfenced(lines: Sequence[str]) -> Sequence[str]:
    """The lines with blank ones in place of code fences and of the prose outside of them.

    A fence begins its line: a line of a file has a sign before it. The patch may also have begun before the first
    fence, which then closes it. Nothing is taken away if what stands outside looks like a part of a patch, too.
    """
    begins = (at for at in range(len(lines)) if _begins_a_part(lines, at))
    fences = (at for at, line in enumerate(lines) if line.startswith(_FENCES))
    within = next(fences, len(lines)) > next(begins, 0)
    kept: list[str] = []
    for at, line in enumerate(lines):
        is_bare = not line.strip("`~ \t")
        if line.startswith(_FENCES) and (is_bare or not within):
            within = not within
            kept.append("")
        elif within:
            kept.append(line)
        elif _begins_a_part(lines, at):
            return lines
        else:
            kept.append("")
    return kept


def _begins_a_part(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith((*_BETWEEN_FILES, "@@", "*** ")) or _begins_a_file(lines, at)


def _files(lines: Sequence[str]) -> Iterator[FilePatch]:
    draft: _Draft | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(_BETWEEN_FILES):
            if draft is not None:
                yield draft.finished()
            draft = _Draft()
        elif _begins_a_file(lines, at):
            names = _names(line, lines[at + 1])
            is_renamed = draft is not None and draft.named and not draft.hunks and draft.target == names[1]
            if draft is None or not is_renamed:  # else the same file, of which git has said that it moves
                if draft is not None and (draft.hunks or draft.named):
                    yield draft.finished()
                draft = _Draft(*names, True)
            at += 1
        elif draft is not None and line.startswith("rename from "):
            draft.source = _unquoted(line.removeprefix("rename from "))
        elif draft is not None and line.startswith("rename to "):
            draft.target, draft.named = _unquoted(line.removeprefix("rename to ")), True
        elif line.startswith("@@"):
            if draft is None or not draft.named:
                raise ToolFailed(f'Line {at + 1} of the patch begins a part before any "--- a/PATH" and "+++ b/PATH".')
            hunk, at = _hunk(lines, at)
            draft.hunks.append(hunk)
            continue
        elif line.startswith(("Binary files ", "GIT binary patch")):
            raise ToolFailed(f"Line {at + 1} of the patch is about a binary file, and only texts are patched.")
        elif _is_signature(lines, at):
            at += 1
        elif draft is not None and draft.hunks and line.strip():
            raise ToolFailed(f"Line {at + 1} of the patch belongs to nothing: {line[:80]!r}.")
        at += 1
    if draft is not None:
        yield draft.finished()


def _names(before: str, after: str) -> tuple[str | None, str | None]:
    """The files that the two lines of a head name, without git's prefixes; None for none.

    Names that are written alike have no prefixes: a patch that only changes a file would move it otherwise.
    """
    old, new = _name(before[4:]), _name(after[4:])
    if old is None or new is None:
        return old and old.removeprefix("a/"), new and new.removeprefix("b/")
    if old == new:
        return old, new
    (first, _, path), (other, _, same) = old.partition("/"), new.partition("/")
    if path and path == same and first in _PREFIXES and other in _PREFIXES:
        return path, path
    old, new = old.removeprefix("a/"), new.removeprefix("b/")
    return (new if old in [f"{new}{mark}" for mark in _COPIES] else old), new


def _name(text: str) -> str | None:
    name = _unquoted(text.partition("\t")[0].rstrip())
    return None if name == _NOWHERE else name


def _unquoted(name: str) -> str:
    """A path without git's quotes and byte escapes; unquoted paths stay unchanged."""
    if len(name) < 2 or not name.startswith('"') or not name.endswith('"'):
        return name
    inner, at, parts = name[1:-1], 0, list[bytes]()
    while at < len(inner):
        octal = inner[at + 1 : at + 4]
        if inner[at] != "\\":
            parts.append(inner[at].encode("utf-8", "surrogateescape"))
            at += 1
        elif len(octal) == 3 and octal.isascii() and octal.isdigit() and not octal.strip("01234567") and octal < "400":
            parts.append(bytes([int(octal, 8)]))
            at += 4
        else:
            parts.append(
                _ESCAPES.get(inner[at + 1 : at + 2]) or inner[at + 1 : at + 2].encode("utf-8", "surrogateescape")
            )
            at += 2
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _hunk(lines: Sequence[str], at: int) -> tuple[Hunk, int]:
    """The part that begins at this line, and the index of the line after it. Its counts may be wrong."""
    head = _HEAD.match(lines[at])
    start = None if head is None else int(head["at"])
    left = [0, 0] if head is None else [int(head["old"] or 1), int(head["new"] or 1)]
    body: list[str] = []
    ended = [True, True]
    at += 1
    while at < len(lines):
        line = lines[at]
        if line.startswith(_NO_END) and body:
            for side in {"-": (0,), "+": (1,)}.get(body[-1][:1], (0, 1)):
                ended[side] = False
        elif line[:1] in ("", " ", "+", "-") and not _ends_a_part(lines, at, left):
            body.append(line)
            left[0] -= line[:1] != "+"
            left[1] -= line[:1] != "-"
        else:
            break
        at += 1
    while body and body[-1] == "":  # blank lines between two parts belong to neither
        body.pop()
    if not any(line.startswith(("+", "-")) for line in body):
        raise ToolFailed(f"The part of the patch that ends at line {at} adds nothing and takes nothing away.")
    return Hunk(start, tuple(line or " " for line in body), (ended[0], ended[1])), at


def _ends_a_part(lines: Sequence[str], at: int, left: Sequence[int]) -> bool:
    """Whether this line belongs to no part any more, though it has a sign: it is the head of the next file, or the
    signature of a mail. `left`: old and new lines that the part's head still promises.

    Two lines of a part may look like a head, and the counts may be wrong. They are a head if a part follows that is
    about one file by their names, or that the counts do not end at.
    """
    if max(left) <= 0:
        return _is_signature(lines, at) or _begins_a_file(lines, at)
    if not _begins_a_file(lines, at) or not "".join(lines[at + 2 : at + 3]).startswith("@@"):
        return False
    old, new = _names(lines[at], lines[at + 1])
    return old == new or None in (old, new) or list(left) != [1, 1]


def _is_signature(lines: Sequence[str], at: int) -> bool:
    """Whether the end of a mail by git begins here: its mark, then git's version."""
    return lines[at] == "-- " and "".join(lines[at + 1 : at + 2])[:1].isdecimal()


def _begins_a_file(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def applied(patch: FilePatch, file: TextFile | None) -> TextFile:
    """The patched file; `file` None: it does not exist. Raises `ToolFailed` if a part does not fit."""
    if file is None:
        hunks = [hunk for hunk in patch.hunks if hunk.old]
        if hunks:
            raise ToolFailed(f"{patch.name} does not exist, and the patch takes lines of it away.")
        return TextFile(
            "".join("\n".join(hunk.new) + ("\n" if hunk.ended[1] and hunk.new else "") for hunk in patch.hunks)
        )
    lines, line_end = file.lines(), file.line_end
    bare = [line.removesuffix("\n").removesuffix("\r") for line in lines]
    patched: list[str] = []
    done = 0
    for number, hunk in enumerate(patch.hunks, start=1):
        start = _position(bare, hunk, done, f"Part {number} of the patch for {patch.name}")
        patched += [*lines[done:start], *_new_lines(lines, hunk, start, line_end)]
        done = start + len(hunk.old)
    patched += lines[done:]
    whole = [line if line.endswith("\n") else line + line_end for line in patched[:-1]] + patched[-1:]
    if patch.hunks and done == len(lines) and not patch.hunks[-1].ended[1] and whole:
        whole[-1] = whole[-1].removesuffix("\n").removesuffix("\r")
    return file.with_text("".join(whole))


def _position(lines: Sequence[str], hunk: Hunk, first: int, which: str) -> int:
    """The index of the first of this part's old lines, at `first` or later. Raises `ToolFailed`."""
    old = hunk.old
    if not old:
        position = hunk.at if hunk.at is not None else len(lines)
        if not first <= position <= len(lines):
            raise ToolFailed(f"{which} stands behind line {position}, and the file has {len(lines):,} lines.")
        return position
    if hunk.at and hunk.at > first and lines[hunk.at - 1 : hunk.at - 1 + len(old)] == old:
        return hunk.at - 1
    positions = _occurrences(lines, old, first)
    if len(positions) == 1:
        return positions[0]
    if positions:
        places = ", ".join(str(start + 1) for start in positions[:5])
        raise ToolFailed(
            f"{which} fits in {len(positions):,} places (lines {places}): give it more lines around the change."
        )
    raise ToolFailed(f"{which} does not fit: {_mismatch(lines, old)}")


def _occurrences(lines: Sequence[str], old: Sequence[str], first: int) -> list[int]:
    """The indexes at which all of `old` occurs, found by its rarest line: many equal lines then cost little time."""
    places: dict[str, list[int]] = {line: [] for line in old}
    for number in range(first, len(lines)):
        if (known := places.get(lines[number])) is not None:
            known.append(number)
    at = min(range(len(old)), key=lambda index: len(places[old[index]]))
    starts = (place - at for place in places[old[at]][:_MOST_PLACES])
    return [start for start in starts if start >= first and lines[start : start + len(old)] == old]


def _mismatch(lines: Sequence[str], old: Sequence[str]) -> str:
    """The first line that differs between `old` and the nearest part of the file, as a sentence for the model."""
    near = nearest(lines, old)
    if near is None:
        return "none of its lines are in the file; read the file again."
    start, actual = near
    wrong = next(
        (number for number, pair in enumerate(zip(old, actual, strict=False)) if pair[0] != pair[1]), len(actual)
    )
    is_now = ascii(actual[wrong][:200]) if wrong < len(actual) else "the end of the file"
    return f"at line {start + wrong + 1} it expects {old[min(wrong, len(old) - 1)][:200]!a}, and there is {is_now}."


def _new_lines(lines: Sequence[str], hunk: Hunk, start: int, line_end: str) -> list[str]:
    """The lines that replace a part's old ones; unchanged lines are taken from the file, so they stay byte for byte."""
    replacement: list[str] = []
    at = start
    for line in hunk.lines:
        if line[0] == "+":
            replacement.append(line[1:] + line_end)
        else:
            replacement += [lines[at]] if line[0] == " " else []
            at += 1
    return replacement

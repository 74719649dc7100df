"""Unified diffs as models write them: parsed whole, then held against files, and never applied in part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drone.tools.text_files import TextFile, nearest
from drone.tools.tool import ToolFailed
from mcc.rules.patterns import Pattern

MOST_FILES = 200
MOST_CHARACTERS = 2_000_000

_HEAD = Pattern(r"^@@ -(?P<at>\d{1,9})(?:,(?P<old>\d{1,9}))? \+\d{1,9}(?:,(?P<new>\d{1,9}))? @@")
_NOWHERE = "/dev/null"
_NO_END = "\\"
_MOST_PLACES = 1_000
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}


@dataclass(frozen=True, slots=True)
class Hunk:
    """`at`: the line, from 1, at which it says it stands, None = it says none. `lines` begin with their sign.

    `ended`: whether the last old and the last new line have a line end.
    """

    at: int | None
    lines: tuple[str, ...]
    ended: tuple[bool, bool] = (True, True)

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "+"]

    @property
    def new(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "-"]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """`source` None: the file is new. `target` None: it is deleted."""

    source: str | None
    target: str | None
    hunks: tuple[Hunk, ...]

    @property
    def name(self) -> str:
        return self.target or self.source or ""


@dataclass(slots=True)
class _Draft:
    source: str | None = None
    target: str | None = None
    named: bool = False
    hunks: list[Hunk] = field(default_factory=list)

    def done(self) -> FilePatch:
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
    if patch.lstrip().startswith("*** "):
        raise ToolFailed(
            'This is no unified diff: it begins with "*** ". Write "--- a/PATH", "+++ b/PATH", and parts with "@@".'
        )
    found = list(_files(patch.replace("\r\n", "\n").split("\n")))
    if not found:
        raise ToolFailed('The patch names no file: a unified diff has "--- a/PATH", "+++ b/PATH" and "@@" lines.')
    if len(found) > MOST_FILES:
        raise ToolFailed(f"The patch is about {len(found):,} files: {MOST_FILES} at most in one call.")
    return found


def _files(lines: Sequence[str]) -> Iterator[FilePatch]:
    draft: _Draft | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            if draft is not None:
                yield draft.done()
            draft = _Draft()
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            if draft is not None and (draft.hunks or draft.named):
                yield draft.done()
            draft = _Draft(_name(line[4:], "a/"), _name(lines[at + 1][4:], "b/"), True)
            at += 1
        elif draft is not None and line.startswith("rename from "):
            draft.source = _plain(line.removeprefix("rename from "))
        elif draft is not None and line.startswith("rename to "):
            draft.target, draft.named = _plain(line.removeprefix("rename to ")), True
        elif line.startswith("@@"):
            if draft is None or not draft.named:
                raise ToolFailed(f'Line {at + 1} of the patch begins a part before any "--- a/PATH" and "+++ b/PATH".')
            hunk, at = _hunk(lines, at)
            draft.hunks.append(hunk)
            continue
        elif line.startswith(("Binary files ", "GIT binary patch")):
            raise ToolFailed(f"Line {at + 1} of the patch is about a binary file, and only texts are patched.")
        elif draft is not None and draft.hunks and line.strip():
            raise ToolFailed(f"Line {at + 1} of the patch belongs to nothing: {line[:80]!r}.")
        at += 1
    if draft is not None:
        yield draft.done()


def _name(text: str, prefix: str) -> str | None:
    name = _plain(text.partition("\t")[0].rstrip())
    return None if name == _NOWHERE else name.removeprefix(prefix)


def _plain(name: str) -> str:
    """A path that git put between quotes, with its escapes of bytes, as it is."""
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
    """The part that begins there, and where the next line after it stands. Its counts need not be right."""
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
        elif line[:1] in ("", " ", "+", "-") and (max(left) > 0 or not _begins_a_file(lines, at)):
            body.append(line)
            left[0] -= line[:1] != "+"
            left[1] -= line[:1] != "-"
        else:
            break
        at += 1
    while body and body[-1] == "":  # what separates parts of a patch; as the end of this one it says nothing
        body.pop()
    if not any(line.startswith(("+", "-")) for line in body):
        raise ToolFailed(f"The part of the patch that ends at line {at} adds nothing and takes nothing away.")
    return Hunk(start, tuple(line or " " for line in body), (ended[0], ended[1])), at


def _begins_a_file(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def applied(patch: FilePatch, file: TextFile | None) -> TextFile:
    """What the file is with the patch. Raises `ToolFailed` where a part of it does not fit."""
    if file is None:
        hunks = [hunk for hunk in patch.hunks if hunk.old]
        if hunks:
            raise ToolFailed(f"{patch.name} does not exist, and the patch takes lines of it away.")
        return TextFile("".join(_ended(hunk.new, "\n", ended=hunk.ended[1]) for hunk in patch.hunks))
    lines, line_end = file.lines(), file.line_end
    bare = [line.removesuffix("\n").removesuffix("\r") for line in lines]
    made: list[str] = []
    done = 0
    for number, hunk in enumerate(patch.hunks, start=1):
        start = _place(bare, hunk, done, f"Part {number} of the patch for {patch.name}")
        made += [*lines[done:start], *_mended(lines, hunk, start, line_end)]
        done = start + len(hunk.old)
    made += lines[done:]
    whole = [line if line.endswith("\n") else line + line_end for line in made[:-1]] + made[-1:]
    if patch.hunks and done == len(lines) and not patch.hunks[-1].ended[1] and whole:
        whole[-1] = whole[-1].removesuffix("\n").removesuffix("\r")
    return file.with_text("".join(whole))


def _place(lines: Sequence[str], hunk: Hunk, first: int, which: str) -> int:
    """Where the old lines of this part stand, at `first` or later."""
    old = hunk.old
    if not old:
        said = hunk.at if hunk.at is not None else len(lines)
        if not first <= said <= len(lines):
            raise ToolFailed(f"{which} stands behind line {said}, and the file has {len(lines):,} lines.")
        return said
    if hunk.at and hunk.at > first and lines[hunk.at - 1 : hunk.at - 1 + len(old)] == old:
        return hunk.at - 1
    found = _everywhere(lines, old, first)
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(str(one + 1) for one in found[:5])
        raise ToolFailed(
            f"{which} fits in {len(found):,} places (lines {places}): give it more lines around the change."
        )
    raise ToolFailed(f"{which} does not fit: {_why(lines, old)}")


def _everywhere(lines: Sequence[str], old: Sequence[str], first: int) -> list[int]:
    """Where `old` stands as a whole. The rarest of its lines is looked up, so that many equal ones cost no time."""
    places: dict[str, list[int]] = {line: [] for line in old}
    for number in range(first, len(lines)):
        if (known := places.get(lines[number])) is not None:
            known.append(number)
    at = min(range(len(old)), key=lambda one: len(places[old[one]]))
    starts = (place - at for place in places[old[at]][:_MOST_PLACES])
    return [start for start in starts if start >= first and lines[start : start + len(old)] == old]


def _why(lines: Sequence[str], old: Sequence[str]) -> str:
    near = nearest(lines, old)
    if near is None:
        return "none of its lines are in the file; read the file again."
    start, there = near
    wrong = next(
        (number for number, pair in enumerate(zip(old, there, strict=False)) if pair[0] != pair[1]), len(there)
    )
    is_now = ascii(there[wrong][:200]) if wrong < len(there) else "the end of the file"
    return f"at line {start + wrong + 1} it expects {old[min(wrong, len(old) - 1)][:200]!a}, and there is {is_now}."


def _mended(lines: Sequence[str], hunk: Hunk, start: int, line_end: str) -> list[str]:
    """The lines in place of a part's old ones: those that stay are the file's own, to the byte."""
    made: list[str] = []
    at = start
    for line in hunk.lines:
        if line[0] == "+":
            made.append(line[1:] + line_end)
        else:
            made += [lines[at]] if line[0] == " " else []
            at += 1
    return made


def _ended(lines: Sequence[str], line_end: str, *, ended: bool) -> str:
    text = line_end.join(lines)
    return text + line_end if ended and lines else text

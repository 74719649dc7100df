"""Text files for edits: decoding and encoding that preserve byte order mark, encoding and line ends; replacements."""

import codecs
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drone.tools.files.likeness import differences, nearest, without_numbers
from drone.tools.files.listing import MAX_WHOLE_BYTES
from drone.tools.frame.tool import ToolFailed

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SNIFFED = 8_192
_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 200
_PLACES = 5


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's `text`, and the byte order `mark` before it. Bytes that are not UTF-8 appear as lone surrogates."""

    text: str
    mark: bytes = b""
    encoding: str = "utf-8"

    @classmethod
    def of(cls, data: bytes, shown: str) -> "TextFile":
        """Decode a file; `shown` is its path for error messages. Raises `ToolFailed` if it is too large or no text."""
        if len(data) > MAX_WHOLE_BYTES:
            raise ToolFailed(f"{shown} has {len(data):,} bytes; files of more than {MAX_WHOLE_BYTES:,} are not edited.")
        for mark, encoding in _MARKS:
            if data.startswith(mark):
                try:
                    return cls(data[len(mark) :].decode(encoding, _errors(encoding)), mark, encoding)
                except UnicodeDecodeError as error:
                    raise ToolFailed(f"{shown} begins like {encoding} and is not; write_file replaces it.") from error
        if b"\0" in data[:_SNIFFED]:
            raise ToolFailed(f"{shown} is binary and is not edited as text.")
        return cls(data.decode("utf-8", "surrogateescape"))

    @property
    def data(self) -> bytes:
        return self.mark + self.text.encode(self.encoding, _errors(self.encoding))

    @property
    def line_end(self) -> str:
        """The line end that most lines have."""
        return "\r\n" if 2 * self.text.count("\r\n") > self.text.count("\n") else "\n"

    def with_text(self, text: str) -> "TextFile":
        return replace(self, text=text)

    def lines(self) -> list[str]:
        """The lines, each with its line end; a lone carriage return does not end a line."""
        parts = self.text.split("\n")
        lines = [part + "\n" for part in parts[:-1]]
        return [*lines, parts[-1]] if parts[-1] else lines


def _errors(encoding: str) -> str:
    return "surrogateescape" if encoding == "utf-8" else "strict"


def with_line_ends(text: str, line_end: str) -> str:
    """`text` with all its line ends replaced by `line_end`."""
    plain = text.replace("\r\n", "\n")
    return plain if line_end == "\n" else plain.replace("\n", line_end)


def replaced(file: TextFile, old: str, new: str, shown: str, *, everywhere: bool) -> tuple[TextFile, int]:
    """The file with `new` in place of `old`, and the number of replacements; the file's own line ends are kept.

    `old` matches whatever its line ends. Raises `ToolFailed` unless the file holds `old` exactly once, or at least once
    with `everywhere`.
    """
    wanted, plain = old.replace("\r\n", "\n"), file.text.replace("\r\n", "\n")
    if not wanted:
        raise ToolFailed("old is empty: name the text to replace; write_file writes a whole file.")
    if wanted == new.replace("\r\n", "\n"):
        raise ToolFailed("old and new are the same: there is nothing to change.")
    places = list(_occurrences(plain, wanted))
    if not places:
        raise ToolFailed(_not_found(plain, wanted, shown))
    if len(places) > 1 and not everywhere:
        lines = ", ".join(str(plain.count("\n", 0, at) + 1) for at in places[:_PLACES])
        more = " …" if len(places) > _PLACES else ""
        raise ToolFailed(
            f"old stands {len(places):,} times in {shown} (lines {lines}{more}): add lines around the one you "
            "mean, or set replace_all."
        )
    returns = _dropped_returns(file.text)
    parts, last = list[str](), 0
    for at in places:
        start, stop = at + bisect_left(returns, at), at + len(wanted) + bisect_left(returns, at + len(wanted))
        before = file.text[start:stop]
        line_end = ("\r\n" if "\r\n" in before else "\n") if "\n" in before else file.line_end
        parts += [file.text[last:start], with_line_ends(new, line_end)]
        last = stop
    return file.with_text("".join([*parts, file.text[last:]])), len(places)


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _dropped_returns(text: str) -> list[int]:
    """Offsets, in `text` with `\\n` for each `\\r\\n`, at which a carriage return was dropped."""
    return [at - index for index, at in enumerate(_occurrences(text, "\r\n"))]


def _not_found(text: str, wanted: str, shown: str) -> str:
    """Why `wanted` is not in `text`: line numbers before its lines, characters that look alike, or what is nearest."""
    problem = f"old does not occur in {shown}. "
    bare = without_numbers(wanted)
    if bare is not None and (bare in text or differences(text, bare) is not None):
        problem += "Its lines begin with line numbers, which are not in the file: leave them out. "
        wanted = bare
        if bare in text:
            return f"{problem}Without them it is at line {text.count(chr(10), 0, text.index(bare)) + 1}."
    lines: Sequence[str] = text.split("\n")
    if (alike := differences(text, wanted)) is not None:
        start, named = alike
        what = "; ".join(named) or "the white space around it is another"
        region = lines[start : start + wanted.strip("\n").count("\n") + 1]
        problem += f"At line {start + 1} stands what looks like it: {what}. "
        return f"{problem}Copy it exactly, without the numbers:\n{_listed(region, start)}"
    match = nearest(lines, wanted.strip("\n").split("\n"))
    if match is None:
        return f"{problem}Nothing in it looks like it: read the file again."
    start, region = match
    return (
        f"{problem}The nearest is at line {start + 1}; copy it exactly, without the numbers:\n{_listed(region, start)}"
    )


def _listed(lines: Sequence[str], start: int) -> str:
    """The first lines with their numbers: as they are, and escaped where they are not ASCII."""
    listed = []
    for number, line in enumerate(lines[:_SHOWN_LINES], start=start + 1):
        cut = line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]} …"
        listed.append(f"{number}\t{cut}" + ("" if cut.isascii() else f"\n\t(in ASCII: {cut!a})"))
    return "\n".join(listed)

"""Patterns for text, in RE2's syntax and matched line by line; globs for paths, in the syntax of git and shells."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import re2

from mcc.rules import patterns

MAX_CHARACTERS = 2_000
_MAX_MEMORY = 32 << 20
_ANCHORS_OF_THEIR_OWN = patterns.Pattern(r"\\[AzQC]|\(\?[a-zA-Z]*-?[a-zA-Z]*m")
_NEWLINE = patterns.Pattern(r"(?:^|[^\\])(?:\\\\)*\\(?:n|x0[aA]|x\{0*[aA]\}|012)")
_TOKEN = patterns.Pattern(r"([^\\\^$.|?*+()\[\]{}])|\\([[:punct:]])|\\[AzbBdDsSwW]|[\^$.?*+]")
"""A literal character (groups 1 and 2), or a token that is not literal but makes no other part optional."""


class LinePatternError(ValueError):
    """The pattern cannot be used; the message is a sentence that says why."""


class LinePattern:
    """A compiled pattern, matched against each line without its line end; bytes that are not UTF-8 match nothing.

    `\\d`, `\\w`, `\\s` and `\\b` cover ASCII only. Matching takes linear time. `needed`: a text that every matching
    line contains, in any case if the pattern ignores case; empty if none is known. Raises `LinePatternError`.
    """

    def __init__(self, text: str, *, literal: bool = False, case_sensitive: bool = True) -> None:
        source = _checked(text, literal)
        self.case_sensitive = case_sensitive
        needed = text if literal else _needed(source)
        # Engines differ on the cases of letters outside ASCII, and ripgrep's arguments carry no NUL.
        self.needed = needed if needed.isprintable() and (case_sensitive or needed.isascii()) else ""
        self._per_line = _ANCHORS_OF_THEIR_OWN.search(source) is not None
        # Compiled by itself first: the text might close the group that is put around it.
        alone = _compile(source, case_sensitive)
        self._expression = alone if self._per_line else _compile(f"(?m:{source})", case_sensitive)

    def lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The offsets of each matching line and of its first match. `data` has `\\n` as its only line end."""
        return self._lines_one_by_one(data) if self._per_line else self._lines_at_once(data)

    def _lines_at_once(self, data: bytes) -> Iterator[tuple[int, int]]:
        position, end = 0, len(data)
        while position < end:
            hit = self._expression.search(data, position)
            if hit is None or (hit.start() == end and data.endswith(b"\n")):
                return
            yield data.rfind(b"\n", 0, hit.start()) + 1, hit.start()
            following = data.find(b"\n", hit.start())
            position = end if following < 0 else following + 1

    def _lines_one_by_one(self, data: bytes) -> Iterator[tuple[int, int]]:
        start = 0
        for line in data.split(b"\n"):
            found = self._expression.search(line) if line or start < len(data) else None
            if found is not None:
                yield start, start + found.start()
            start += len(line) + 1


def _checked(text: str, literal: bool) -> str:
    if not text:
        raise LinePatternError("The pattern is empty; name what to look for.")
    if len(text) > MAX_CHARACTERS:
        raise LinePatternError(f"The pattern is longer than {MAX_CHARACTERS:,} characters; look for a part of it.")
    if "\n" in text or (not literal and _NEWLINE.search(text)):
        raise LinePatternError(
            "The search is line by line, so a pattern cannot match a line break; look for one of the lines."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LinePatternError("The pattern is not valid Unicode (it has a lone surrogate).") from None
    return "".join(map(_escaped, text)) if literal else text


def _needed(source: str) -> str:
    """The longest text that all matches contain; empty for patterns with groups, sets, counts or alternatives."""
    runs, at = [""], 0
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None:
            return ""
        at = token.end()
        character = token[1] or token[2]
        if character and source[at : at + 1] not in ("*", "?", "{"):
            runs[-1] += character
        else:
            runs.append("")
    return max(runs, key=len)


def _escaped(character: str) -> str:
    """One character as an expression that matches exactly it."""
    return character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"


def _compile(source: str, case_sensitive: bool) -> Any:
    options = re2.Options()
    options.case_sensitive = case_sensitive
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(source, options)
    except re2.error as error:
        raise LinePatternError(_explanation(error)) from error


def _explanation(error: Exception) -> str:
    reason = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else str(error)
    if "invalid perl operator" in reason or "invalid escape sequence: \\" in reason:
        hint = "RE2 syntax has no lookaround and no backreferences; write it without, or search for a part and read on."
    else:
        hint = "Escape characters that are meant as they are, or set literal to true."
    return f"The pattern is not valid RE2 syntax: {reason}. {hint}"


Ranges = list[tuple[int, int]]

_POSIX: Mapping[str, Ranges] = {
    "alnum": [(48, 57), (65, 90), (97, 122)],
    "alpha": [(65, 90), (97, 122)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": [(48, 57)],
    "graph": [(33, 126)],
    "lower": [(97, 122)],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [(65, 90)],
    "xdigit": [(48, 57), (65, 70), (97, 102)],
}
_CLASS_NAME = patterns.Pattern(r"\[:([a-z]*):\]")
_SLASH = ord("/")
_LONGEST = 1_000


class GlobError(ValueError):
    """The glob is malformed; the message is a sentence that says why."""


Brackets = Literal["sets", "names", "either"]
"""How brackets in a glob are read: as sets of characters, as the characters themselves, or each as both."""


def expression(glob: str, *, braces: bool = False, brackets: Brackets = "sets") -> str:
    """A regular expression (RE2 syntax, to be matched against the whole path) for one glob.

    `*` and `?` match within a name, `**` as a whole component matches any number of directories, `[a-z]` and `[!a-z]`
    are sets of characters, a backslash escapes the next character; with `braces`, `{a,b}` matches either.
    Raises `GlobError`.
    """
    if len(glob) > _LONGEST:
        raise GlobError(f"A glob has at most {_LONGEST:,} characters.")
    return "(?s:" + "".join(_Translation(glob, braces, brackets).parts()) + ")"


class _Translation:
    """The translation of one glob, from its first character to its last."""

    def __init__(self, glob: str, braces: bool, brackets: Brackets) -> None:
        self._glob = glob
        self._brackets = brackets
        self._braces = braces and glob.count("{") == glob.count("}")
        self._at = 0
        self._open = 0

    def parts(self) -> Iterator[str]:
        while self._at < len(self._glob):
            character = self._glob[self._at]
            match character:
                case "*":
                    yield self._stars()
                case "?":
                    yield self._single("[^/]")
                case "[":
                    yield self._bracket()
                case "\\":
                    yield self._backslash()
                case "{" | "}" | "," if self._braces:
                    yield self._brace(character)
                case _:
                    yield self._single(_escaped(character))
        if self._open:
            raise GlobError("A { is never closed; write \\{ for the character itself.")

    def _single(self, expression: str) -> str:
        self._at += 1
        return expression

    def _stars(self) -> str:
        start = self._at
        while self._at < len(self._glob) and self._glob[self._at] == "*":
            self._at += 1
        begins = start == 0 or self._glob[start - 1] == "/"
        following = self._glob[self._at : self._at + 1]
        if self._at - start < 2 or not begins or following not in ("", "/"):
            return "[^/]*"
        if not following:
            return ".*" if start == 0 else ".+"
        self._at += 1
        return "(?:.*/)?"

    def _backslash(self) -> str:
        if self._at + 1 == len(self._glob):
            raise GlobError("A glob cannot end in a backslash.")
        self._at += 2
        return _escaped(self._glob[self._at - 1])

    def _brace(self, character: str) -> str:
        self._at += 1
        if character == "{":
            self._open += 1
            return "(?:"
        if not self._open:
            return _escaped(character)
        if character == "}":
            self._open -= 1
            return ")"
        return "|"

    def _bracket(self) -> str:
        if self._brackets == "names":
            return self._single(r"\[")
        start, allowed = self._at, self._set()
        itself = "".join(map(_escaped, self._glob[start : self._at]))
        return f"(?:{allowed}|{itself})" if self._brackets == "either" else allowed

    def _set(self) -> str:
        self._at += 1
        negated = self._glob[self._at : self._at + 1] in ("!", "^")
        self._at += negated
        ranges: Ranges = []
        first = True
        while first or not self._glob.startswith("]", self._at):
            ranges.extend(self._member())
            first = False
        self._at += 1
        if negated:
            return f"[^{_range_text([*ranges, (_SLASH, _SLASH)])}]"
        allowed = _without_slash(ranges)
        return f"[{_range_text(allowed)}]" if allowed else r"[^\x00-\x{10ffff}]"

    def _member(self) -> Ranges:
        """One member of a set: a named class, a character, or a range of characters."""
        if named := _CLASS_NAME.match(self._glob, self._at):
            self._at = named.end()
            if named[1] not in _POSIX:
                raise GlobError(f"There is no class [:{named[1]}:].")
            return _POSIX[named[1]]
        low = self._member_character()
        if not self._glob.startswith("-", self._at) or self._glob.startswith("-]", self._at):
            return [(low, low)]
        self._at += 1
        high = self._member_character()
        return [(low, max(low, high))]

    def _member_character(self) -> int:
        self._at += self._glob.startswith("\\", self._at)
        if self._at >= len(self._glob):
            raise GlobError("A [ is never closed; write \\[ for the character itself.")
        self._at += 1
        return ord(self._glob[self._at - 1])


def _without_slash(ranges: Ranges) -> Ranges:
    """The ranges without the slash, which separates names and which no set matches."""
    kept: Ranges = []
    for low, high in ranges:
        halves = [(low, high)] if not low <= _SLASH <= high else [(low, _SLASH - 1), (_SLASH + 1, high)]
        kept.extend(half for half in halves if half[0] <= half[1])
    return kept


def _range_text(ranges: Ranges) -> str:
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)

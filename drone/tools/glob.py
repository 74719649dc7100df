"""Globs: a pattern of names, as git and the shell write them, turned into a regular expression."""

from collections.abc import Iterator, Mapping

from mcc.rules.patterns import Pattern

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
_CLASS_NAME = Pattern(r"\[:([a-z]*):\]")
_SLASH = ord("/")
_LONGEST = 1_000


class GlobError(ValueError):
    """The pattern is not a glob; a sentence that says why."""


def expression(glob: str, *, braces: bool = False) -> str:
    """A regular expression (RE2 syntax, to be matched against the whole path) for one glob.

    `*` and `?` stay within a name, `**` as a whole component spans any number of directories, `[a-z]` and `[!a-z]` are
    sets of characters, a backslash takes the next character as it is; with `braces`, `{a,b}` is either.
    Raises `GlobError`.
    """
    if len(glob) > _LONGEST:
        raise GlobError(f"A glob has at most {_LONGEST:,} characters.")
    return "(?s:" + "".join(_Translation(glob, braces).parts()) + ")"


def literal(character: str) -> str:
    """One character as an expression that matches exactly it."""
    return character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"


class _Translation:
    def __init__(self, glob: str, braces: bool) -> None:
        self._glob = glob
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
                    yield self._one("[^/]")
                case "[":
                    yield self._set()
                case "\\":
                    yield self._escaped()
                case "{" | "}" | "," if self._braces:
                    yield self._brace(character)
                case _:
                    yield self._one(literal(character))
        if self._open:
            raise GlobError("A { is never closed; write \\{ for the character itself.")

    def _one(self, expression: str) -> str:
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

    def _escaped(self) -> str:
        if self._at + 1 == len(self._glob):
            raise GlobError("A glob cannot end in a backslash.")
        self._at += 2
        return literal(self._glob[self._at - 1])

    def _brace(self, character: str) -> str:
        self._at += 1
        if character == "{":
            self._open += 1
            return "(?:"
        if not self._open:
            return literal(character)
        if character == "}":
            self._open -= 1
            return ")"
        return "|"

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
            return f"[^{_written([*ranges, (_SLASH, _SLASH)])}]"
        return _only(_without_slash(ranges))

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
    """A set never matches the slash between two names."""
    kept: Ranges = []
    for low, high in ranges:
        halves = [(low, high)] if not low <= _SLASH <= high else [(low, _SLASH - 1), (_SLASH + 1, high)]
        kept.extend(half for half in halves if half[0] <= half[1])
    return kept


def _only(ranges: Ranges) -> str:
    return f"[{_written(ranges)}]" if ranges else r"[^\x00-\x{10ffff}]"


def _written(ranges: Ranges) -> str:
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)

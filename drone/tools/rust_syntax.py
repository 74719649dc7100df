"""This room is for saying an RE2 pattern in ripgrep's syntax, so that ripgrep misses no line that RE2 would find."""

from collections.abc import Iterator, Mapping

from mcc.rules.patterns import Pattern

ANY_BYTES = r"(?-u:[\x80-\xff]{1,4})"
"""Beside what can match outside ASCII: bytes that only one of the two engines takes for a character."""

_OUTSIDE: Mapping[str, str] = {
    "d": "[0-9]",
    "w": "[0-9A-Za-z_]",
    "s": r"[\t\n\x0c\r ]",
    "D": f"(?:[^0-9]|{ANY_BYTES})",
    "W": f"(?:[^0-9A-Za-z_]|{ANY_BYTES})",
    "S": rf"(?:[^\t\n\x0c\r ]|{ANY_BYTES})",
    "b": "(?:)",
    "B": "(?:)",
    "A": r"(?:^\x{feff}?)",
    "z": r"(?:\r?$)",
}
_INSIDE: Mapping[str, str] = {
    "d": "0-9",
    "w": "0-9A-Za-z_",
    "s": r"\t\x0c\r ",
    "D": "[^0-9]",
    "W": "[^0-9A-Za-z_]",
    "S": r"[^\t\n\x0c\r ]",
}
_CONTROLS: Mapping[str, int] = {"a": 7, "t": 9, "v": 11, "f": 12, "r": 13}
_FOLDING = Pattern(r"\(\?[msU]+i")
_HEX = Pattern(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_COUNT = Pattern(r"\{\d+(?:,\d*)?\}")
_GROUP = Pattern(r"\(\?(?:P?<\w+>|([imsU]*)(-[imsU]+)?([:)]))")
_POSIX = Pattern(r"\[:\^?[a-z]+:\]")


class _Unsure(Exception):
    """Something that the two engines may read differently."""


def widened(source: str, *, case_sensitive: bool) -> str | None:
    """A pattern for ripgrep that matches at least the lines that RE2 matches with `source`; None when that is not sure.

    RE2 sees lines without byte order mark and `\\r`, so anchors allow for them; word boundaries are RE2's to judge.
    """
    try:
        text = "".join(_Reader(source, case_sensitive).parts())
    except (_Unsure, IndexError):
        return None
    return text if case_sensitive else f"(?i:{text})"


class _Reader:
    def __init__(self, source: str, case_sensitive: bool) -> None:
        self._source = source
        self._folds = not case_sensitive or "(?i" in source or _FOLDING.search(source) is not None
        self._at = 0
        self._ended = False

    def parts(self) -> Iterator[str]:
        while self._at < len(self._source):
            character = self._source[self._at]
            match character:
                case "\\":
                    yield self._escape()
                case "[":
                    yield self._class()
                case "(":
                    yield self._group()
                case "{":
                    yield self._count()
                case _:
                    self._at += 1
                    yield self._plain(character)

    def _plain(self, character: str) -> str:
        match character:
            case ".":
                return f"(?:.|{ANY_BYTES})"
            case "^":
                return self._anchor("A")
            case "$":
                return self._anchor("z")
            case "*" | "+" | "?" | "|" | ")":
                return character
            case _:
                return self._literal(ord(character))

    def _anchor(self, letter: str) -> str:
        """An anchor; ripgrep does not find the end of a line before its beginning, even of an empty one."""
        if letter == "A" and self._ended:
            raise _Unsure
        self._ended = self._ended or letter == "z"
        return _OUTSIDE[letter]

    def _literal(self, code: int) -> str:
        if code > 127 and self._folds:
            raise _Unsure
        character = chr(code)
        return character if character.isalnum() or character in " _" else f"\\x{{{code:x}}}"

    def _count(self) -> str:
        counted = _COUNT.match(self._source, self._at)
        self._at = counted.end() if counted else self._at + 1
        return counted[0] if counted else r"\x{7b}"

    def _group(self) -> str:
        if not self._source.startswith("(?", self._at):
            self._at += 1
            return "("
        opening = _GROUP.match(self._source, self._at)
        if opening is None:
            raise _Unsure
        self._at = opening.end()
        if opening[3] is None:
            return "("
        if "i" in (opening[2] or ""):
            raise _Unsure
        folding = "i" if "i" in opening[1] else ""
        return f"(?{folding}:" if opening[3] == ":" else "(?i)" if folding else ""

    def _escape(self) -> str:
        letter = self._source[self._at + 1]
        if letter in _OUTSIDE:
            self._at += 2
            return self._anchor(letter)
        return self._literal(self._code())

    def _code(self) -> int:
        """The character that an escape stands for."""
        letter = self._source[self._at + 1]
        if hexadecimal := _HEX.match(self._source, self._at + 1):
            self._at = hexadecimal.end()
            return int(hexadecimal[1] or hexadecimal[2], 16)
        self._at += 2
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.isalnum() or not letter.isascii():
            raise _Unsure
        return ord(letter)

    def _class(self) -> str:
        self._at += 1
        negated = self._source[self._at] == "^"
        self._at += negated
        members: list[str] = []
        while not members or self._source[self._at] != "]":
            members.append(self._member())
        self._at += 1
        wide = negated or any("^" in member for member in members)
        whole = f"[{'^' if negated else ''}{''.join(members)}]"
        return f"(?:{whole}|{ANY_BYTES})" if wide else whole

    def _member(self) -> str:
        if posix := _POSIX.match(self._source, self._at):
            self._at = posix.end()
            return posix.group()
        if self._source[self._at] == "\\" and self._source[self._at + 1] in _INSIDE:
            self._at += 2
            return _INSIDE[self._source[self._at - 1]]
        low = self._member_code()
        if self._source[self._at] != "-" or self._source[self._at + 1] == "]":
            return self._written(low)
        self._at += 1
        return f"{self._written(low)}-{self._written(self._member_code())}"

    def _member_code(self) -> int:
        if self._source[self._at] == "\\":
            if self._source[self._at + 1] in _INSIDE:
                raise _Unsure
            return self._code()
        self._at += 1
        return ord(self._source[self._at - 1])

    def _written(self, code: int) -> str:
        if code > 127:
            raise _Unsure
        return f"\\x{{{code:x}}}"

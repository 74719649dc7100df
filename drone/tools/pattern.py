"""Search patterns: RE2 syntax, matched line by line, with the text that no matching line is without."""

from collections.abc import Iterator
from typing import Any

import re2

from mcc.rules import patterns

MAX_CHARACTERS = 2_000
_MAX_MEMORY = 32 << 20
_ANCHORS_OF_THEIR_OWN = patterns.Pattern(r"\\[AzQC]|\(\?[a-zA-Z]*-?[a-zA-Z]*m")
_NEWLINE = patterns.Pattern(r"(?:^|[^\\])(?:\\\\)*\\(?:n|x0[aA]|x\{0*[aA]\}|012)")
_TOKEN = patterns.Pattern(r"([^\\\^$.|?*+()\[\]{}])|\\([[:punct:]])|\\[AzbBdDsSwW]|[\^$.?*+]")
"""A character as it is (groups 1 and 2), or what stands for something else but makes no part of a pattern optional."""


class PatternError(ValueError):
    """The pattern cannot be used; a sentence that says why."""


class Pattern:
    """A compiled pattern. It sees each line without its line end; bytes that are no UTF-8 match nothing.

    `\\d`, `\\w`, `\\s` and `\\b` are about ASCII. Time is linear in the text. `needed`: a text that every matching line
    holds, in upper or lower case where case does not count; empty when that is not sure. Raises `PatternError`.
    """

    def __init__(self, text: str, *, literal: bool = False, case_sensitive: bool = True) -> None:
        source = _checked(text, literal)
        self.case_sensitive = case_sensitive
        self.needed = _sure(text if literal else _needed(source), case_sensitive)
        self._per_line = _ANCHORS_OF_THEIR_OWN.search(source) is not None
        alone = _compile(source, case_sensitive)
        self._expression = alone if self._per_line else _compile(f"(?m:{source})", case_sensitive)

    def lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where each matching line begins, and its first match. `data` has `\\n` as its only line end."""
        return self._lines_one_by_one(data) if self._per_line else self._lines_at_once(data)

    def _lines_at_once(self, data: bytes) -> Iterator[tuple[int, int]]:
        position, end = 0, len(data)
        while position < end:
            found = self._expression.search(data, position)
            if found is None or (found.start() == end and data.endswith(b"\n")):
                return
            yield data.rfind(b"\n", 0, found.start()) + 1, found.start()
            following = data.find(b"\n", found.start())
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
        raise PatternError("The pattern is empty; name what to look for.")
    if len(text) > MAX_CHARACTERS:
        raise PatternError(f"The pattern is longer than {MAX_CHARACTERS:,} characters; look for a part of it.")
    if "\n" in text or (not literal and _NEWLINE.search(text)):
        raise PatternError(
            "The search is line by line, so a pattern cannot match a line break; look for one of the lines."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PatternError("The pattern is not valid Unicode (it has a lone surrogate).") from None
    return "".join(map(_literal, text)) if literal else text


def _needed(source: str) -> str:
    """The longest text that all matches hold; none for a pattern with groups, sets, counts or alternatives."""
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


def _sure(needed: str, case_sensitive: bool) -> str:
    """Two engines may differ on what is another case of a letter outside ASCII, and arguments carry no NUL."""
    return needed if needed.isprintable() and (case_sensitive or needed.isascii()) else ""


def _literal(character: str) -> str:
    plain = character.isalnum() or not character.isascii() or character in " _"
    return character if plain else f"\\x{{{ord(character):x}}}"


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
        raise PatternError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    said = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else str(error)
    if "invalid perl operator" in said or "invalid escape sequence: \\" in said:
        hint = "RE2 syntax has no lookaround and no backreferences; write it without, or search for a part and read on."
    else:
        hint = "Escape characters that are meant as they are, or set literal to true."
    return f"The pattern is not valid RE2 syntax: {said}. {hint}"

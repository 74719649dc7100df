"""This room is for .gitignore: which names of a directory a project does not count as its own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import re2

from drone.tools.glob import GlobError, expression

MAX_BYTES = 1_000_000
"""A longer ignore file is not read."""

_NESTED = 4_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file. `expression` is held against paths relative to the file, directories with `/`."""

    negated: bool
    expression: str


class IgnoreFile:
    """The rules of one ignore file, for paths relative to its directory, as bytes."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        runs = [(negated, [rule.expression for rule in run]) for negated, run in groupby(rules, lambda r: r.negated)]
        self._runs = [(negated, _compiled(expressions)) for negated, expressions in reversed(runs)]

    @classmethod
    def parse(cls, data: bytes) -> "IgnoreFile":
        """Read the text of a .gitignore; lines that are no valid pattern match nothing, as in git."""
        return cls(_rules(data))

    def verdict(self, path: bytes, *, directory: bool) -> bool | None:
        """True: ignored, False: wanted after all, None: nothing is said. The last rule that matches decides."""
        subject = path + b"/" if directory else path
        for negated, expressions in self._runs:
            if any(expression.fullmatch(subject) for expression in expressions):
                return not negated
        return None


def _rules(data: bytes) -> Iterator[Rule]:
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text = _trimmed(line.removesuffix(b"\r").decode("latin-1"))
        if text.startswith("#"):
            continue
        negated = text.startswith("!")
        pattern = text[1:] if negated else text
        try:
            rule = _expression(pattern)
        except GlobError:
            continue
        if rule:
            yield Rule(negated, rule)


def _trimmed(text: str) -> str:
    """Without trailing spaces, but for one that a backslash keeps."""
    bare = text.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if slashes % 2 and len(bare) < len(text) else bare


def _expression(pattern: str) -> str:
    only_directories = pattern.endswith("/")
    bare = pattern.removesuffix("/")
    if not bare:
        return ""
    anywhere = "" if "/" in bare else "(?s:.*/)?"
    end = "/" if only_directories else "/?"
    return anywhere + expression(bare.removeprefix("/")) + end


def _compiled(expressions: list[str]) -> list["re2._Regexp"]:
    """The expressions as few automata as their size allows; each is linear in the length of a path."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _NESTED
    try:
        return [re2.compile("|".join(f"(?:{one})" for one in expressions).encode("latin-1"), options)]
    except re2.error:
        if len(expressions) == 1:
            return []
        middle = len(expressions) // 2
        return _compiled(expressions[:middle]) + _compiled(expressions[middle:])

"""Errors in declared rules and schemas, and which of the known names was probably meant.

ValueError
├── RuleError      a CEL expression that cannot be used
└── SchemaError    a JSON Schema that cannot be used
"""

from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

_CHARACTERS = 80
_NAMES = 1_000
_COMPARED = 20
"""Characters of a name and names that are looked at, and how many of those that share most letters are compared."""


def alike(word: str, names: Iterable[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """At most `n` of `names`, the nearest first, none of them less like `word` than `cutoff` (1.0 is the same)."""
    matcher = SequenceMatcher(b=word[:_CHARACTERS], autojunk=False)
    promising: list[tuple[float, str]] = []
    for name in islice(names, _NAMES):
        matcher.set_seq1(name[:_CHARACTERS])
        if matcher.real_quick_ratio() >= cutoff and (most := matcher.quick_ratio()) >= cutoff:
            promising.append((most, name))
    found: list[tuple[float, str]] = []
    for _, name in nlargest(_COMPARED, promising):
        matcher.set_seq1(name[:_CHARACTERS])
        if (ratio := matcher.ratio()) >= cutoff:
            found.append((ratio, name))
    return [name for _, name in nlargest(n, found)]


def nearest(word: str, names: Iterable[str]) -> str:
    """` (did you mean "…"?)` for the one that was probably meant, or nothing."""
    return f' (did you mean "{close[0]}"?)' if (close := alike(word, sorted(names))) else ""


class RuleError(ValueError):
    """A CEL expression that cannot be used; `sentence` says what is wrong and what to do.

    `line` and `column` count from 1 and `offset` from 0 within the expression; all None when the whole is meant.
    `str()` is the sentence with its position.
    """

    def __init__(
        self, sentence: str, line: int | None = None, column: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(sentence if column is None else f"{sentence} (line {line}, column {column} of the expression)")
        self.sentence = sentence
        self.line = line
        self.column = column
        self.offset = offset


class SchemaError(ValueError):
    """A JSON Schema that cannot be used. `place` leads to the part that is wrong, such as `properties.age.type`,
    and is empty when the whole is meant; `str()` joins place and sentence.
    """

    def __init__(self, sentence: str, place: str = "") -> None:
        super().__init__(f"{place}: {sentence}" if place else sentence)
        self.sentence = sentence
        self.place = place


def meant(word: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `word` was probably meant to be; None when nothing is near."""
    plainly = {_plain(name): name for name in sorted(known, reverse=True)}
    found = alike(_plain(word[:100]), plainly)
    return plainly[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")

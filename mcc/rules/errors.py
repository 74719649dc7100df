"""What is wrong with declared rules and schemas, and what ends an evaluation without a value.

ValueError
├── RuleError      a CEL expression that cannot be used
└── SchemaError    a JSON Schema that cannot be used
Exception
├── Fault          an expression has no value
└── Exhausted      the steps of a round of checks are used up
"""

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice
from typing import Any

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


MAX_STEPS = 400_000
"""Steps of one round of checks; one is about half a microsecond."""


class Fault(Exception):
    """An expression has no value; the message says why, without its full stop.

    `placed` says that the message quotes the part at fault; else it begins with a verb that the part is the subject of.
    """

    placed = False

    @classmethod
    def at(cls, message: str) -> "Fault":
        """One whose message quotes the part."""
        made = cls(message)
        made.placed = True
        return made


class MissingKey(Fault):
    """The part `text` asks `found` for a key that it has not. The message is made only when someone reads it."""

    placed = True

    def __init__(self, text: str, found: Mapping[Any, Any], key: object) -> None:
        super().__init__()
        self._asked = (text, found, key)

    def __str__(self) -> str:
        text, found, key = self._asked
        if not isinstance(key, str):
            return f"`{text}`: there is no such key"
        return f"`{text}`: there is no key {key[:60]!r}{self._hint(found, key)}"

    def _hint(self, found: Mapping[Any, Any], key: str) -> str:
        names = [str(name) for name in list(found)[:200]]
        near = meant(key, names)
        if near is not None:
            return f"; did you mean {near!r}?"
        shown = ", ".join(name[:40] for name in names[:10])
        return f"; there is: {shown}" if shown else "; the object is empty"


class Exhausted(Exception):
    """The steps of this round of checks are used up. Not a Fault: no operator may pass over it."""


class Frame:
    """What one evaluation reads and spends: the values by slot, and the steps left.

    `notes` is a list where it is to be told what makes an expression false: sentences without a full stop.
    """

    __slots__ = ("notes", "slots", "steps")

    def __init__(self, slots: list[Any], steps: int, notes: list[str] | None = None) -> None:
        self.slots = slots
        self.steps = steps
        self.notes = notes

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted

"""Errors of rules and schemas, and the step budget of an evaluation.

ValueError
├── ExpressionError  a CEL expression that cannot be used
└── SchemaError      a JSON Schema that cannot be used
Exception
├── Fault            an expression has no value
└── StepsExhausted   a round of checks has used up its steps
"""

from collections.abc import Mapping
from typing import Any

from mcc.contracts.similar import closest_name


class ExpressionError(ValueError):
    """A CEL expression that cannot be used; `sentence` says what is wrong and what to do.

    `line` and `column` count from 1 and `offset` from 0 within the expression; all are None when the error concerns the
    whole expression. `str()` is the sentence with its position.
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
    """A JSON Schema that cannot be used. `place` is the path of the faulty part, such as `properties.age.type`, empty
    for the whole schema; `str()` joins place and sentence.
    """

    def __init__(self, sentence: str, place: str = "") -> None:
        super().__init__(f"{place}: {sentence}" if place else sentence)
        self.sentence = sentence
        self.place = place


MAX_STEPS = 400_000
"""Step budget of one round of checks; a step takes about half a microsecond."""


class Fault(Exception):
    """An expression has no value; the message says why, without a full stop.

    `placed`: the message already quotes the part of the expression at fault. If False, the message begins with a verb,
    and the quoted part is still to be put before it as its subject.
    """

    placed = False

    @classmethod
    def at(cls, message: str) -> "Fault":
        """A fault whose message already quotes the part."""
        fault = cls(message)
        fault.placed = True
        return fault


class MissingKey(Fault):
    """The part `text` of the expression looks up a `key` that the object `found` lacks.

    The message is built only when it is read, because most of these faults are passed over.
    """

    placed = True

    def __init__(self, text: str, found: Mapping[Any, Any], key: object) -> None:
        super().__init__()
        self._lookup = (text, found, key)

    def __str__(self) -> str:
        text, found, key = self._lookup
        if not isinstance(key, str):
            return f"`{text}`: there is no such key"
        return f"`{text}`: there is no key {key[:60]!r}{self._hint(found, key)}"

    def _hint(self, found: Mapping[Any, Any], key: str) -> str:
        names = [str(name) for name in list(found)[:200]]
        near = closest_name(key, names)
        if near is not None:
            return f"; did you mean {near!r}?"
        shown = ", ".join(name[:40] for name in names[:10])
        return f"; there is: {shown}" if shown else "; the object is empty"


class StepsExhausted(Exception):
    """This round of checks has used up its steps. Not a `Fault`, because no operator may pass over it."""


class Frame:
    """The state of one evaluation: the values of variables by slot, and the steps left.

    `notes`: a list that collects what makes the expression false, as sentences without a full stop; None = do not
    collect.
    """

    __slots__ = ("notes", "slots", "steps")

    def __init__(self, slots: list[Any], steps: int, notes: list[str] | None = None) -> None:
        self.slots = slots
        self.steps = steps
        self.notes = notes

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise StepsExhausted

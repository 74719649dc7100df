"""What ends an evaluation without a value, and the budget of steps that it spends."""

from collections.abc import Mapping
from typing import Any

from mcc.rules.errors import meant

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
    """What one evaluation reads and spends: the values by slot, and the steps left."""

    __slots__ = ("slots", "steps")

    def __init__(self, slots: list[Any], steps: int) -> None:
        self.slots = slots
        self.steps = steps

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted

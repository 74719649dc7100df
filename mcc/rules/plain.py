"""JSON of strangers, copied into the values of expressions within bounds."""

import math
from collections.abc import Mapping
from typing import Any

from mcc.rules.faults import Fault

MAX_NESTING = 100
"""Levels of lists and objects in the context of one round of checks."""
MAX_VALUES = 100_000
"""Texts, numbers, lists and objects in that context."""
MAX_TEXT = 8_000_000
"""Characters in that context."""


class Plain:
    """Copies values into plain JSON, and counts what it takes: at most so many values, and characters of text."""

    def __init__(self, values: int = MAX_VALUES, text: int = MAX_TEXT, *, finite: bool = False) -> None:
        self._most = (values, text)
        self._values = values
        self._text = text
        self._finite = finite

    def of(self, value: object, levels: int = MAX_NESTING) -> Any:
        """Raises `Fault` for what is too large, too deep, not JSON, or (where asked for) not finite."""
        self._values -= 1
        if self._values < 0:
            raise Fault(f"there are more than {self._most[0]:,} values in it")
        if levels == 0:
            raise Fault(f"it is nested deeper than {MAX_NESTING} levels")
        exact = type(value)
        if exact is str:
            return self._counted(value)
        if exact is bool or exact is int or value is None:
            return value
        if isinstance(value, float):
            if self._finite and not math.isfinite(value):
                raise Fault(f"it holds the number {value}, which JSON has not")
            return float(value)
        if isinstance(value, Mapping):
            return {self._counted(key): self.of(item, levels - 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item, levels - 1) for item in value]
        return self._unusual(value)

    def _unusual(self, value: object) -> Any:
        if isinstance(value, str):
            return self._counted(value)
        if isinstance(value, int):
            return int(value)
        raise Fault(f"a value of the Python type {type(value).__name__} is not JSON")

    def _counted(self, text: Any) -> str:
        if not isinstance(text, str):
            raise Fault("the key of an object is not a text")
        self._text -= len(text)
        if self._text < 0:
            raise Fault(f"there are more than {self._most[1]:,} characters in it")
        return text if type(text) is str else str.__str__(text)

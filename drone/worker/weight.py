"""Estimates how many bytes of memory a fact or a command takes while it waits to be committed."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from pydantic import BaseModel

OBJECT_BYTES = 200
"""What a pydantic object takes in addition to its fields."""

_SMALL = frozenset({type(None), bool, int, float, datetime})
_SMALL_BYTES = 8


def weight_of(model: BaseModel) -> int:
    """Approximate bytes of a fact or a command. One loop instead of recursion, for speed: it runs for each entry on the
    event loop."""
    weight, waiting = OBJECT_BYTES, [*model.__dict__.values()]
    while waiting:
        value = waiting.pop()
        kind = value.__class__
        if kind is str:
            weight += len(value)
        elif kind in _SMALL:
            weight += _SMALL_BYTES
        elif kind is tuple or kind is list:
            waiting += value
        elif isinstance(value, Enum):
            weight += _SMALL_BYTES
        elif isinstance(value, Mapping):
            waiting += value
            waiting += value.values()
        elif isinstance(inside := getattr(value, "__dict__", None), dict):
            waiting += inside.values()
        else:
            weight += _SMALL_BYTES
    return weight

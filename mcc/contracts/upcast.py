"""Upcasts journal entries of older versions to the current shapes; the only module that knows the old shapes.

Fields that a version merely added are not handled here: their default in the contract says what absence means.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Upcast: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From the data of an entry of any readable version to that of the newest."""


def _transcript_compacted(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Until version 2, `summary` was the message for people, and `through_seq` always said that it replaces nothing."""
    if "message" in data:
        return data
    kept = {name: value for name, value in data.items() if name not in ("summary", "through_seq")}
    return {"message": data.get("summary", ""), **kept}


def _agent_step(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step could hide `pictures` from its run alone; those that a provider refuses are refused once more."""
    return {name: value for name, value in data.items() if name != "pictures"}


_UPCASTS: Mapping[str, Upcast] = {"transcript.compacted": _transcript_compacted, "agent.step": _agent_step}
"""By kind of entry. Otherwise versions 2 to 4 only added kinds and fields."""


def upcast(kind: str, data: object) -> object:
    """Convert the data of an entry of any readable version to the newest shape; a non-mapping comes back unchanged."""
    convert = _UPCASTS.get(kind)
    return data if convert is None or not isinstance(data, Mapping) else convert(data)

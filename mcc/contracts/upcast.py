"""Journal entries of older versions, read as those of today: the one place that knows what they looked like.

A field that a version only added has a default in its contract, which says what its absence means: version 3 added
`untrusted` (False: what was told stands there without a fence) and `definition_origin` (None: it was not noted).
"""

from collections.abc import Callable, Mapping
from typing import Any


def as_today(kind: str, data: object) -> object:
    """The data of an entry of any readable version, in the shape of the newest; what is no mapping stays as it is."""
    upcast = _UPCASTS.get(kind)
    return data if upcast is None or not isinstance(data, Mapping) else upcast(data)


def _agent_started(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 1 had the turn's limits there, which say nothing of the agent's own."""
    limits = data.get("limits")
    turns = isinstance(limits, Mapping) and "subagent_rounds" in limits
    return {**data, "limits": {}} if turns else data


_UPCASTS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {"agent.started": _agent_started}

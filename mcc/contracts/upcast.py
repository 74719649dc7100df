"""Journal entries of older versions, read as those of today: the one place that knows what they looked like.

A field that a version only added has a default in its contract, which says what its absence means: version 3 added
`untrusted` (False: what was told stands there without a fence) and `definition_origin` (None: it was not noted).
Version 4 keeps replies as blocks in their order, and binds an approval by one digest.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def as_today(kind: str, data: object) -> object:
    """The data of an entry of any readable version, in the shape of the newest; what is no mapping stays as it is."""
    upcast = _UPCASTS.get(kind)
    return data if upcast is None or not isinstance(data, Mapping) else upcast(data)


def _agent_started(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 1 had the turn's limits there, which say nothing of the agent's own."""
    limits = data.get("limits")
    turns = isinstance(limits, Mapping) and "subagent_rounds" in limits
    return _with_finish_tools({**data, "limits": {}} if turns else data)


def _with_finish_tools(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 an agent with a gate was known by its two tools: `validate`, and the one that hands in."""
    if "finish_tools" in data or not isinstance(tools := data.get("tools"), list | tuple):
        return data
    own = [name for name in tools if name in ("submit_result", "validate", "done")]
    return {**data, "finish_tools": own if "validate" in own and len(own) > 1 else []}


def _gate_checked(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 the tool said whether a check was to end nothing."""
    return {"check_only": data.get("tool") == "validate", **data}


def _model_replied(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 thinking, text and tool calls stood side by side, and were sent back in this order.

    What follows from the blocks may stand beside them where the entry was read from a service.
    """
    rest = {key: value for key, value in data.items() if key not in _BY_KIND}
    return rest if "blocks" in data else {**rest, "blocks": list(_blocks(data))}


def _approval_requested(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 the arguments and the tool had digests of their own; nobody asked for an approval then."""
    rest = {key: value for key, value in data.items() if key not in ("arguments_digest", "tool_digest")}
    return rest if "digest" in data else {**rest, "digest": data.get("arguments_digest", "")}


_BY_KIND = ("text", "thinking", "thoughts", "tool_calls")


def _blocks(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    thoughts = list(_mappings(data.get("thoughts")))
    for thought in thoughts:
        if thought.get("sealed") is not None:
            yield {"type": "redacted", "data": thought["sealed"]}
        else:
            yield {"type": "thinking", "text": thought.get("text", ""), "signature": thought.get("signature")}
    if data.get("thinking") and not thoughts:
        yield {"type": "thinking", "text": data["thinking"]}
    if data.get("text"):
        yield {"type": "text", "text": data["text"]}
    for call in _mappings(data.get("tool_calls")):
        yield {**call, "type": "tool_call"}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list | tuple) else iter(())


_UPCASTS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "agent.started": _agent_started,
    "approval.requested": _approval_requested,
    "gate.checked": _gate_checked,
    "model.replied": _model_replied,
}

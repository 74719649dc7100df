"""Upcasts journal entries of older versions to the current shapes; the only module that knows the old shapes.

Fields that a version merely added are not handled here: their default in the contract says what absence means.
Version 3 added `untrusted` (False: the content has no fence) and `definition_origin` (None: not recorded). Version 4
stores replies as ordered blocks and identifies what an approval covers by one digest.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def upcast(kind: str, data: object) -> object:
    """Convert the data of an entry of any readable version to the newest shape; a non-mapping comes back unchanged."""
    convert = _UPCASTS.get(kind)
    return data if convert is None or not isinstance(data, Mapping) else convert(data)


def _agent_started(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 1 stored the turn's limits in `limits`; they are dropped, for they do not tell the agent's own."""
    limits = data.get("limits")
    has_turn_limits = isinstance(limits, Mapping) and "subagent_rounds" in limits
    return _with_finish_tools({**data, "limits": {}} if has_turn_limits else data)


def _with_finish_tools(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 an agent had a gate when its tools held both `validate` and one that hands in the result."""
    if "finish_tools" in data or not isinstance(tools := data.get("tools"), list | tuple):
        return data
    finishing = [name for name in tools if name in ("submit_result", "validate", "done")]
    return {**data, "finish_tools": finishing if "validate" in finishing and len(finishing) > 1 else []}


def _gate_checked(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 the tool's name alone told a trial check (`validate`) from one that could end the run."""
    return {"check_only": data.get("tool") == "validate", **data}


def _model_replied(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 a reply had separate fields for thinking, text and tool calls, sent back in this order.

    An entry read from a service has these fields beside `blocks`, computed from them; they are dropped.
    """
    rest = {key: value for key, value in data.items() if key not in _BY_KIND}
    return rest if "blocks" in data else {**rest, "blocks": list(_blocks(data))}


def _approval_requested(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Up to version 3 arguments and tool had separate digests; no approval was ever requested in those versions."""
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
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list | tuple) else iter(())


_UPCASTS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "agent.started": _agent_started,
    "approval.requested": _approval_requested,
    "gate.checked": _gate_checked,
    "model.replied": _model_replied,
}

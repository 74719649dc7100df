"""This room is for evidence as rules see it: what an agent's tools and children did, as plain JSON of bounded size."""

from collections.abc import Iterable, Mapping
from typing import Any

from drone.agent.gates.gate import Evidence
from drone.agent.gates.receipts import Receipt
from drone.agent.report import Report

LONGEST = 2_000
"""Characters of a text in the arguments of a call, or in what a child said, that rules see."""

_LEVELS = 20


def variables(result: Any, evidence: Evidence, names: Iterable[str]) -> dict[str, Any]:
    """The variables of rules that `names` asks for, by name; `result` has its unset properties as null.

    `receipts`: `{call_id, tool, arguments, ok, outcome, path}` of each call, in the order in which they finished.
    `children`: `{record_id, agent, title, status, text, result, error, rounds}` of each agent that the calls ran.
    `usage`: the agent's own, without its children's; `tool_calls` counts the receipts.
    """
    made: Mapping[str, Any] = {
        "result": lambda: result,
        "task": lambda: evidence.task,
        "receipts": lambda: [_receipt(one) for one in evidence.receipts],
        "children": lambda: [_child(one) for one in evidence.children],
        "usage": lambda: {**evidence.usage.model_dump(), "tool_calls": len(evidence.receipts)},
    }
    return {name: made[name]() for name in names}


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "call_id": receipt.call_id,
        "tool": receipt.tool,
        "arguments": _brief(receipt.arguments),
        "ok": receipt.ok,
        "outcome": receipt.outcome,
        "path": receipt.path,
    }


def _child(report: Report) -> dict[str, Any]:
    return {
        "record_id": report.record_id,
        "agent": report.agent,
        "title": report.title,
        "status": report.status.value,
        "text": report.text[:LONGEST],
        "result": report.result,
        "error": report.error,
        "rounds": report.rounds,
    }


def _brief(value: object, levels: int = _LEVELS) -> Any:
    """`value` with long texts cut, and null for what is nested too deep to be asked for."""
    match value:
        case str():
            return value[:LONGEST]
        case Mapping():
            return {key: _brief(item, levels - 1) for key, item in value.items()} if levels else None
        case list() | tuple():
            return [_brief(item, levels - 1) for item in value] if levels else None
        case _:
            return value

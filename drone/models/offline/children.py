"""What subagents brought: reports in any of the forms in which delegation tools tell them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drone.models.offline.conversation import Conversation, Done
from drone.models.offline.facts import COMPLETED, Finding

DELEGATION = ("subagent", "subagents_run")
_RECORD = "\nrecord_id: "
_SEVERE = ("error", "high", "critical", "major")
_DOUBTFUL = ("warning", "medium", "moderate")


@dataclass(frozen=True, slots=True)
class Child:
    """One subagent's report. `text` is all that it wrote where it brought no findings; `failed`: it did not finish."""

    title: str
    text: str
    findings: tuple[Finding, ...] = ()
    next_actions: tuple[str, ...] = ()
    failed: bool = False


def children_of(conversation: Conversation) -> tuple[Child, ...]:
    """Every report so far."""
    return tuple(child for done in conversation.done if done.name in DELEGATION for child in _children(done))


def _children(done: Done) -> Iterator[Child]:
    value = _json_in(done.content)
    agents = value.get("agents") if isinstance(value, dict) else None
    if isinstance(agents, list):
        asked = done.arguments.get("agents")
        titles = [one if isinstance(one, dict) else {} for one in asked] if isinstance(asked, list) else []
        for index, one in enumerate(agents):
            yield _child(one, titles[index] if index < len(titles) else {}, failed=False)
    else:
        yield _child(value if isinstance(value, dict) else done.content, done.arguments, failed=done.is_error)


def _child(told: object, asked: Mapping[str, Any], *, failed: bool) -> Child:
    """`failed`: the call as a whole was an error; of several children each says it for itself."""
    named = told.get("display_name") if isinstance(told, dict) else None
    title = str(asked.get("title") or named or "One subagent")
    if not isinstance(told, dict):
        return Child(title, str(told).partition(_RECORD)[0].strip(), failed=failed)
    findings = told.get("findings")
    return Child(
        title=title,
        text=str(told.get("summary") or told.get("error") or told.get("text") or ""),
        findings=tuple(map(_finding, findings)) if isinstance(findings, list) else (),
        next_actions=tuple(one for one in _listed(told.get("recommended_next_actions")) if isinstance(one, str)),
        failed=failed or told.get("status", COMPLETED) != COMPLETED,
    )


def _finding(told: object) -> Finding:
    if not isinstance(told, dict):
        return Finding("Found", str(told))
    severity = str(told.get("severity", "")).lower()
    return Finding(
        title=str(told.get("title") or "Found"),
        evidence=str(told.get("evidence") or told.get("detail") or ""),
        paths=tuple(str(path) for path in (told.get("path"), *_listed(told.get("paths"))) if path),
        severity="error" if severity in _SEVERE else "warning" if severity in _DOUBTFUL else "info",
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _json_in(text: str) -> object:
    """The JSON object that a result is, or that begins at one of its first lines; None when there is none."""
    for line_start in _line_starts(text):
        if text[line_start : line_start + 1] == "{":
            try:
                return json.JSONDecoder().raw_decode(text, line_start)[0]
            except ValueError:
                return None
    return None


def _line_starts(text: str, most: int = 4) -> Iterator[int]:
    start = 0
    for _ in range(most):
        yield start
        start = text.find("\n", start) + 1
        if not start:
            return

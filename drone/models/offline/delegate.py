"""Delegation: the work in parts for subagents, and their reports put together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drone.models.offline.look import REASON, CallResult, NextStep, RequestSoFar, Wish, mapping_at
from drone.models.offline.report import HONEST, QuotedFinding, ReportFacts, grouped, quoted_lines
from drone.models.offline.search import json_object

DELEGATION = "subagents_run"
_READERS = ("explore", "scout", "general")
_MOST_TEXT = 4_000
_SEVERITIES = ("info", "low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True)
class Subtask:
    """One part of the work. `roles`: who does it, best first; `is_for_any`: else anybody does."""

    title: str
    task: str
    roles: tuple[str, ...] = _READERS
    is_for_any: bool = True


def roles_of(conversation: RequestSoFar) -> tuple[str, ...]:
    """The subagents that there are, by the schema of `subagents_run`."""
    return tuple(mapping_at(_agent_fields(conversation), "role").get("enum") or ())


def _agent_fields(conversation: RequestSoFar) -> Mapping[str, Any]:
    return mapping_at(conversation.schema(DELEGATION, "agents"), "items", "properties")


def delegation(conversation: RequestSoFar, wish: Wish) -> NextStep | None:
    """The step that starts the subagents; None when they have reported."""
    if conversation.must_finish or any(done.name == DELEGATION for done in conversation.done):
        return None
    plan = _assigned(wish, conversation.request, roles_of(conversation))
    pieces = ", ".join(f"`{role}` for “{part.title.lower()}”" for role, part in plan)
    saying = (
        "I am the offline model: I follow fixed rules and do not understand the request as a language model would. "
        f"My plan: {len(plan)} subagents look at the workspace side by side, {pieces}; then I put together what they "
        "found."
    )
    fields, criterion = _agent_fields(conversation), "Every finding quotes a line that was read."
    is_list = mapping_at(fields, "success_criteria").get("type") == "array"
    agents: list[dict[str, object]] = [
        {"id": f"{role}_{number}", "role": role, "title": part.title, "task": part.task}
        | {"success_criteria": [criterion] if is_list else criterion}
        for number, (role, part) in enumerate(plan, 1)
    ]
    offered = [{name: value for name, value in one.items() if name in fields} for one in agents]
    return conversation.step(saying, [conversation.call(DELEGATION, agents=offered, mode="parallel")])


def _assigned(wish: Wish, request: str, available: Sequence[str]) -> list[tuple[str, Subtask]]:
    reason = f'{REASON} "{" ".join(request.split())[:300]}"'
    roles = [(next((name for name in part.roles if name in available), None), part) for part in _parts(wish, reason)]
    return [(role or available[0], part) for role, part in roles if role or part.is_for_any]


def _parts(wish: Wish, reason: str) -> Iterator[Subtask]:
    task = f"Map this workspace: its build files, and where its programs begin. {reason}"
    yield Subtask("Structure and entry points", task, ("scout", *_READERS))
    if not wish.is_review:
        yield Subtask("What the code does", f"Describe this workspace: what its files say of themselves. {reason}")
    task = f"Review this workspace for what is unfinished, silenced or left over. {reason}"
    yield Subtask("What deserves a second look", task, ("review",), is_for_any=False)
    if wish.kind == "security":
        task = f"Look for weaknesses in the security of this workspace. {reason}"
        yield Subtask("Security", task, ("security_analyst",), is_for_any=False)


def facts_of(conversation: RequestSoFar) -> ReportFacts:
    """The subagents' reports, put together section by section."""
    children = [child for done in conversation.done if done.name == DELEGATION for child in _reports(done)]
    findings, sections, shown, finished = list[QuotedFinding](), list[str](), set[str](), 0
    for title, report in children:
        text = str(report.get("summary") or report.get("error") or report.get("text") or "")
        told = report.get("findings")
        quotes = [_finding(mapping_at(one)) for one in told] if isinstance(told, list) else []
        findings += quotes or ([QuotedFinding(f"{title}: {text}")] if text else [])
        said = text.replace(f"*{HONEST}*", "").replace(HONEST, "").strip()
        body = [*quoted_lines(said, _MOST_TEXT).split("\n\n"), *grouped(quotes)]
        kept = [one for one in body if one and one not in shown]
        shown.update(kept)
        is_finished = report.get("status", "completed") == "completed"
        finished += is_finished
        sections.append("\n\n".join((f"## {title}{'' if is_finished else ': not finished'}", *kept)))
    end = f"*From {finished} of {len(children)} subagents. What is not named here was not looked at.*"
    text = "\n\n".join(("# What is in this workspace", f"*{HONEST}*", *sections, end))
    ordered = sorted(findings, key=lambda one: -_SEVERITIES.index(one.severity))
    read = tuple(dict.fromkeys(one.path for one in findings if one.path))
    summary = f"{HONEST} {finished} of {len(children)} subagents reported {len(findings)} findings."
    return ReportFacts(summary, text, tuple(ordered), read, blocked=not finished)


def _reports(done: CallResult) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Title and report of each subagent; the text of the whole call where it has none."""
    agents, asked = json_object(done.content).get("agents"), done.arguments.get("agents")
    titles = [mapping_at(one).get("title") for one in asked] if isinstance(asked, list) else []
    if not isinstance(agents, list):
        yield "The subagents", {"status": "failed", "text": done.content.strip()}
        return
    for index, one in enumerate(agents):
        title = titles[index] if index < len(titles) else mapping_at(one).get("display_name")
        yield str(title or "One subagent"), mapping_at(one)


def _finding(fields: Mapping[str, Any]) -> QuotedFinding:
    line, severity = fields.get("line"), str(fields.get("severity", "")).lower()
    return QuotedFinding(
        title=str(fields.get("title") or "Found"),
        path=str(fields.get("path") or ""),
        line=line if isinstance(line, int) else 0,
        quote=str(fields.get("evidence") or ""),
        severity=severity if severity in _SEVERITIES else "info",
    )

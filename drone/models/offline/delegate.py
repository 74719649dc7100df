"""Delegation: the work in parts for subagents, and their reports put together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drone.models.offline.look import REASON, CallResult, NextStep, RequestSoFar, Wish, mapping_at
from drone.models.offline.report import HONEST, QuotedFinding, ReportFacts, grouped, quoted_lines
from drone.models.offline.search import json_object

DELEGATION = ("subagent", "subagents_run")
_READERS = ("explore", "scout", "general")
_MOST_TEXT = 4_000
_RECORD = "\nrecord_id: "
_SEVERITIES = ("info", "low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True)
class Subtask:
    """One part of the work. `roles`: who does it, best first; `is_for_any`: else anybody does."""

    title: str
    task: str
    roles: tuple[str, ...] = _READERS
    is_for_any: bool = True


@dataclass(frozen=True, slots=True)
class ChildReport:
    """One subagent's report. `text` is what it wrote beside its findings; `failed`: it did not finish."""

    title: str
    text: str
    findings: tuple[QuotedFinding, ...] = ()
    failed: bool = False


def roles_of(conversation: RequestSoFar) -> tuple[str, ...]:
    """The subagents that there are, by the schema of `subagents_run`, else of `subagent`."""
    several = mapping_at(_agent_fields(conversation), "role").get("enum")
    return tuple(several or conversation.schema("subagent", "agent_type").get("enum") or ())


def _agent_fields(conversation: RequestSoFar) -> Mapping[str, Any]:
    return mapping_at(conversation.schema("subagents_run", "agents"), "items", "properties")


def delegation(conversation: RequestSoFar, wish: Wish) -> NextStep | None:
    """The step that starts the subagents; None when they have reported."""
    if conversation.must_finish or any(done.name in DELEGATION for done in conversation.done):
        return None
    plan = _assigned(wish, conversation.request, roles_of(conversation))
    pieces = ", ".join(f"`{role}` for “{part.title.lower()}”" for role, part in plan)
    saying = (
        "I am the offline model: I follow fixed rules and do not understand the request as a language model would. "
        f"My plan: {len(plan)} subagents look at the workspace side by side, {pieces}; then I put together what they "
        "found."
    )
    if fields := _agent_fields(conversation):
        agents = [_agent(number, role, part, fields) for number, (role, part) in enumerate(plan, 1)]
        return conversation.step(saying, [conversation.call("subagents_run", agents=agents, mode="parallel")])
    calls = [conversation.call("subagent", agent_type=role, prompt=part.task, title=part.title) for role, part in plan]
    return conversation.step(saying, calls)


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


def _agent(number: int, role: str, part: Subtask, fields: Mapping[str, Any]) -> dict[str, object]:
    criterion = "Every finding quotes a line that was read."
    listed = mapping_at(fields, "success_criteria").get("type") == "array"
    arguments: dict[str, object] = {"id": f"{role}_{number}", "role": role, "title": part.title, "task": part.task}
    arguments |= {"success_criteria": [criterion] if listed else criterion}
    return {name: value for name, value in arguments.items() if name in fields}


def facts_of(conversation: RequestSoFar) -> ReportFacts:
    """The subagents' reports, put together section by section."""
    children = [child for done in conversation.done if done.name in DELEGATION for child in _reports(done)]
    finished = sum(not child.failed for child in children)
    sections, shown = list[str](), set[str]()
    for child in children:
        text = child.text.replace(f"*{HONEST}*", "").replace(HONEST, "").strip()
        body = [*quoted_lines(text, _MOST_TEXT).split("\n\n"), *grouped(child.findings)]
        kept = [one for one in body if one and one not in shown]
        shown.update(kept)
        sections.append("\n\n".join((f"## {child.title}{': not finished' if child.failed else ''}", *kept)))
    end = f"*From {finished} of {len(children)} subagents. What is not named here was not looked at.*"
    report = "\n\n".join(("# What is in this workspace", f"*{HONEST}*", *sections, end))
    findings = [one for child in children for one in child.findings]
    findings += [
        QuotedFinding(f"{child.title}: {child.text}") for child in children if not child.findings and child.text
    ]
    ordered = sorted(findings, key=lambda one: -_SEVERITIES.index(one.severity))
    read = tuple(dict.fromkeys(one.path for one in findings if one.path))
    said = f"{HONEST} {finished} of {len(children)} subagents reported {len(findings)} findings."
    return ReportFacts(said, report, tuple(ordered), read, blocked=not finished)


def _reports(done: CallResult) -> Iterator[ChildReport]:
    value = json_object(done.content)
    agents = value.get("agents")
    if isinstance(agents, list):
        asked = done.arguments.get("agents")
        titles = [mapping_at(one) for one in asked] if isinstance(asked, list) else []
        for index, one in enumerate(agents):
            yield _report(mapping_at(one), titles[index] if index < len(titles) else {}, failed=False)
    elif value:
        yield _report(value, done.arguments, failed=done.is_error)
    else:
        text = done.content.partition(_RECORD)[0].strip()
        yield ChildReport(str(done.arguments.get("title") or "One subagent"), text, failed=done.is_error)


def _report(report: Mapping[str, Any], asked: Mapping[str, Any], *, failed: bool) -> ChildReport:
    findings = report.get("findings")
    return ChildReport(
        title=str(asked.get("title") or report.get("display_name") or "One subagent"),
        text=str(report.get("summary") or report.get("error") or report.get("text") or ""),
        findings=tuple(map(_finding, findings)) if isinstance(findings, list) else (),
        failed=failed or report.get("status", "completed") != "completed",
    )


def _finding(finding: object) -> QuotedFinding:
    fields = mapping_at(finding)
    line, severity = fields.get("line"), str(fields.get("severity", "")).lower()
    return QuotedFinding(
        title=str(fields.get("title") or "Found"),
        path=str(fields.get("path") or ""),
        line=line if isinstance(line, int) else 0,
        quote=str(fields.get("evidence") or ""),
        severity=severity if severity in _SEVERITIES else "info",
    )

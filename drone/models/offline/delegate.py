"""Delegation: splits the work among subagents and merges their reports into one answer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drone.agent.ports.model import WantedCall
from drone.models.offline.conversation import FINISH, CallResult, Conversation
from drone.models.offline.explore import REVIEW_RULES, Step
from drone.models.offline.facts import BLOCKED, COMPLETED, Facts, Finding, shortened
from drone.models.offline.languages import is_source
from drone.models.offline.report import HONEST
from drone.models.offline.request import REASON, ReviewKind, focus_of
from drone.models.offline.tool_output import paths_in, unique
from mcc.rules.patterns import Pattern

_ORDER = (
    "Purpose",
    "How the parts depend on each other",
    "Read these first",
    "Entry points",
    "Build",
    "Tests",
    "Layout",
    "Documentation",
)
_OPEN = "Not settled"
_HONEST = HONEST.strip("*")
_SECOND_LOOK = "Worth a second look"
_REVIEW_TITLES = frozenset(watch.title for watches in REVIEW_RULES.values() for watch in watches)
_UNMERGED_CHARACTERS = 4_000
_LEAD_CHARACTERS = 2_000
_CALLED = Pattern(r"calls it \*\*([^*\n]+)\*\*: (.+?)\.?$", lines=True)
_BOLD = Pattern(r"\*\*([^*\n]+)\*\*")
_HEADING = Pattern(r"^#{1,3} +(.+?)\s*$")


DELEGATION = ("subagent", "subagents_run")
_RECORD = "\nrecord_id: "
_SEVERE = ("error", "high", "critical", "major")
_DOUBTFUL = ("warning", "medium", "moderate")

_READERS = ("explore", "scout", "general")
_CRITERION = "Every finding names the files that it rests on, and each of them was read."


@dataclass(frozen=True, slots=True)
class ChildReport:
    """One subagent's report. `text` is all it wrote if it has no findings; `failed`: it did not finish."""

    title: str
    text: str
    findings: tuple[Finding, ...] = ()
    next_actions: tuple[str, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Subtask:
    """One part of the work. `preferred_roles`: suitable roles, best first. If none of them is available, any role does
    if `any_role`."""

    title: str
    task: str
    preferred_roles: tuple[str, ...] = _READERS
    any_role: bool = True

    def role(self, available: tuple[str, ...]) -> str | None:
        return next(
            (name for name in self.preferred_roles if name in available),
            available[0] if self.any_role and available else None,
        )


def subtasks_of(request: str, available: tuple[str, ...]) -> list[tuple[str, Subtask]]:
    """The work as (role, part) pairs: two readers always, and specialists if the request is about their subject."""
    planned = [*_reader_tasks(request), *_specialist_tasks(request)]
    return [(role, piece) for piece in planned if (role := piece.role(available)) is not None]


def calls_for(conversation: Conversation, request: str) -> tuple[list[tuple[str, Subtask]], list[WantedCall | None]]:
    """The plan, and the calls that start it: a single call if several roles are needed, else one call per part."""
    batch = conversation.roles and subtasks_of(request, conversation.roles)
    if batch and (len({role for role, _ in batch}) > 1 or not conversation.agent_types):
        agents = [_agent_arguments(number, role, piece, conversation) for number, (role, piece) in enumerate(batch, 1)]
        return batch, [conversation.call("subagents_run", agents=agents, mode="parallel")]
    single = subtasks_of(request, conversation.agent_types)
    return single, [
        conversation.call("subagent", agent_type=role, prompt=piece.task, title=piece.title) for role, piece in single
    ]


def _agent_arguments(number: int, role: str, piece: Subtask, conversation: Conversation) -> dict[str, Any]:
    known: Mapping[str, Any] = conversation.agent_fields
    criteria = known.get("success_criteria")
    listed = isinstance(criteria, Mapping) and criteria.get("type") == "array"
    arguments = {
        "id": f"{role}_{number}",
        "role": role,
        "title": piece.title,
        "task": piece.task,
        "success_criteria": [_CRITERION] if listed else _CRITERION,
    }
    return {name: value for name, value in arguments.items() if name in known}


def _reader_tasks(request: str) -> Iterator[Subtask]:
    yield Subtask(
        "Structure and entry points",
        "Find the structure of this workspace: its layout, its build files, and the entry points where its programs "
        f"begin. Report paths with lines, and counts. {_reason(request)}",
        ("scout", *_READERS),
    )
    if _review_kind(request):
        return
    yield Subtask(
        "What the code does",
        "Find what the code does: its purpose, its main modules and what each of them is for, its tests and its "
        f"documentation. Report paths, names and counts. {_reason(request)}",
    )


def _specialist_tasks(request: str) -> Iterator[Subtask]:
    task = "Review this workspace: look for what is unfinished, silenced or left over in its sources."
    yield Subtask("What deserves a second look", f"{task} {_reason(request)}", ("review",), any_role=False)
    if _review_kind(request) == "security":
        task = "Look for weaknesses in the security of this workspace: text run as code, shells, secrets, unsafe data."
        yield Subtask("Security", f"{task} {_reason(request)}", ("security_analyst",), any_role=False)


def _review_kind(request: str) -> ReviewKind:
    focus = focus_of(request)
    return focus.review if focus else ""


def _reason(request: str) -> str:
    return f'{REASON} "{" ".join(request.split())[:300]}"'


def step_of(conversation: Conversation) -> Step | None:
    """The step that starts the subagents; None when they have reported."""
    if conversation.must_finish:
        return None
    if any(done.name in DELEGATION for done in conversation.done):
        return None
    plan, calls = calls_for(conversation, conversation.request)
    pieces = ", ".join(f"`{role}` for “{piece.title.lower()}”" for role, piece in plan)
    saying = (
        "I am the offline model: I follow fixed rules and do not understand the request as a language model would. "
        f"My plan: {len(plan)} subagents look at the workspace side by side, {pieces}; then I put together what they "
        "found."
    )
    return Step(saying, tuple(call for call in (conversation.call("environment_detect"), *calls) if call is not None))


@dataclass(slots=True)
class _Merged:
    """The sections of the answer: lines by title. Sections of equal title are joined, and repeated lines dropped."""

    sections: dict[str, list[str]] = field(default_factory=dict)

    def add(self, title: str, lines: Sequence[str]) -> None:
        kept = self.sections.setdefault(title, [])
        kept.extend(line for line in lines if line not in kept)

    def text(self, title: str) -> str:
        return "\n".join(self.sections.get(title, ()))

    def ordered(self, *first: str) -> Iterator[str]:
        others = [title for title in self.sections if title not in (*_ORDER, _SECOND_LOOK, _OPEN)]
        for title in dict.fromkeys((*first, *_ORDER, *others, _SECOND_LOOK, _OPEN)):
            if self.sections.get(title):
                yield f"## {title}\n{self.text(title)}"


def answer(conversation: Conversation) -> str:
    """The final answer, built only from the subagents' reports and the master's own results."""
    children = reports_of(conversation)
    merged = _merged(children)
    foreign = [text for child in children if (text := _unmerged(child))]
    focus = focus_of(conversation.request)
    first = (_SECOND_LOOK,) if focus and focus.review else ()
    parts = [f"# {_heading(merged, children)}", HONEST, *_opening(merged), *merged.ordered(*first), *foreign]
    return "\n\n".join([*parts, _sources(conversation, children)])


def facts_of(conversation: Conversation) -> Facts:
    """The answer as facts for a form: every child's findings, by severity."""
    children, report = reports_of(conversation), answer(conversation)
    rank = {"error": 0, "warning": 1, "info": 2}
    found = sorted((one for child in children for one in child.findings), key=lambda one: rank[one.severity])
    texts = (Finding(child.title, child.text, paths_in(child.text)[:12]) for child in children if not child.findings)
    findings = (*found, *(one for one in texts if one.evidence))
    paragraphs = [part for part in report.split("\n\n") if not part.startswith(("#", HONEST))]
    return Facts(
        status=COMPLETED if any(not child.failed for child in children) else BLOCKED,
        summary=f"{_HONEST} {paragraphs[0] if paragraphs else 'No subagent brought anything.'}",
        report=report,
        findings=findings,
        steps=tuple(f"{child.title}: {'not finished' if child.failed else 'done'}" for child in children),
        next_actions=unique([one for child in children for one in child.next_actions]),
        read=unique([path for one in findings for path in one.paths]),
    )


def _sections_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Titles with the lines below them, as in an explorer's report."""
    title, lines = "", list[str]()
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            yield title, lines
            title, lines = heading[1], []
        elif line.strip() and line.strip() != HONEST:
            lines.append(line.rstrip())
    yield title, lines


def _merged(children: Sequence[ChildReport]) -> _Merged:
    merged = _Merged()
    for child in children:
        if not child.findings and not child.failed and _HONEST in child.text and HONEST not in child.text:
            merged.add(child.title, child.text.replace(_HONEST, "").strip().splitlines())
        elif not child.findings and HONEST in child.text:
            for title, lines in _sections_of(child.text):
                if title:
                    merged.add(title, lines)
        for one in child.findings:
            if one.severity == "info" and one.title not in _REVIEW_TITLES:
                merged.add(one.title, one.evidence.splitlines())
            else:
                rank = "" if one.severity == "info" else f" ({one.severity})"
                merged.add(
                    _SECOND_LOOK, [f"- **{one.title}**{rank}", *(f"  {line}" for line in one.evidence.splitlines())]
                )
        merged.add(_OPEN, [f"- {one}" for one in child.next_actions])
    return merged


def _unmerged(child: ChildReport) -> str:
    """The report of another kind of subagent, or the reason why it failed; empty for reports that are merged."""
    if not child.failed and (child.findings or _HONEST in child.text):
        return ""
    return f"## {child.title}{': not finished' if child.failed else ''}\n{shortened(child.text, _UNMERGED_CHARACTERS)}"


def _heading(merged: _Merged, children: Sequence[ChildReport]) -> str:
    named = _BOLD.search(f"{merged.text('Purpose')}\n{merged.text('Build')}")
    if named:
        return f"{named[1]}: what is in this workspace"
    return "What is in this workspace" if merged.sections or children else "Nothing was found out"


def _opening(merged: _Merged) -> list[str]:
    """One paragraph: the project's own description, its size, and where to begin reading."""
    called = _CALLED.search(merged.text("Purpose"))
    size = next((line.removeprefix("- ") for line in merged.text("Layout").splitlines() if "file" in line), "")
    read = (line for line in merged.text("Read these first").splitlines() if not line.endswith(": a test"))
    places = [path for line in read for path in paths_in(line)[:1] if is_source(path)]
    parts = (
        f"**{called[1]}** describes itself so: “{called[2]}”." if called else "",
        size,
        f"To understand it, begin reading at `{places[0]}`." if places else "",
    )
    return [sentence] if (sentence := " ".join(part for part in parts if part)) else []


def _sources(conversation: Conversation, children: Sequence[ChildReport]) -> str:
    used = {done.name for done in conversation.done if done.name not in DELEGATION and not done.is_error}
    own = sorted(used - {*FINISH})
    finished = sum(not child.failed for child in children)
    sources = f"From {finished} of {len(children)} subagents" if children else "From no subagent"
    beside = f", and {', '.join(f'`{name}`' for name in own)}" if own else ""
    return f"*{sources}{beside}. What is not named here was not looked at.*"


def reports_of(conversation: Conversation) -> tuple[ChildReport, ...]:
    """All reports so far."""
    return tuple(child for done in conversation.done if done.name in DELEGATION for child in _reports_in(done))


def _reports_in(done: CallResult) -> Iterator[ChildReport]:
    value = _json_in(done.content)
    agents = value.get("agents") if isinstance(value, dict) else None
    if isinstance(agents, list):
        asked = done.arguments.get("agents")
        titles = [one if isinstance(one, dict) else {} for one in asked] if isinstance(asked, list) else []
        for index, one in enumerate(agents):
            yield _report_of(one, titles[index] if index < len(titles) else {}, failed=False)
    else:
        yield _report_of(value if isinstance(value, dict) else done.content, done.arguments, failed=done.is_error)


def _report_of(report: object, asked: Mapping[str, Any], *, failed: bool) -> ChildReport:
    """`failed`: the whole call failed; among several children each report states its own status."""
    named = report.get("display_name") if isinstance(report, dict) else None
    title = str(asked.get("title") or named or "One subagent")
    if not isinstance(report, dict):
        return ChildReport(title, str(report).partition(_RECORD)[0].strip(), failed=failed)
    findings = report.get("findings")
    return ChildReport(
        title=title,
        text=str(report.get("summary") or report.get("error") or report.get("text") or ""),
        findings=tuple(map(_finding, findings)) if isinstance(findings, list) else (),
        next_actions=tuple(one for one in _listed(report.get("recommended_next_actions")) if isinstance(one, str)),
        failed=failed or report.get("status", COMPLETED) != COMPLETED,
    )


def _finding(finding: object) -> Finding:
    if not isinstance(finding, dict):
        return Finding("Found", str(finding))
    severity = str(finding.get("severity", "")).lower()
    return Finding(
        title=str(finding.get("title") or "Found"),
        evidence=str(finding.get("evidence") or finding.get("detail") or ""),
        paths=tuple(str(path) for path in (finding.get("path"), *_listed(finding.get("paths"))) if path),
        severity="error" if severity in _SEVERE else "warning" if severity in _DOUBTFUL else "info",
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _json_in(text: str) -> object:
    """The JSON object that the text is, or that begins on one of its first lines; None if there is none."""
    start = 0 if text.startswith("{") else text.find("\n{", 0, _LEAD_CHARACTERS) + 1
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if text.startswith("{", start) else None
    except ValueError:
        return None

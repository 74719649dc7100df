"""Submission of the result: fills the form, checks unusual forms first, and corrects refused results."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drone.agent.ports.messages import ToolSpec
from drone.agent.ports.model import WantedCall
from drone.models.offline.conversation import CHECK_ONLY, CallResult, Conversation
from drone.models.offline.explore import Step
from drone.models.offline.facts import Facts
from drone.models.offline.form import Form
from drone.models.offline.languages import is_document, language_of
from drone.models.offline.tool_output import paths_in, unique
from mcc.rules.patterns import Pattern

_USUAL = frozenset({"status", "summary", "findings"})
_SIZES = ((20, 2_000), (12, 900), (6, 300), (2, 120))
"""(findings, characters of evidence): the first pair that fits into the remaining room is used."""

_MOST_CHARACTERS = 40_000
_MOST_READ = 8
_REFUSED = "Not accepted:"
_FIELD = Pattern(r"^\W*(?P<place>[A-Za-z_][\w.\[\]]*)(?: |: )(?P<words>.+)$", lines=True)
_INDEX = Pattern(r"\[\d*\]")
_MISSING = Pattern(r"\brequired\b|\bmissing\b|\bmust (?:be there|have)\b", ignore_case=True)
_OF_FINDINGS = Pattern(r"\bfindings?\b", ignore_case=True)
_QUOTES_ONLY = Pattern(r"\bevidence is quoted\b", ignore_case=True)
_WANTS_READING = Pattern(r"\bread\b|\breceipts?\b|\bevidence\b|\bfindings?\b|\blook(?:ed)?\b", ignore_case=True)


@dataclass(frozen=True, slots=True)
class GateResponses:
    """The gate's responses to results so far, whether checked or submitted."""

    finish: ToolSpec
    checks: tuple[CallResult, ...]

    @property
    def refusals(self) -> tuple[CallResult, ...]:
        return tuple(check for check in self.checks if check.is_error)

    @property
    def complaint(self) -> str:
        """The latest refusal; empty if the latest response was none."""
        return self.checks[-1].content if self.checks and self.checks[-1].is_error else ""

    def passed(self, arguments: Mapping[str, object]) -> bool:
        last = self.checks[-1] if self.checks else None
        return last is not None and not last.is_error and _submitted(last) == arguments


def step_of(conversation: Conversation, facts: Facts, tokens: int | None = None) -> Step | None:
    """The next step towards an accepted result; None for an agent that submits nothing.

    `tokens`: the room left for the call, None = enough.
    """
    if conversation.finish is None:
        return None
    finish = conversation.finish
    gate = GateResponses(finish, tuple(done for done in conversation.done if done.name == finish.name))
    if calls := _still_to_read(conversation, facts, gate.complaint):
        return Step("The result was sent back; I read what it speaks of first.", calls)
    arguments = next(_unrefused_forms(gate, _verified(conversation, facts, gate), tokens))
    if _needs_check(conversation, gate) and not gate.passed(arguments):
        asked = WantedCall(finish.name, {**arguments, CHECK_ONLY: True})
        return Step("I have the result checked before I hand it in.", (asked,))
    again = "I correct what was complained of, and hand it in again." if gate.refusals else "I hand in what I found."
    return Step(again, (WantedCall(gate.finish.name, arguments),))


def _unrefused_forms(gate: GateResponses, facts: Facts, tokens: int | None) -> Iterator[dict[str, object]]:
    """Filled forms that were not refused yet: complete, else without findings, else as blocked."""
    blocked = facts.blocked(_first_line(gate.complaint))
    for variant in (facts, replace(facts, findings=()), blocked, replace(blocked, findings=())):
        arguments = _arguments(gate, variant, tokens)
        if not any(_submitted(done) == arguments for done in gate.refusals):
            yield arguments
    yield _arguments(gate, blocked, tokens)


def _needs_check(conversation: Conversation, gate: GateResponses) -> bool:
    """Whether to check before submitting: for unusual forms, and after a refusal."""
    properties = gate.finish.parameters.get("properties")
    if not isinstance(properties, Mapping) or CHECK_ONLY not in properties or conversation.must_finish:
        return False
    usual = properties.keys() >= _USUAL
    checked = sum(CHECK_ONLY in check.arguments for check in gate.checks)
    return checked < 3 and (bool(gate.refusals) or not usual)


def _still_to_read(conversation: Conversation, facts: Facts, complaint: str) -> tuple[WantedCall, ...]:
    """Reads of files that the complaint names and that were not opened. If it demands reading and nothing was read, a
    known file."""
    if not complaint or conversation.must_finish:
        return ()
    opened = {str(done.arguments.get("path")) for done in conversation.done if done.name == "read_file"}
    named = [path for path in paths_in(complaint) if path not in opened and _is_file(path)]
    if not named and not opened and _WANTS_READING.search(complaint):
        listed = [path for done in conversation.results("list_files") for path in paths_in(done.content)]
        named = list(facts.read) or listed[:1]
    calls = (conversation.call("read_file", path=path) for path in named[:_MOST_READ])
    return tuple(call for call in calls if call is not None)


def _is_file(path: str) -> bool:
    """Whether the word is a file: words such as `result.status` look like paths too."""
    return "/" in path or language_of(path) is not None or is_document(path)


def _verified(conversation: Conversation, facts: Facts, gate: GateResponses) -> Facts:
    """The facts with files read since, and without files that cannot be read.

    Findings without any file are dropped once a refusal complained about findings.
    """
    failed = {str(d.arguments.get("path")) for d in conversation.done if d.name == "read_file" and d.is_error}
    read = [str(done.arguments["path"]) for done in conversation.results("read_file") if "path" in done.arguments]
    kept = tuple(
        replace(one, paths=tuple(path for path in one.paths if path not in failed or path in read))
        for one in facts.findings
        if one.paths or not any(_OF_FINDINGS.search(done.content) for done in gate.refusals)
    )
    if _QUOTES_ONLY.search(conversation.system) or _QUOTES_ONLY.search(gate.complaint):
        # A survey's evidence combines many files and names each of them itself.
        kept = tuple(replace(one, paths=(), place=None) for one in kept)
    return replace(facts, findings=kept, read=unique([*facts.read, *read]))


def _arguments(gate: GateResponses, facts: Facts, tokens: int | None) -> dict[str, object]:
    """The filled form, as large as fits."""
    form = Form(gate.finish.parameters, without=_refused_names(gate.refusals, gate.finish.parameters) | {CHECK_ONLY})
    most = _MOST_CHARACTERS if tokens is None else min(_MOST_CHARACTERS, tokens * 3)
    filled: dict[str, object] = {}
    for findings, characters in _SIZES:
        filled = form.filled(facts.within(findings, characters))
        if len(json.dumps(filled, ensure_ascii=False)) <= most:
            break
    return filled


def _refused_names(refusals: Sequence[CallResult], schema: Mapping[str, Any]) -> frozenset[str]:
    """The last path segments of fields that were complained about, except as missing."""
    found = (match for done in refusals for match in _FIELD.finditer(done.content.replace(_REFUSED, "")))
    known = json.dumps(schema, default=str)
    names = (_INDEX.sub("", match["place"]).split(".")[-1] for match in found if not _MISSING.search(match["words"]))
    return frozenset(name for name in names if f'"{name}"' in known and name not in _USUAL)


def _submitted(done: CallResult) -> dict[str, object]:
    """The arguments that were submitted or checked."""
    return {name: given for name, given in done.arguments.items() if name != CHECK_ONLY}


def _first_line(text: str) -> str:
    lines = [line.strip(" -") for line in text.splitlines() if line.strip(" -")]
    message = next((line for line in lines if line != _REFUSED), text)
    return message.removeprefix(_REFUSED).strip()[:300]

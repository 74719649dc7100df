"""The gate: checks what an agent submits, and accepts it or sends it back with reasons; `Evidence` is its input.

A result is submitted by a tool call, not by ending the conversation: docs/decisions/11.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from drone.agent.ports.receipts import CallReceipt, passages_shown
from drone.agent.ports.report import GateFailed, Report, describe_or_raise, not_an_object
from drone.agent.state.record import RecordState
from drone.agent.turns.call_ends import ReadCall, read_call
from drone.agent.turns.toolset import Output
from drone.threads import OwnThreads
from mcc.contracts.blocks import ToolCall
from mcc.contracts.documents import RuleError
from mcc.contracts.journal import GateChecked, Outcome
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import RecordStatus
from mcc.contracts.similar import hints_keywords
from mcc.contracts.usage import Usage
from mcc.rules.reading import json_in, read_as
from mcc.rules.reads import Passage
from mcc.rules.report import few
from mcc.rules.schema import WRAPPED
from mcc.transcript.messages import ToolSpec
from mcc.transcript.transcript import REPLY, TRY_FIRST, VALIDATE, WOULD_BE_ACCEPTED, as_submission


async def _nothing_kept(digest: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a gate may base its decision on: the task, receipts of tool calls, reports of children.

    `reading`: names of the agent's tools that read something. `threads`: for checks that block. `below`: receipts of
    the children. `roots`: the spellings of the directory that paths are relative to. `kept`: returns the whole text of
    an artifact, by its digest.
    """

    task: str
    receipts: Sequence[CallReceipt]
    children: Sequence[Report]
    usage: Usage
    reading: frozenset[str] = frozenset()
    threads: OwnThreads = field(default_factory=OwnThreads, repr=False, compare=False)
    below: Sequence[CallReceipt] = ()
    roots: tuple[str, ...] = ()
    kept: Callable[[str], Awaitable[str | None]] = field(default=_nothing_kept, repr=False, compare=False)

    @property
    def tried_nothing(self) -> bool:
        """Whether the agent has reading tools and has called none of them."""
        return bool(self.reading) and not any(receipt.tool in self.reading for receipt in self.receipts)

    async def whole_texts(self) -> Mapping[str, str]:
        """The whole texts, by digest, of receipts whose file content was shortened. Raises `JournalError`."""
        cut = {one.artifact for one in (*self.receipts, *self.below) if one.content and one.artifact}
        found = {digest: await self.kept(digest) for digest in sorted(cut)}
        return {digest: text for digest, text in found.items() if text is not None}

    def passages(self, whole: Mapping[str, str]) -> Iterator[tuple[str, Passage]]:
        """Each passage of a file that a tool of the agent or of its children showed, with that call's id."""
        for receipt in (*self.receipts, *self.below):
            content = whole.get(receipt.artifact or "", receipt.content)
            if content:
                yield from ((receipt.call_id, one) for one in passages_shown(receipt.tool, receipt.arguments, content))


CHECK_ONLY = "check_only"

ATTEMPTS = 5
"""Submissions after which the run fails."""

MAX_ERRORS = 20
"""Most errors of one check that the model is shown."""

ERROR_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The outcome of a check. Without errors it is accepted: `result` (JSON) is the run's result, `text` its text.

    `errors`: sentences that the model can act on. `faults`: those among them that say a rule could not be evaluated.
    `warnings`: what was changed in the submission. `listed`: the errors in structured form, for a gate that answers in
    a format of its own.
    """

    errors: tuple[str, ...] = ()
    result: object = None
    text: str = ""
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    listed: tuple[RuleError, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.errors


class Gate(Protocol):
    """Decides whether a run's result is good. Stateless, shared by all runs of an agent."""

    @property
    def finish(self) -> str:
        """The name of the tool that submits the result."""

    def specs(self) -> Sequence[ToolSpec]:
        """The finish tools: `finish`, and `validate` where the gate has it."""

    @property
    def check_only(self) -> str | None:
        """The argument of `finish` that requests a check without submitting; not part of the result. None: there is
        none."""

    @property
    def guidance(self) -> str:
        """The section about the gate that is appended to the system prompt."""

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> GateVerdict:
        """Check a submission. Never raises because of its content; never blocks the event loop."""

    def answer(self, verdict: GateVerdict, said: str) -> str:
        """The tool result that the model sees; `said` is the runtime's own text, which contains every error."""


class RunGate:
    """The gate of one run. `state` counts the attempts; this object holds the verdicts accepted under this drone."""

    def __init__(self, gate: Gate, state: RecordState, attempts: int = ATTEMPTS) -> None:
        self._gate = gate
        self._state = state
        self._attempts = attempts
        self._specs = tuple(gate.specs())
        self._names = {spec.name for spec in self._specs}
        self._verdicts: dict[str, GateVerdict] = {}

    def owns(self, name: str) -> bool:
        return name in self._names

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    @property
    def tried(self) -> int:
        return self._state.gate.tried

    def verdict(self, accepted: ToolCall) -> GateVerdict | None:
        """The verdict that accepted this call; None when it was accepted under another drone and must be checked
        again."""
        return self._verdicts.get(accepted.call_id)

    async def call(self, call: ToolCall, evidence: Evidence) -> tuple[GateChecked | None, Output]:
        """Handle a call of a finish tool: the entry (None when nothing was checked) and the tool result."""
        if self._state.gate.accepted is not None:
            return None, self._answer(GateVerdict(), _ACCEPTED_ALREADY, error=True)
        if self.tried >= self._attempts:
            said = f"Not checked: the result was refused {self.tried} times.{self._attempts_left(self.tried)}"
            return None, self._answer(GateVerdict(self._state.gate.errors), said)
        verdict = _refuse_untried(await self._judged(call, evidence), evidence)
        if self.only_checks(call):
            good = f"This {WOULD_BE_ACCEPTED}. Hand it in with {self._gate.finish}."
            checked = _checked(call.name, self.tried, verdict, check_only=True)
            return checked, self._answer(verdict, good if verdict.ok else _complaint(verdict))
        attempt = self.tried + 1
        checked = _checked(call.name, attempt, verdict)
        if verdict.ok:
            self._verdicts[call.call_id] = verdict
            return checked, self._answer(verdict, "Accepted.")
        chances = _BROKEN if self._state.gate.fails_again(verdict.faults) else self._attempts_left(attempt)
        return checked, self._answer(verdict, _complaint(verdict) + chances)

    def _answer(self, verdict: GateVerdict, said: str, *, error: bool = False) -> Output:
        wrong = error or not verdict.ok
        return Output(self._gate.answer(verdict, said), is_error=wrong, outcome=Outcome.ERROR if wrong else Outcome.OK)

    def only_checks(self, call: ToolCall) -> bool:
        """Whether the call only requests a check. In the very last reply every submission counts as final."""
        if call.name == VALIDATE:
            return True
        asks = self._gate.check_only
        arguments = self._read(call).call.arguments
        if asks is None or self._state.spending.landing is not None or not isinstance(arguments, Mapping):
            return False
        return arguments.get(asks) is True

    async def accept_again(self, call: ToolCall, evidence: Evidence) -> GateChecked | None:
        """Check again what was accepted under another drone, without using an attempt; if it is not accepted any more,
        the entry that tells the model so."""
        verdict = await self._judged(call, evidence)
        if verdict.ok:
            self._verdicts[call.call_id] = verdict
            return None
        # As the check of a reply: the call has its result in the journal already, so only a text can tell the model.
        return _checked(REPLY, self.tried, verdict)

    def _read(self, call: ToolCall) -> ReadCall:
        name = self._gate.finish if call.name == REPLY else call.name
        spec = next((spec for spec in self._specs if spec.name == name), None)
        if spec is not None and isinstance(call.arguments, str) and (found := _spelled(call.arguments, spec)):
            call = call.model_copy(update={"arguments": found})
        return read_call(call, spec)

    def spelled(self, reply: ModelReplied | None) -> ToolCall | None:
        """The submission that a reply without a tool call spells as JSON, alone or in a code fence; None: none."""
        if reply is None or self._state.gate.accepted is not None or self.tried >= self._attempts:
            return None
        call = as_submission(reply)
        return call if isinstance(self._read(call).call.arguments, Mapping) else None

    async def reply(self, spelled: ToolCall, evidence: Evidence) -> GateChecked | None:
        """Check such a submission; the entry that accepts it, or None."""
        verdict = _refuse_untried(await self._judged(spelled, evidence), evidence)
        if not verdict.ok:
            return None
        self._verdicts[spelled.call_id] = verdict
        said = f"the reply was no call of {self._gate.finish}; its text is the result and was taken"
        return _checked(REPLY, self.tried + 1, replace(verdict, warnings=(said, *verdict.warnings)))

    async def _judged(self, call: ToolCall, evidence: Evidence) -> GateVerdict:
        call, notes = (read := self._read(call)).call, read.notes
        if not isinstance(call.arguments, Mapping):
            return GateVerdict((not_an_object(call.name, call.arguments),))
        offered = {name: value for name, value in call.arguments.items() if name != self._gate.check_only}
        try:
            verdict = await self._gate.check(offered, evidence)
        except BaseException as error:
            broke = describe_or_raise(error)
            said = f"The check itself broke, so nothing could be accepted: {broke}. Hand the result in again."
            return GateVerdict((said,))
        shown = [few(sentences, MAX_ERRORS, ERROR_CHARACTERS) for sentences in (verdict.errors, verdict.faults)]
        warnings = few((*notes, *verdict.warnings), MAX_ERRORS, ERROR_CHARACTERS)
        return replace(verdict, errors=shown[0], faults=shown[1], warnings=warnings)

    async def best(self, evidence: Evidence) -> GateVerdict | None:
        """The verdict on the refused submission with the fewest errors; None when nothing was submitted."""
        call = self._state.gate.best
        return None if call is None else await self._judged(call, evidence)

    def reply_without_submission(self) -> GateChecked:
        """The entry for a reply without a tool call, which does not end the run: it uses an attempt."""
        attempt = self.tried + 1
        said = f"A reply alone does not end your work: hand the result in with the tool {self._gate.finish}."
        return GateChecked(tool=REPLY, attempt=attempt, ok=False, errors=(said + self._attempts_left(attempt),))

    def check_attempts(self) -> None:
        """Raises `GateFailed` when no attempt is left, or a rule could not be evaluated twice for the same reason."""
        state = self._state.gate
        if state.accepted is None and state.broken:
            raise GateFailed(f"a rule broke twice in the same way: {state.broken}".rstrip("."))
        if state.accepted is not None or state.tried < self._attempts:
            return
        if state.only_replied:
            nothing = f"the agent replied without handing a result in with {self._gate.finish}"
            raise GateFailed(f"no result was accepted in {state.tried} attempts; at the last, {nothing}")
        why = f": {state.errors[0]}" if state.errors else ""
        raise GateFailed(f"the result was refused {state.tried} times{why}".rstrip("."))

    def _attempts_left(self, tried: int) -> str:
        left = self._attempts - tried
        return f" ({left} attempt{'' if left == 1 else 's'} left.)" if left > 0 else " (No attempt is left.)"


_ACCEPTED_ALREADY = "The result is accepted already; nothing more is needed."
_BROKEN = " (The rule itself breaks, as it did before: nothing that you hand in can mend it, and your work ends here.)"


def _spelled(text: str, spec: ToolSpec) -> Mapping[str, object] | None:
    """The arguments of a finish tool that a text spells; None where it spells none, or could be meant as a text."""
    properties = spec.parameters.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return None
    read_value, is_wrapped = json_in(text), {*properties} - {CHECK_ONLY} == {WRAPPED}
    if isinstance(read_value, Mapping) and (not is_wrapped or WRAPPED in read_value):
        return read_value
    read = read_as(spec.parameters, {WRAPPED: text}).value if is_wrapped else {}
    return None if isinstance(read.get(WRAPPED, ""), str) else read


def _checked(tool: str, attempt: int, verdict: GateVerdict, *, check_only: bool = False) -> GateChecked:
    return GateChecked(
        tool=tool,
        attempt=attempt,
        ok=verdict.ok,
        check_only=check_only,
        errors=verdict.errors,
        faults=verdict.faults,
        warnings=verdict.warnings,
    )


def _refuse_untried(verdict: GateVerdict, evidence: Evidence) -> GateVerdict:
    """Refuses a "blocked" result of an agent that has reading tools and used none of them."""
    result = verdict.result
    is_blocked = isinstance(result, Mapping) and result.get("status") == RecordStatus.BLOCKED
    if not verdict.ok or not is_blocked or not evidence.tried_nothing:
        return verdict
    return replace(verdict, errors=(TRY_FIRST,))


def _complaint(verdict: GateVerdict) -> str:
    told = f"\n(As read: {'; '.join(verdict.warnings)}.)" if verdict.warnings else ""
    if len(verdict.errors) == 1:
        return f"Not accepted: {verdict.errors[0]}{told}"
    return "Not accepted:" + "".join(f"\n- {error}" for error in verdict.errors) + told


DONE = "done"

_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


@hints_keywords
class StateGate:
    """Gate with the tools `done` and `validate`: `check` examines the current state and returns a sentence per problem,
    none when all is good.

    `check` is awaited on the event loop and must move slow work to a thread itself.
    """

    def __init__(self, check: Callable[[], Awaitable[Sequence[str]]]) -> None:
        self._check = check
        self._specs = (
            _spec(DONE, "Say that the work is done. It is checked then: either you are done, or you are told why not."),
            _spec(VALIDATE, "Check the work as it is now, at any time, and be told what is wrong. It ends nothing."),
        )
        self.finish = DONE
        self.check_only = None
        self.guidance = (
            f"How to finish: call `{DONE}` when the work is done. It is checked then, and you are told what is wrong. "
            f"Nothing else ends your work: a reply without a tool call is sent back. You have {ATTEMPTS} attempts; "
            f"`{VALIDATE}` checks at any time without using one."
        )

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> GateVerdict:
        wrong = await self._check()
        return GateVerdict((wrong,) if isinstance(wrong, str) else tuple(wrong))

    def answer(self, verdict: GateVerdict, said: str) -> str:
        return said


def _spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(name, description, _NOTHING, group="finish", idempotent=True, untrusted=False)

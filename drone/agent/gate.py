"""The gate: what an agent hands in is checked, sent back with reasons, or accepted; and what a gate may know.

To hand something in is a tool call, and not the end of a conversation: docs/decisions/11.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from drone.agent.messages import ToolSpec
from drone.agent.receipts import Receipt, shown
from drone.agent.record import RecordState
from drone.agent.report import GateFailed, Report, mishap, no_object
from drone.agent.threads import OwnThreads
from drone.agent.toolset import Output
from drone.agent.transcript import REPLY, TRY_FIRST, VALIDATE, WOULD_BE
from mcc.contracts.blocks import ToolCall
from mcc.contracts.documents import RuleError
from mcc.contracts.journal import GateChecked, Outcome
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.rules.reads import Passage
from mcc.rules.report import few


async def _nothing_kept(digest: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The task, what the tools did, what the children brought.

    `reading` are the names of the tools by which the agent can look at something; `threads` are for checks that block.
    `below` are the receipts of the children, `roots` the spellings of the directory that paths are relative to; `kept`
    answers the whole of a text that an artifact names.
    """

    task: str
    receipts: Sequence[Receipt]
    children: Sequence[Report]
    usage: Usage
    reading: frozenset[str] = frozenset()
    threads: OwnThreads = field(default_factory=OwnThreads, repr=False, compare=False)
    below: Sequence[Receipt] = ()
    roots: tuple[str, ...] = ()
    kept: Callable[[str], Awaitable[str | None]] = field(default=_nothing_kept, repr=False, compare=False)

    @property
    def untried(self) -> bool:
        """Whether the agent could have looked at something and never called such a tool."""
        return bool(self.reading) and not any(receipt.tool in self.reading for receipt in self.receipts)

    async def whole(self) -> Mapping[str, str]:
        """The texts, by their digests, of which tools that show files told only a part. Raises `JournalError`."""
        cut = {one.artifact for one in (*self.receipts, *self.below) if one.content and one.artifact}
        found = {digest: await self.kept(digest) for digest in sorted(cut)}
        return {digest: text for digest, text in found.items() if text is not None}

    def shown(self, whole: Mapping[str, str]) -> Iterator[tuple[str, Passage]]:
        """What of files was shown, each with the id of the call that did: by the agent's tools and its children's."""
        for receipt in (*self.receipts, *self.below):
            content = whole.get(receipt.artifact or "", receipt.content)
            if content:
                yield from ((receipt.call_id, one) for one in shown(receipt.tool, receipt.arguments, content))


ATTEMPTS = 5
"""Results that may be handed in before the run has failed."""

MAX_ERRORS = 20
"""Errors of one check that are told."""

ERROR_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """No errors = accepted: `result` (JSON) is then the run's, `text` what a person reads of it.

    `errors` are sentences that the model can act on; `faults` are those of them that say that a rule has no value.
    `warnings` say what was changed of what was handed in. `listed` are the errors as a gate lists them that answers in
    a form of its own.
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
    """Decides whether a run's result is good. Shared by all runs of an agent; keeps nothing of any."""

    @property
    def finish(self) -> str:
        """The name of the tool that hands the result in."""

    def specs(self) -> Sequence[ToolSpec]:
        """The finish tools: that one, and `validate` where it has one."""

    @property
    def check_only(self) -> str | None:
        """The argument of `finish` that asks for a check alone; it is no part of what is handed in."""

    @property
    def guidance(self) -> str:
        """What the system prompt says of it, after the prompt itself."""

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> Verdict:
        """Judge what was handed in. Never raises for what is in it; never blocks the loop."""

    def answer(self, verdict: Verdict, said: str) -> str:
        """What the model is told of a check: `said` are the runtime's own words, which have every error in them."""


class Finish:
    """The gate of one run, whose `state` counts the attempts. Keeps what it has accepted here."""

    def __init__(self, gate: Gate, state: RecordState, attempts: int = ATTEMPTS) -> None:
        self._gate = gate
        self._state = state
        self._attempts = attempts
        self._specs = tuple(gate.specs())
        self._names = {spec.name for spec in self._specs}
        self._verdicts: dict[str, Verdict] = {}

    def owns(self, name: str) -> bool:
        return name in self._names

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    @property
    def tried(self) -> int:
        return self._state.gate.tried

    def verdict(self, accepted: ToolCall) -> Verdict | None:
        """What was accepted with this call; None when that was under another drone: it must be judged again."""
        return self._verdicts.get(accepted.call_id)

    async def call(self, call: ToolCall, evidence: Evidence) -> tuple[GateChecked | None, Output]:
        """The check as an entry, and what the model is told; no entry when nothing was checked."""
        if self._state.gate.accepted is not None:
            return None, self._answer(Verdict(), _ACCEPTED_ALREADY, error=True)
        if self.tried >= self._attempts:
            said = f"Not looked at: the result was refused {self.tried} times.{self._chances(self.tried)}"
            return None, self._answer(Verdict(self._state.gate.errors), said)
        verdict = _tried(await self._judged(call, evidence), evidence)
        if self.only_checks(call):
            good = f"This {WOULD_BE}. Hand it in with {self._gate.finish}."
            checked = _checked(call.name, self.tried, verdict, check_only=True)
            return checked, self._answer(verdict, good if verdict.ok else _complaint(verdict))
        attempt = self.tried + 1
        checked = _checked(call.name, attempt, verdict)
        if verdict.ok:
            self._verdicts[call.call_id] = verdict
            return checked, self._answer(verdict, "Accepted.")
        chances = _BROKEN if self._state.gate.fails_again(verdict.faults) else self._chances(attempt)
        return checked, self._answer(verdict, _complaint(verdict) + chances)

    def _answer(self, verdict: Verdict, said: str, *, error: bool = False) -> Output:
        wrong = error or not verdict.ok
        return Output(self._gate.answer(verdict, said), is_error=wrong, outcome=Outcome.ERROR if wrong else Outcome.OK)

    def only_checks(self, call: ToolCall) -> bool:
        """Whether the call asks what the gate would say and ends nothing; the last reply of all hands in."""
        if call.name == VALIDATE:
            return True
        asks = self._gate.check_only
        if asks is None or self._state.landing is not None or not isinstance(call.arguments, Mapping):
            return False
        return call.arguments.get(asks) in (True, "true")

    async def accept_again(self, call: ToolCall, evidence: Evidence) -> GateChecked | None:
        """Judge what another drone had accepted, which takes no attempt; the entry that tells the model if it is not
        accepted any more."""
        verdict = await self._judged(call, evidence)
        if verdict.ok:
            self._verdicts[call.call_id] = verdict
            return None
        return _checked(REPLY, self.tried, verdict)

    async def _judged(self, call: ToolCall, evidence: Evidence) -> Verdict:
        if not isinstance(call.arguments, Mapping):
            return Verdict((no_object(call.name, call.arguments),))
        offered = {name: given for name, given in call.arguments.items() if name != self._gate.check_only}
        try:
            verdict = await self._gate.check(offered, evidence)
        except BaseException as error:
            said = f"The check itself broke, so nothing could be accepted: {mishap(error)}. Hand the result in again."
            return Verdict((said,))
        shown = [few(sentences, MAX_ERRORS, ERROR_CHARACTERS) for sentences in (verdict.errors, verdict.faults)]
        warnings = few(verdict.warnings, MAX_ERRORS, ERROR_CHARACTERS)
        return replace(verdict, errors=shown[0], faults=shown[1], warnings=warnings)

    async def best(self, evidence: Evidence) -> Verdict | None:
        """What was handed in with the fewest errors, though it was not accepted; None when nothing was."""
        call = self._state.gate.best
        return None if call is None else await self._judged(call, evidence)

    def not_handed_in(self) -> GateChecked:
        """The entry for a reply that calls no tool: it ends nothing."""
        attempt = self.tried + 1
        said = f"A reply alone does not end your work: hand the result in with the tool {self._gate.finish}."
        return GateChecked(tool=REPLY, attempt=attempt, ok=False, errors=(said + self._chances(attempt),))

    def check_attempts(self) -> None:
        """Raises `GateFailed` when no attempt is left, or a rule has failed in the same way twice."""
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

    def _chances(self, tried: int) -> str:
        left = self._attempts - tried
        return f" ({left} attempt{'' if left == 1 else 's'} left.)" if left > 0 else " (No attempt is left.)"


_ACCEPTED_ALREADY = "The result is accepted already; nothing more is needed."
_BROKEN = " (The rule itself breaks, as it did before: nothing that you hand in can mend it, and your work ends here.)"


def _checked(tool: str, attempt: int, verdict: Verdict, *, check_only: bool = False) -> GateChecked:
    return GateChecked(
        tool=tool,
        attempt=attempt,
        ok=verdict.ok,
        check_only=check_only,
        errors=verdict.errors,
        faults=verdict.faults,
        warnings=verdict.warnings,
    )


def _tried(verdict: Verdict, evidence: Evidence) -> Verdict:
    """Who says that it is blocked has looked at something before, as long as it can."""
    result = verdict.result
    is_blocked = isinstance(result, Mapping) and result.get("status") == RecordStatus.BLOCKED
    if not verdict.ok or not is_blocked or not evidence.untried:
        return verdict
    return replace(verdict, errors=(TRY_FIRST,))


def _complaint(verdict: Verdict) -> str:
    if len(verdict.errors) == 1:
        return f"Not accepted: {verdict.errors[0]}"
    return "Not accepted:" + "".join(f"\n- {error}" for error in verdict.errors)


DONE = "done"

_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


class StateGate:
    """The gate of `done`. `check` looks at the state of the moment: sentences for what is wrong, none when it is good.

    It is awaited on the loop: what takes long goes into a thread there.
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

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> Verdict:
        wrong = await self._check()
        return Verdict((wrong,) if isinstance(wrong, str) else tuple(wrong))

    def answer(self, verdict: Verdict, said: str) -> str:
        return said


def _spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(name, description, _NOTHING, group="finish", idempotent=True, untrusted=False)

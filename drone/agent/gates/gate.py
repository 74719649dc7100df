"""This room is for the gate: what an agent hands in is checked, sent back with reasons, or accepted as its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from drone.agent.gates.receipts import Receipt
from drone.agent.messages import ToolSpec
from drone.agent.mishap import mishap, no_object
from drone.agent.ports import Output
from drone.agent.report import GateFailed, Report
from drone.agent.spoken import REPLY
from drone.agent.threads import OwnThreads
from mcc.contracts.journal import GateChecked, Outcome, ToolFinished
from mcc.contracts.record import RecordStatus, ToolCall
from mcc.contracts.usage import Usage
from mcc.rules.report import few

ATTEMPTS = 5
"""Results that may be handed in before the run has failed."""

VALIDATE = "validate"

TOLD = 20
"""Errors of one check that are told."""

ERROR_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a gate may know beside the result: the task, what the tools did, what the children brought.

    `reading` are the names of the tools by which the agent can look at something; `threads` are for checks that block.
    """

    task: str
    receipts: Sequence[Receipt]
    children: Sequence[Report]
    usage: Usage
    reading: frozenset[str] = frozenset()
    threads: OwnThreads = field(default_factory=OwnThreads, repr=False, compare=False)

    @property
    def untried(self) -> bool:
        """Whether the agent could have looked at something and never called such a tool."""
        return bool(self.reading) and not any(receipt.tool in self.reading for receipt in self.receipts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """No errors = accepted: `result` (JSON) is then the run's, `text` what a person reads of it.

    `errors` are sentences that the model can act on.
    """

    errors: tuple[str, ...] = ()
    result: object = None
    text: str = ""

    @property
    def ok(self) -> bool:
        return not self.errors


class Gate(Protocol):
    """Decides whether a run's result is good. Shared by all runs of an agent; keeps nothing of any."""

    @property
    def finish(self) -> str:
        """The name of the tool that hands the result in."""

    def specs(self) -> Sequence[ToolSpec]:
        """The finish tools: that one, and `validate`."""

    @property
    def guidance(self) -> str:
        """What the system prompt says of it, after the prompt itself."""

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> Verdict:
        """Judge what was handed in. Never raises for what is in it; never blocks the loop."""


class Finish:
    """The gate of one run: counts the attempts and keeps what was accepted."""

    def __init__(self, gate: Gate, attempts: int = ATTEMPTS) -> None:
        self._gate = gate
        self._attempts = attempts
        self._specs = tuple(gate.specs())
        self._names = {spec.name for spec in self._specs}
        self._sent_to_try = False
        self._only_replied = False
        self.tried = 0
        self.accepted: Verdict | None = None
        self.accepted_before: ToolCall | None = None
        """The call whose result was accepted under an earlier drone, when nothing came after it."""

    def owns(self, name: str) -> bool:
        return name in self._names

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    async def call(self, call: ToolCall, evidence: Evidence) -> tuple[GateChecked | None, Output]:
        """The check as an entry, and what the model is told; no entry when nothing was checked."""
        if self.accepted is not None:
            return None, _told("The result is accepted already; nothing more is needed.", error=True)
        if self.tried >= self._attempts:
            return None, _told(
                f"Not looked at: the result was refused {self.tried} times.{self._chances()}", error=True
            )
        verdict = await self._judged(call, evidence)
        if call.name == VALIDATE:
            good = f"This would be accepted. Hand it in with {self._gate.finish}."
            return self._checked(call, verdict), _told(
                good if verdict.ok else _complaint(verdict), error=not verdict.ok
            )
        self.tried += 1
        self._only_replied = False
        if verdict.ok:
            self.accepted = verdict
            return self._checked(call, verdict), _told("Accepted.")
        self._sent_to_try = self._sent_to_try or _TRY_FIRST in verdict.errors
        return self._checked(call, verdict), _told(_complaint(verdict) + self._chances(), error=True)

    async def _judged(self, call: ToolCall, evidence: Evidence) -> Verdict:
        if not isinstance(call.arguments, Mapping):
            return Verdict((no_object(call.name, call.arguments),))
        try:
            verdict = await self._gate.check(call.arguments, evidence)
        except BaseException as error:
            said = f"The check itself broke, so nothing could be accepted: {mishap(error)}. Hand the result in again."
            return Verdict((said,))
        if verdict.ok and not self._sent_to_try and _blocked(verdict.result) and evidence.untried:
            return Verdict((_TRY_FIRST,))
        return Verdict(few(verdict.errors, TOLD, ERROR_CHARACTERS), verdict.result, verdict.text)

    def _checked(self, call: ToolCall, verdict: Verdict) -> GateChecked:
        return GateChecked(tool=call.name, attempt=self.tried, ok=verdict.ok, errors=verdict.errors)

    def recall(self, checked: GateChecked) -> None:
        """A check that an earlier drone made. What was accepted is judged again, so that takes no attempt."""
        accepted = checked.ok and checked.tool != VALIDATE
        self.tried = checked.attempt - accepted
        self._only_replied = checked.tool == REPLY
        self._sent_to_try = self._sent_to_try or _TRY_FIRST in checked.errors

    def recall_calls(self, calls: Sequence[ToolCall], done: Sequence[ToolFinished]) -> None:
        """The calls of one reply, with their ends, that an earlier drone made."""
        for call, end in zip(calls, done, strict=True):
            if self.owns(call.name) and call.name != VALIDATE and not end.is_error:
                self.accepted_before = call

    def begin_anew(self) -> None:
        """Every attempt is left again."""
        self.tried, self._only_replied = 0, False

    def not_handed_in(self) -> GateChecked:
        """The entry for a reply that calls no tool: it ends nothing."""
        self.tried += 1
        self._only_replied = True
        said = f"A reply alone does not end your work: hand the result in with the tool {self._gate.finish}."
        return GateChecked(tool=REPLY, attempt=self.tried, ok=False, errors=(said + self._chances(),))

    def check_attempts(self, errors: Sequence[str] = ()) -> None:
        """Raises `GateFailed` when no attempt is left."""
        if self.accepted is None and self.tried >= self._attempts:
            if self._only_replied:
                nothing = f"the agent replied without handing a result in with {self._gate.finish}"
                raise GateFailed(f"no result was accepted in {self.tried} attempts; at the last, {nothing}")
            why = f": {errors[0]}" if errors else ""
            raise GateFailed(f"the result was refused {self.tried} times{why}".rstrip("."))

    def _chances(self) -> str:
        left = self._attempts - self.tried
        return f" ({left} attempt{'' if left == 1 else 's'} left.)" if left > 0 else " (No attempt is left.)"


_TRY_FIRST = (
    "You report that you are blocked, but you have not tried to look at anything. Try your tools first; if you are "
    "blocked then, say what you tried and what came of it."
)


def _blocked(result: object) -> bool:
    return isinstance(result, Mapping) and result.get("status") == RecordStatus.BLOCKED


def _complaint(verdict: Verdict) -> str:
    if len(verdict.errors) == 1:
        return f"Not accepted: {verdict.errors[0]}"
    return "Not accepted:" + "".join(f"\n- {error}" for error in verdict.errors)


def _told(text: str, *, error: bool = False) -> Output:
    return Output(text, is_error=error, outcome=Outcome.ERROR if error else Outcome.OK)

"""The gate of a node agent: `done` and `validate` check the committed document by the node's rules."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from drone.agent.gates.gate import ATTEMPTS, DONE, Evidence, GateVerdict
from mcc.contracts.documents import GateAnswer, RuleError
from mcc.contracts.shape import to_json
from mcc.transcript.messages import ToolSpec
from mcc.transcript.transcript import VALIDATE

SUMMARY = 2_000
"""Most characters of a summary."""

LISTED = 50
"""Most errors listed in one answer, whose message has their total number."""

MESSAGE = 500
"""Most characters of an error's message for a model."""

Check = Callable[[Evidence], Awaitable[Sequence[RuleError]]]
"""Answers all errors found now, given what the agent's tools did. Raises `JournalError`."""

_DONE = ToolSpec(
    DONE,
    "Say that your part is done. It is checked then: either it ends your work, or you are told what to mend.",
    {
        "type": "object",
        "additionalProperties": False,
        "required": [],
        "properties": {"summary": {"type": "string", "description": "What your part holds, in one or two sentences."}},
    },
    group="finish",
    idempotent=True,
    untrusted=False,
)
_VALIDATE = ToolSpec(
    VALIDATE,
    "Check your part as it is now, at any time, and be told which rules do not hold. It ends nothing.",
    {"type": "object", "additionalProperties": False, "required": [], "properties": {}},
    group="finish",
    idempotent=True,
    untrusted=False,
)


@dataclass(frozen=True, slots=True)
class DocumentGate:
    """Answers JSON: `{ok, errors, message}`. `check_state` None: everything is accepted. `node` is the path of the
    node, for errors that do not come from a rule."""

    node: str
    check_state: Check | None

    @property
    def finish(self) -> str:
        return DONE

    @property
    def check_only(self) -> str | None:
        return None

    @property
    def guidance(self) -> str:
        if self.check_state is None:
            return ""
        return (
            f"Nothing but `{DONE}` ends your work: a reply without a tool call is sent back. You have {ATTEMPTS} "
            f"attempts; `{VALIDATE}` uses none."
        )

    def specs(self) -> Sequence[ToolSpec]:
        return (_DONE, _VALIDATE)

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> GateVerdict:
        found = () if self.check_state is None else await self.check_state(evidence)
        summary = offered.get("summary")
        return GateVerdict(
            errors=tuple(map(in_words, found)),
            text=summary.strip()[:SUMMARY] if isinstance(summary, str) else "",
            listed=tuple(found),
        )

    def answer(self, verdict: GateVerdict, said: str) -> str:
        """`said` is also the message of errors that no rule made: a check that broke, a call that was not checked."""
        if verdict.ok:
            return _json(GateAnswer(ok=True, errors=(), message="All rules hold."))
        listed = verdict.listed or (RuleError(node=self.node, field=None, rule="", message=said),)
        shown = tuple(one.model_copy(update={"message": one.message[:MESSAGE]}) for one in listed[:LISTED])
        return _json(GateAnswer(ok=False, errors=shown, message=_message(len(verdict.listed), said)))


def in_words(error: RuleError) -> str:
    """The error as a line for people and the journal."""
    where = " ".join(filter(None, (error.node, error.field)))
    return f"{where}: {error.message or 'this does not hold'} ({error.rule})"


def _message(wrong: int, said: str) -> str:
    if not wrong:
        return said
    return f"{'1 rule does' if wrong == 1 else f'{wrong} rules do'} not hold. Mend them and call {DONE} again."


def _json(answer: GateAnswer) -> str:
    return to_json(answer).decode()

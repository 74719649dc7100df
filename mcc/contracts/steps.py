"""The steps of a chat record: how each fact of an agent's journal reads there."""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from mcc.contracts.journal import (
    AgentReused,
    AgentStep,
    ApprovalDecided,
    ApprovalRequested,
    BudgetWarned,
    ControlApplied,
    DocumentChanged,
    GateChecked,
    ModelFellBack,
    ModelReplied,
    ModelRetried,
    PersonFact,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
    TranscriptCompacted,
)
from mcc.contracts.record import GateStep, ModelStep, NoteStep, SteerStep, Step, ToolStep
from mcc.contracts.shape import unchecked

StepFact: TypeAlias = (
    ModelReplied
    | ToolFinished
    | GateChecked
    | AgentStep
    | AgentReused
    | ModelRetried
    | ModelFellBack
    | BudgetWarned
    | TranscriptCompacted
    | DocumentChanged
    | PersonFact
)
"""The facts that are steps."""


@dataclass(frozen=True, slots=True)
class Told:
    """A fact with its entry's number; `started` is the beginning of a finished tool call."""

    seq: int
    fact: StepFact
    started: ToolStarted | None = None


def step_of(told: Told) -> Step:
    fact, seq = told.fact, told.seq
    match fact:
        case ModelReplied():
            return _model_step(seq, fact)
        case ToolFinished():
            return _tool_step(seq, fact, told.started)
        case GateChecked():
            return GateStep(seq=seq, tool=fact.tool, attempt=fact.attempt, ok=fact.ok, errors=fact.errors)
        case ControlApplied():
            return SteerStep(
                seq=seq,
                control=fact.control,
                mode=fact.mode,
                message=fact.message,
                reason=fact.reason,
                tools_removed=fact.tools_removed,
            )
        case _:
            return NoteStep(seq=seq, name=_name(fact), message=_message(fact))


_Note: TypeAlias = (
    AgentStep
    | AgentReused
    | ModelRetried
    | ModelFellBack
    | BudgetWarned
    | TranscriptCompacted
    | DocumentChanged
    | ApprovalRequested
    | ApprovalDecided
    | QuestionAsked
    | QuestionAnswered
)


def _name(fact: _Note) -> str:
    return fact.name if isinstance(fact, AgentStep) else fact.kind


def _message(fact: _Note) -> str:
    match fact:
        case AgentStep() | AgentReused() | BudgetWarned():
            return fact.message
        case ModelRetried():
            return f"{fact.error}; asked again after {fact.wait_seconds:g} s"
        case ModelFellBack():
            return f"{fact.source} → {fact.target}: {fact.error}"
        case TranscriptCompacted():
            return fact.summary
        case DocumentChanged():
            return f"{fact.command} made version {fact.version} of {fact.document_id}"
        case ApprovalRequested() | ApprovalDecided():
            return fact.approval_id
        case QuestionAsked():
            return fact.question
        case QuestionAnswered():
            return fact.answer
        case _:
            assert_never(fact)


def _model_step(seq: int, fact: ModelReplied) -> ModelStep:
    return unchecked(
        ModelStep,
        seq=seq,
        kind="model",
        text=fact.text,
        thinking=fact.thinking,
        tool_calls=fact.tool_calls,
        finish_reason=fact.finish_reason,
        usage=fact.usage,
        first_token_ms=fact.first_token_ms,
        seconds=fact.seconds,
    )


def _tool_step(seq: int, fact: ToolFinished, started: ToolStarted | None) -> ToolStep:
    return unchecked(
        ToolStep,
        seq=seq,
        kind="tool",
        call_id=fact.call_id,
        name=fact.name,
        arguments=started.arguments if started else {},
        content=fact.content,
        is_error=fact.is_error,
        outcome=fact.outcome.value,
        artifact=fact.artifact,
        untrusted=fact.untrusted,
        seconds=fact.seconds,
        subagent_ids=fact.subagent_ids,
    )

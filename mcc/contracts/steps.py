"""The steps of a chat record: how each fact of an agent's journal reads there."""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from mcc.contracts.fact import Note
from mcc.contracts.journal import AgentStep, ControlApplied, GateChecked, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import GateStep, ModelStep, NoteStep, SteerStep, Step, ToolStep
from mcc.contracts.shape import unchecked

StepFact: TypeAlias = ModelReplied | ToolFinished | GateChecked | ControlApplied | Note
"""The facts that are steps."""


@dataclass(frozen=True, slots=True)
class NumberedFact:
    """A fact with its entry's number; `started` is the beginning of a finished tool call."""

    seq: int
    fact: StepFact
    started: ToolStarted | None = None


def step_of(numbered: NumberedFact) -> Step:
    """The fact as a step of its agent's record."""
    fact, seq = numbered.fact, numbered.seq
    match fact:
        case ModelReplied():
            return _model_step(seq, fact)
        case ToolFinished():
            return _tool_step(seq, fact, numbered.started)
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
        case Note():
            name = fact.name if isinstance(fact, AgentStep) else fact.kind
            return NoteStep(seq=seq, name=name, message=fact.in_words)
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
        blocks=fact.blocks,
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

"""Converts facts of the journal to the steps of a chat record."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, assert_never

from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.fact import NotedFact
from mcc.contracts.journal import AgentStep, ControlApplied, GateChecked, ToolFinished, VerifyChecked
from mcc.contracts.model_facts import ModelReplied, ModelRetried
from mcc.contracts.record import GateStep, ModelStep, NoteStep, SteerStep, Step, ToolStep, VerifyStep
from mcc.contracts.shape import unchecked

StepFact: TypeAlias = ModelReplied | ToolFinished | GateChecked | VerifyChecked | ControlApplied | NotedFact
"""The facts that become steps."""


@dataclass(frozen=True, slots=True)
class NumberedFact:
    """A fact with its entry's number and time; `arguments` are those of a finished tool call.

    `started_at`: when the model or tool call that the fact ends had begun; None when the journal does not say.
    """

    seq: int
    fact: StepFact
    at: datetime
    arguments: Mapping[str, Any] | str | None = None
    started_at: datetime | None = None


def step_of(numbered: NumberedFact) -> Step:
    """The fact as a step of its agent's record."""
    fact, seq = numbered.fact, numbered.seq
    match fact:
        case ModelReplied():
            return _model_step(seq, fact, numbered.started_at)
        case ToolFinished():
            return _tool_step(seq, fact, numbered.arguments, numbered.started_at)
        case GateChecked():
            return GateStep(
                seq=seq,
                tool=fact.tool,
                attempt=fact.attempt,
                ok=fact.ok,
                check_only=fact.check_only,
                errors=fact.errors,
                warnings=fact.warnings,
            )
        case VerifyChecked():
            return VerifyStep(
                seq=seq,
                verifier=fact.verifier,
                verifier_id=fact.verifier_id,
                revision=fact.revision,
                passed=fact.passed,
                points=fact.points,
                error=fact.error,
                sent_back=bool(fact.message),
                model=fact.model,
                usage=fact.usage,
            )
        case ControlApplied():
            return SteerStep(
                seq=seq,
                control=fact.control,
                mode=fact.mode,
                message=fact.message,
                reason=fact.reason,
                tools_removed=fact.tools_removed,
                metadata=fact.metadata,
                by=fact.by,
                door=fact.door,
            )
        case NotedFact():
            name = fact.name if isinstance(fact, AgentStep) else fact.kind
            wait = fact.wait_seconds if isinstance(fact, ModelRetried) else None
            characters = len(fact.content) if isinstance(fact, AgentDelivered) else 0
            return NoteStep(
                seq=seq,
                name=name,
                message=fact.in_words,
                at=numbered.at,
                wait_seconds=wait,
                characters=characters,
            )
        case _:
            assert_never(fact)


def _model_step(seq: int, fact: ModelReplied, started_at: datetime | None) -> ModelStep:
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
        started_at=started_at,
        round=fact.round,
        attempt=fact.attempt,
        model=fact.model,
        request_id=fact.request_id,
        context_tokens=fact.context_tokens,
        prefix=fact.prefix,
    )


def _tool_step(
    seq: int, fact: ToolFinished, arguments: Mapping[str, Any] | str | None, started_at: datetime | None
) -> ToolStep:
    return unchecked(
        ToolStep,
        seq=seq,
        kind="tool",
        call_id=fact.call_id,
        name=fact.name,
        arguments={} if arguments is None else arguments,
        content=fact.content,
        is_error=fact.is_error,
        outcome=fact.outcome.value,
        artifact=fact.artifact,
        untrusted=fact.untrusted,
        images=fact.images,
        exit_code=fact.exit_code,
        job=fact.job,
        seconds=fact.seconds,
        subagent_ids=fact.subagent_ids,
        background=fact.background,
        delivered=fact.delivered,
        started_at=started_at,
    )

"""This room is for asking: one model call with its entries before and after, and the text on its way told."""

import time

from drone.agent.ports import Ask, DeltaKind, Journal, Model, Reply
from mcc.contracts.ids import call_id
from mcc.contracts.journal import Fact, ModelFellBack, ModelReplied, ModelRetried, ModelStarted, Origin
from mcc.contracts.record import ToolCall

LAST_TOKENS = 4096
"""A cap on output is sent only when less than this is left: many servers refuse caps larger than their own."""


class Ear:
    """Listens to one call of a model on behalf of a record."""

    def __init__(self, journal: Journal, origin: Origin, round_number: int, model: str) -> None:
        self._journal = journal
        self._origin = origin
        self._round = round_number
        self.model = model
        self.attempt = 1
        self._offsets: dict[DeltaKind, int] = {}

    def delta(self, kind: DeltaKind, text: str) -> None:
        offset = self._offsets.get(kind, 0)
        self._offsets[kind] = offset + len(text)
        self._journal.delta(self._origin, kind, self._round, self.attempt, offset, text)

    async def retried(self, error: str, wait_seconds: float) -> None:
        failed = ModelRetried(
            round=self._round, attempt=self.attempt, model=self.model, error=error, wait_seconds=wait_seconds
        )
        await self._again(failed)

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self.model = target
        await self._again(ModelFellBack(round=self._round, source=source, target=target, error=error))

    def started(self) -> ModelStarted:
        return ModelStarted(round=self._round, attempt=self.attempt, model=self.model)

    async def _again(self, why: Fact) -> None:
        self.attempt += 1
        self._offsets.clear()
        await self._journal.write(self._origin, why, self.started())


async def ask(model: Model, question: Ask, ear: Ear, journal: Journal, origin: Origin, *before: Fact) -> Reply:
    """Commit `before` and that the call starts, then ask. Raises `ModelError`, `Fenced`."""
    await journal.write(origin, *before, ear.started())
    return await model.ask(question, ear)


def replied(reply: Reply, ear: Ear, origin: Origin, round_number: int, asked_at: float) -> ModelReplied:
    """The entry of a whole reply; its calls get their ids here."""
    record_id = origin.record_id or ""
    return ModelReplied(
        round=round_number,
        attempt=ear.attempt,
        model=reply.model or ear.model,
        text=reply.text,
        thinking=reply.thinking,
        thoughts=reply.thoughts,
        tool_calls=tuple(
            ToolCall(
                call_id=call_id(record_id, round_number, index),
                provider_id=wanted.provider_id,
                name=wanted.name,
                arguments=wanted.arguments,
            )
            for index, wanted in enumerate(reply.tool_calls)
        ),
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        first_token_ms=reply.first_token_ms,
        seconds=round(time.monotonic() - asked_at, 6),
    )

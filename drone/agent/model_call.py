"""Asking: one model call with its entries before and after, and the text on its way told."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count

from drone.agent.journal import DeltaKind, GrowingCall, Journal, TextDelta
from drone.agent.mishap import mishap
from drone.agent.model import Ask, Model, ModelError, Reply, ReplyBlock, WantedCall
from drone.agent.pictures import with_bytes
from drone.agent.record import RecordState
from drone.agent.spending.budget import Reservation
from drone.agent.transcript import NOT_SENT
from mcc.contracts.blocks import AnyBlock, ToolCallBlock
from mcc.contracts.fact import Fact
from mcc.contracts.ids import call_id
from mcc.contracts.journal import AgentStep
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.usage import Usage

log = logging.getLogger("drone.agent")


class ModelCall:
    """Listens to the next call of a model on behalf of a run in this state."""

    def __init__(self, journal: Journal, state: RecordState, model: str, reserved: Reservation) -> None:
        self._journal = journal
        self._origin = state.origin
        self._round = state.rounds + 1
        self.model = model
        self.attempt = state.tries + 1
        self._reserved = reserved
        self._offsets: dict[tuple[DeltaKind, int | None], int] = {}
        self._told = set(state.not_sent)

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        place = (kind, None if call is None else call.index)
        offset = self._offsets.get(place, 0)
        self._offsets[place] = offset + len(text)
        self._journal.delta(self._origin, TextDelta(kind, self._round, self.attempt, offset, text, call))

    async def retried(self, error: str, wait_seconds: float) -> None:
        await self._again(self.put_off(error, wait_seconds))

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self.model = target
        await self._again(ModelFellBack(round=self._round, source=source, target=target, error=error))

    async def not_sent(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            await self._journal.write(self._origin, AgentStep(name=NOT_SENT, message=what))

    async def go_ahead(self) -> None:
        await self._journal.cleared()

    def put_off(self, error: str, seconds: float) -> ModelRetried:
        """The entry of a try that failed, when the next one comes only so much later."""
        return ModelRetried(
            round=self._round, attempt=self.attempt, model=self.model, error=error, wait_seconds=round(seconds, 3)
        )

    async def begin(self, *before: Fact) -> None:
        """Commit these facts, and that the call starts."""
        started = ModelStarted(
            round=self._round,
            attempt=self.attempt,
            model=self.model,
            reserved_tokens=self._reserved.tokens,
            reserved_output_tokens=self._reserved.output_tokens,
            reserved_usd=self._reserved.usd,
        )
        await self._journal.write(self._origin, *before, started)

    async def _again(self, why: Fact) -> None:
        self.attempt += 1
        self._offsets.clear()
        await self.begin(why)

    async def loaded(self, asked: Ask) -> Ask:
        """The question with the bytes of its pictures. Raises `JournalError`."""
        return replace(asked, messages=await with_bytes(asked.messages, self._journal.kept))

    def entry(self, reply: Reply, seconds: float) -> ModelReplied:
        """The entry of a whole reply; its calls get their ids here."""
        return ModelReplied(
            round=self._round,
            attempt=self.attempt,
            model=reply.model or self.model,
            blocks=tuple(self._identified(reply.blocks)),
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            first_token_ms=reply.first_token_ms,
            seconds=seconds,
            request_id=reply.request_id,
            context_tokens=reply.context_tokens,
        )

    def _identified(self, blocks: Iterable[ReplyBlock]) -> Iterator[AnyBlock]:
        record_id, numbers = self._origin.record_id or "", count()
        for block in blocks:
            if isinstance(block, WantedCall):
                yield ToolCallBlock(
                    call_id=call_id(record_id, self._round, next(numbers)),
                    provider_id=block.provider_id,
                    name=block.name,
                    arguments=block.arguments,
                    extra=block.extra,
                )
            else:
                yield block


async def ask(model: Model, question: Callable[[], Ask], call: ModelCall) -> ModelReplied:
    """Commit that the call starts, then ask; the entry to write. Raises `ModelError`, `JournalError`."""
    await call.begin()
    await call.go_ahead()
    asked = await call.loaded(question())
    asked_at = time.monotonic()
    try:
        reply = await model.ask(asked, call)
        return call.entry(reply, round(time.monotonic() - asked_at, 6))
    except ModelError:
        raise
    except BaseException as error:
        said = mishap(error)
        log.exception("a model broke")
        raise ModelError(f"The model {model.name} broke: {said}") from error


def failed(error: ModelError, usage: Usage) -> AgentStep:
    """The entry of a call that brought no reply, although its tries cost something."""
    return AgentStep(name="model_failed", message=f"The model gave no reply: {error}", usage=usage)


def cut_short(reply: ModelReplied) -> tuple[AgentStep, ...]:
    """A note for people when the reply ended before the model was done."""
    if reply.finish_reason not in ("length", "content_filter", "refusal"):
        return ()
    return (AgentStep(name="cut_short", message=f"The model's last reply ended early: {reply.finish_reason}."),)

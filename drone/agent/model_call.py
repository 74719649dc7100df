"""One model call of a run: the request cut to fit the model's context, and the journal entries before and after."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count

from drone.agent.ports.artifacts import TOGETHER
from drone.agent.ports.journal import DeltaKind, GrowingCall, Journal, TextDelta
from drone.agent.ports.model import (
    Ask,
    Bill,
    Model,
    ModelError,
    Reply,
    ReplyBlock,
    WantedCall,
    context_tokens,
    picture_limits,
)
from drone.agent.ports.report import describe_or_raise
from drone.agent.spending.budget import Reservation
from drone.agent.state.prefix_of_run import PrefixOfRun
from drone.agent.state.record import MODEL_FAILED, RecordState
from mcc.contracts.blocks import AnyBlock, ToolCallBlock
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import call_id
from mcc.contracts.journal import AgentStep
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.shape import lean_copy, unchecked
from mcc.contracts.usage import Usage
from mcc.transcript.pictures import with_picture_bytes
from mcc.transcript.transcript import NOT_SENT

FEWEST_CHARACTERS = 3
"""Assumed characters per token when computing how many characters of tool results fit; deliberately low."""


def window_of(model: Model, state: RecordState) -> int | None:
    """Size of the model's context in tokens; None while unknown."""
    known = (state.asking.window, context_tokens(model))
    return min((tokens for tokens in known if tokens), default=None)


def room_for_results(model: Model, state: RecordState) -> int:
    """Most characters that the results of one reply's calls may show together: at most half of the free context."""
    window = window_of(model, state)
    if window is None:
        return TOGETHER
    return min(TOGETHER, max(0, window - state.tokens_of_question()) // 2 * FEWEST_CHARACTERS)


log = logging.getLogger("drone.agent")


class ModelCall:
    """The `Listener` of a run's next model call: journals retries and fallbacks, and adds up the cost."""

    def __init__(
        self,
        journal: Journal,
        state: RecordState,
        model: str,
        reserved: Reservation,
        prefix: PrefixOfRun,
        begun: Callable[[Origin, int], None] = lambda origin, seq: None,
    ) -> None:
        """`begun`: told the agent and the number of the entry with which each attempt begins."""
        self._journal = journal
        self._begun = begun
        self._origin = state.origin
        self._round = state.rounds + 1
        self.model = model
        self.attempt = state.asking.tries + 1
        self._reserved = reserved
        self._prefix = prefix
        self.told: tuple[AgentStep, ...] = ()
        """The step that tells why the request does not begin with the one before it."""
        self._offsets: dict[tuple[DeltaKind, int | None], int] = {}
        self._reported = set(state.asking.not_sent)
        self._bill = Bill()

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        place = (kind, None if call is None else call.index)
        offset = self._offsets.get(place, 0)
        self._offsets[place] = offset + len(text)
        self._journal.delta(self._origin, TextDelta(kind, self._round, self.attempt, offset, text, call))

    async def retried(self, error: str, wait_seconds: float) -> None:
        await self._again(self.retry_entry(error, wait_seconds))

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self.model = target
        await self._again(ModelFellBack(round=self._round, source=source, target=target, error=error))

    async def not_sent(self, what: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            await self._journal.write(self._origin, AgentStep(name=NOT_SENT, message=what))

    def billed(self, usage: Usage) -> None:
        self._bill.add(usage)

    @property
    def spent(self) -> Usage | None:
        """The cost of attempts without a reply so far; None: none was reported."""
        return self._bill.usage

    async def go_ahead(self) -> None:
        await self._journal.confirm_held()

    def retry_entry(self, error: str, seconds: float) -> ModelRetried:
        """The entry for a failed attempt after which the next one waits so many seconds."""
        return ModelRetried(
            round=self._round, attempt=self.attempt, model=self.model, error=error, wait_seconds=round(seconds, 3)
        )

    async def begin(self, *before: Fact) -> None:
        """Commit these facts, then the start of the call."""
        started = unchecked(
            ModelStarted,
            round=self._round,
            attempt=self.attempt,
            model=self.model,
            reserved_tokens=self._reserved.tokens,
            reserved_output_tokens=self._reserved.output_tokens,
            reserved_usd=self._reserved.usd,
        )
        self._begun(self._origin, await self._journal.write(self._origin, *before, started))

    async def _again(self, why: Fact) -> None:
        self.attempt += 1
        # Viewers begin the text of each attempt anew.
        self._offsets.clear()
        await self.begin(why)

    async def with_pictures(self, asked: Ask, model: Model) -> Ask:
        """The request with the bytes of its pictures, if `model` is shown any. Raises `JournalError`."""
        messages = await with_picture_bytes(asked.messages, self._journal.kept if picture_limits(model).most else None)
        return asked if messages is asked.messages else replace(asked, messages=messages)

    def compare(self, asked: Ask) -> None:
        """Compare the request with the one before it."""
        self.told = tuple(filter(None, (self._prefix.compare(asked),)))

    def entry(self, reply: Reply, seconds: float) -> ModelReplied:
        """The entry of a complete reply; assigns the ids of its tool calls."""
        replied = ModelReplied(
            round=self._round,
            attempt=self.attempt,
            model=reply.model or self.model,
            blocks=tuple(self._identified(reply.blocks)),
            finish_reason=reply.finish_reason,
            usage=self._bill.with_reply(reply.usage),
            first_token_ms=reply.first_token_ms,
            seconds=seconds,
            request_id=reply.request_id,
            context_tokens=reply.context_tokens,
            prefix=self._prefix.watch.last,
        )
        return lean_copy(replied)

    def _identified(self, blocks: Iterable[ReplyBlock]) -> Iterator[AnyBlock]:
        record_id, numbers = self._origin.record_id or "", count()
        for block in blocks:
            if isinstance(block, WantedCall):
                yield unchecked(
                    ToolCallBlock,
                    type="tool_call",
                    call_id=call_id(record_id, self._round, next(numbers)),
                    provider_id=block.provider_id,
                    name=block.name,
                    arguments=block.arguments,
                    extra=block.extra,
                )
            else:
                yield block


async def ask(model: Model, question: Callable[[], Ask], call: ModelCall) -> ModelReplied:
    """Commit the start of the call, then ask the model; returns the reply's entry. Raises `ModelError`,
    `JournalError`."""
    await call.begin()
    # Right before the effect: the commit may have taken longer than the lease lasts.
    await call.go_ahead()
    asked = await call.with_pictures(question(), model)
    call.compare(asked)
    asked_at = time.monotonic()
    try:
        reply = await model.ask(asked, call)
        return call.entry(reply, round(time.monotonic() - asked_at, 6))
    except ModelError:
        raise
    except BaseException as error:
        said = describe_or_raise(error)
        log.exception("a model broke")
        raise ModelError(f"The model {model.name} broke: {said}") from error


def failed(why: str, usage: Usage) -> AgentStep:
    """The entry for a call without a reply whose attempts cost something."""
    return AgentStep(name=MODEL_FAILED, message=why, usage=usage)


def cut_short(reply: ModelReplied) -> tuple[AgentStep, ...]:
    """A note for people when the reply ended before the model was done."""
    if reply.finish_reason not in ("length", "content_filter", "refusal"):
        return ()
    return (AgentStep(name="cut_short", message=f"The model's last reply ended early: {reply.finish_reason}."),)

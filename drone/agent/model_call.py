"""One model call of a run: the request cut to fit the model's context, and the journal entries before and after."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count

from drone.agent.ports.artifacts import TOGETHER
from drone.agent.ports.clipping import CHARACTERS_PER_TOKEN, to_clip, to_cut
from drone.agent.ports.journal import DeltaKind, GrowingCall, Journal, TextDelta
from drone.agent.ports.messages import ToolResult
from drone.agent.ports.model import (
    Ask,
    Bill,
    ContextOverflow,
    Model,
    ModelError,
    PictureRefused,
    Reply,
    ReplyBlock,
    WantedCall,
    context_tokens,
    picture_limits,
)
from drone.agent.ports.pictures import next_to_drop, picture_characters, with_picture_bytes
from drone.agent.ports.report import describe_or_raise
from drone.agent.ports.transcript import NOT_SENT, PICTURE_REFUSED
from drone.agent.spending.budget import Reservation
from drone.agent.state.prefix_of_run import PrefixOfRun
from drone.agent.state.record import MODEL_FAILED, RecordState
from drone.agent.turns.turn import Turn
from mcc.contracts.blocks import AnyBlock, ToolCallBlock
from mcc.contracts.fact import Fact
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import call_id
from mcc.contracts.journal import AgentStep, Clipped, TranscriptCompacted
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.shape import lean_copy, unchecked
from mcc.contracts.usage import Usage

REPLY_TOKENS = 4_096
"""Tokens left free in the context for a reply; in a small context, an eighth of it."""

FEWEST_CHARACTERS = 3
"""Assumed characters per token when computing how many characters of tool results fit; deliberately low."""


class Context:
    """The context of one run's model. Tool results are cut through a journal entry, so a resumed run sends the same
    request."""

    def __init__(self, model: Model, turn: Turn, state: RecordState) -> None:
        self._model = model
        self._turn = turn
        self._state = state

    @property
    def window(self) -> int | None:
        """Size of the model's context in tokens; None while unknown."""
        known = (self._state.asking.window, context_tokens(self._model))
        return min((tokens for tokens in known if tokens), default=None)

    def room(self) -> int:
        """Most characters that the results of one reply's calls may show together: at most half of the free context."""
        window = self.window
        if window is None:
            return TOGETHER
        return min(TOGETHER, max(0, window - self._state.tokens_of_question()) // 2 * FEWEST_CHARACTERS)

    async def fit(self) -> None:
        """Shorten tool results if the next request is known to be too large. Raises `JournalError`."""
        window = self.window
        if window is not None and self._state.tokens_of_question() + min(REPLY_TOKENS, window // 8) > window:
            await self._clip(window, refused=False)

    async def shorten(self, overflow: ContextOverflow) -> None:
        """Shorten tool results after the model refused a request as too large.

        Raises `JournalError`, and `ModelError` when nothing is left to shorten.
        """
        window = overflow.window or self.window
        if await self._clip(window, refused=True):
            return
        takes = f"{self._model.name} takes in{'' if window is None else f' ({window:,} tokens)'}"
        raise ModelError(
            f"What the agent was told at the beginning, and has said itself, is more than {takes}, and no tool result "
            f"is left to shorten: choose a model with a larger context, or a shorter task. {overflow}",
            status=overflow.status,
        ) from overflow

    async def drop_picture(self, refused: PictureRefused) -> None:
        """Leave out the picture, or pictures, for which the model refused a request, for good.

        Raises `JournalError`, and the refusal when no picture is left.
        """
        transcript = self._state.conversation.transcript
        digests = next_to_drop(transcript.messages, transcript.refused_pictures, str(refused), refused.digest)
        if not digests:
            raise ModelError(str(refused), status=refused.status) from refused
        what = "a picture is" if len(digests) == 1 else f"{len(digests)} pictures are"
        said = f"{self._model.name} refused a request for what it shows, so {what} left out from now on. {refused}"
        step = AgentStep(name=PICTURE_REFUSED, message=said, pictures=tuple(digests))
        await self._turn.journal.write(self._state.origin, step)

    async def _clip(self, window: int | None, *, refused: bool) -> bool:
        """Shorten tool results, storing each whole one as an artifact; False when none could be shortened."""
        transcript, tokens = self._state.conversation.transcript, self._state.tokens_of_question()
        to_shorten = to_clip(transcript.messages, transcript.clips, to_cut(tokens, window, refused=refused))
        clipped = [(result, await self._clipped(result, kept)) for result, kept in to_shorten]
        if not clipped:
            return False
        cut = sum(len(result.content) + picture_characters(result.pictures) - clip.kept for result, clip in clipped)
        size = "the model's context" if window is None else f"the model's context of {window:,} tokens"
        results = "one tool result was" if len(clipped) == 1 else f"{len(clipped)} tool results were"
        fact = TranscriptCompacted(
            summary=f"The conversation did not fit into {size}: {results} shortened, by {cut:,} characters.",
            clipped=tuple(clip for _, clip in clipped),
            window_tokens=window,
            tokens_before=tokens,
            tokens_after=max(0, tokens - cut // CHARACTERS_PER_TOKEN),
        )
        await self._turn.journal.write(self._state.origin, fact)
        return True

    async def _clipped(self, result: ToolResult, kept: int) -> Clipped:
        before = self._state.conversation.transcript.clips.get(result.call_id)
        if before is not None:
            return before.model_copy(update={"kept": kept})
        artifact = await self._turn.artifacts.keep(unfenced(result.content))
        characters = len(result.content)  # may be below `kept` for a result with images: then only the images are cut
        return Clipped(call_id=result.call_id, kept=min(kept, characters), characters=characters, artifact=artifact)


log = logging.getLogger("drone.agent")


class ModelCall:
    """The `Listener` of a run's next model call: journals retries and fallbacks, and adds up the cost."""

    def __init__(
        self, journal: Journal, state: RecordState, model: str, reserved: Reservation, prefix: PrefixOfRun
    ) -> None:
        self._journal = journal
        self._transcript = state.conversation.transcript
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
        await self._journal.write(self._origin, *before, started)

    async def _again(self, why: Fact) -> None:
        self.attempt += 1
        # Viewers begin the text of each attempt anew.
        self._offsets.clear()
        await self.begin(why)

    async def with_pictures(self, asked: Ask, model: Model) -> Ask:
        """The request with the bytes of those of its pictures that `model` is shown. Raises `JournalError`."""
        refused, limits = self._transcript.refused_pictures, picture_limits(model)
        messages = await with_picture_bytes(
            asked.messages,
            self._journal.kept,
            refused=refused,
            limits=limits,
            readable=self._transcript.readable,
        )
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

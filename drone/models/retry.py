"""Model wrappers that retry, fall back to other models, and continue paused replies."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from drone.agent.ports.model import (
    Ask,
    AskLater,
    BadReply,
    ContextOverflow,
    Listener,
    Model,
    ModelError,
    ModelWrapper,
    PictureRefused,
    Reply,
    WantedCall,
    cache_seconds,
    context_tokens,
    picture_limits,
)
from mcc.contracts.usage import Usage
from mcc.transcript.messages import AssistantMessage
from mcc.transcript.pictures import NO_PICTURES, PictureLimits

LEAST_OUTPUT_TOKENS = 1_024

RETRY_SECONDS = 300.0
RETRY_SECONDS_WITH_FALLBACK = 10.0
"""How long a model is retried that has a fallback, unless its configuration sets `retry_seconds`."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a failing model is retried, and the waits between tries. All times in seconds.

    `retry_seconds` run from the first failure. After a pause only `again_seconds` are spent, because the question has
    waited already. `shortest_pause` to `longest_pause`: the pause between two such stretches if the provider names no
    time.
    """

    retry_seconds: float = RETRY_SECONDS
    again_seconds: float = 30.0
    first: float = 0.5
    factor: float = 2.0
    longest: float = 30.0
    longest_spread: float = 5.0
    shortest_pause: float = 60.0
    longest_pause: float = 900.0
    replies: int = 4
    """So many replies are looked at that are no good."""

    def retry_window(self, ask: Ask) -> float:
        """How long the question is retried before it is put off with `AskLater`."""
        return min(self.retry_seconds, self.again_seconds) if ask.waited_seconds else self.retry_seconds

    def wait(self, tried: int, error: ModelError, jitter: float) -> float:
        """Seconds before the next try after `tried` failed ones.

        `jitter` in 0..1 varies our own waits by half, and lengthens a wait that the provider named by up to a tenth.
        """
        ours = min(self.longest, self.first * self.factor ** (min(tried, 64) - 1)) * (0.5 + jitter / 2)
        pause = error.retry_after
        if pause is None:
            return ours
        # Spread out: clients that were given the same time would otherwise all return at the same moment.
        pause += jitter * min(pause / 10, self.longest_spread)
        return pause if tried == 1 else max(pause, ours)

    def pause(self, ask: Ask, jitter: float) -> float:
        """Seconds until the next stretch of tries if the provider names no time; doubles each time."""
        return min(self.longest_pause, max(self.shortest_pause, 2 * ask.waited_seconds)) * (0.75 + jitter / 4)


class Retrying(ModelWrapper):
    """Retries after transient errors, for as long as `RetryPolicy` says and never past `Ask.seconds`.

    Raises `AskLater` when the provider still cannot answer by then, or wants a longer pause than that. A reply that hit
    its output cap before it said anything is asked for once more with twice the room.
    """

    def __init__(
        self,
        model: Model,
        *,
        policy: RetryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(model)
        self._policy = policy or RetryPolicy()
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        deadline = self._clock() + ask.seconds
        reply = await self._ask_with_retries(ask, listener, deadline)
        left = deadline - self._clock()
        if not _is_empty(reply) or left <= 0:
            return reply
        room = 2 * max(LEAST_OUTPUT_TOKENS, ask.max_output_tokens or reply.usage.output_tokens)
        wider = replace(ask, max_output_tokens=room, seconds=left)
        why = f"{self.name} used up its output without a word; asking again with {wider.max_output_tokens} tokens."
        await listener.retried(why, 0.0)
        listener.billed(reply.usage)
        try:
            return await self._ask_with_retries(wider, listener, deadline)
        except ModelError:
            return replace(reply, usage=Usage())

    async def _ask_with_retries(self, ask: Ask, listener: Listener, deadline: float) -> Reply:
        tried, end = 0, deadline
        while True:
            try:
                return await self._model.ask(ask, listener)
            except ModelError as error:
                tried += 1
                if tried == 1:
                    # Counted from the first failure, so that a try that failed late leaves as much patience as one that
                    # failed at once.
                    end = min(deadline, self._clock() + self._policy.retry_window(ask))
                wait = self._next_wait(tried, error, end)
                if wait is None:
                    raise self._error_to_raise(ask, error, tried) from error
                await listener.retried(str(error), wait)
            await self._sleep(wait)
            await listener.go_ahead()
            ask = replace(ask, seconds=deadline - self._clock())

    def _next_wait(self, tried: int, error: ModelError, end: float) -> float | None:
        """Seconds until the next try; None when there is none."""
        if not error.retryable or (isinstance(error, BadReply) and tried >= self._policy.replies):
            return None
        wait = round(self._policy.wait(tried, error, self._jitter()), 3)
        return wait if self._clock() + wait < end else None

    def _error_to_raise(self, ask: Ask, error: ModelError, tried: int) -> ModelError:
        """The error to raise at the end: `AskLater` with a time if the provider is unable to answer for now."""
        if not error.retryable or isinstance(error, BadReply):
            return _with_tries(error, tried)
        retry_after = error.retry_after
        # A time that was kept once without success is no better than our own.
        ours = 0.0 if retry_after is not None and tried == 1 else self._policy.pause(ask, self._jitter())
        seconds = max(retry_after or 0.0, ours)
        when = "It is asked again in about" if seconds == ours else "It wants to be asked again in"
        said = str(error) if tried == 1 else f"{error} (tried {tried} times)"
        when = f"{when} {round(seconds, 1):.10g} s."
        return AskLater(said, seconds, named=retry_after is not None, when=when, status=error.status)


def _is_empty(reply: Reply) -> bool:
    return reply.finish_reason == "length" and not reply.tool_calls and not reply.text.strip()


def _with_tries(error: ModelError, tried: int) -> ModelError:
    """The last error, with the number of tries."""
    if tried == 1 or isinstance(error, ContextOverflow | PictureRefused):
        return error
    return ModelError(
        f"{error} (tried {tried} times)",
        retryable=error.retryable,
        retry_after=error.retry_after,
        status=error.status,
    )


COOLDOWN_SECONDS = 60.0
"""How long a failed model is skipped, unless it is the last one left."""

LEAST_SECONDS_LEFT = 1.0


class Fallback:
    """Asks the first model, then the others in turn as each fails. All share the deadline of the ask.

    If none replies, raises the last error, or the soonest `AskLater` if any model raised one. A `ContextOverflow` is
    passed on at once, since the question will be shortened instead; so is a `PictureRefused`.
    """

    def __init__(self, models: Sequence[Model], *, clock: Callable[[], float] = time.monotonic) -> None:
        if not models:
            raise ValueError("a fallback needs at least one model")
        self._models = tuple(models)
        self._clock = clock
        self._cooling_down: dict[int, tuple[float, str]] = {}

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def context_tokens(self) -> int | None:
        """The context size of the model that is asked next."""
        return context_tokens(self._next)

    @property
    def cache_seconds(self) -> float | None:
        return cache_seconds(self._next)

    @property
    def picture_limits(self) -> PictureLimits:
        """Those of the first model that is shown any; one that is shown fewer says so when it is asked."""
        return next((limits for limits in map(picture_limits, self._models) if limits.most), NO_PICTURES)

    @property
    def _next(self) -> Model:
        last = len(self._models) - 1
        return next(model for at, model in enumerate(self._models) if at == last or not self._cooldown_reason(at))

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        deadline = self._clock() + ask.seconds
        last = len(self._models) - 1
        later: list[AskLater] = []
        for place, model in enumerate(self._models):
            why = self._cooldown_reason(place)
            if place == last or why is None:
                try:
                    ask_in_time = replace(ask, seconds=deadline - self._clock()) if place else ask
                    return await model.ask(ask_in_time, listener)
                except (ContextOverflow, PictureRefused):
                    raise
                except ModelError as error:
                    self._cool_down(place, error)
                    later += [error] if isinstance(error, AskLater) else []
                    if place == last or deadline - self._clock() < LEAST_SECONDS_LEFT:
                        standing = min(later, key=lambda one: one.seconds, default=error)
                        raise standing from error.__cause__
                    why = _lasting_cause(error)
            await listener.fell_back(model.name, self._models[place + 1].name, why)
        raise AssertionError("the last model answers or raises")

    def _cooldown_reason(self, place: int) -> str | None:
        """Why this model is skipped for now; None when it is not."""
        until, why = self._cooling_down.get(place, (0.0, ""))
        return why if self._clock() < until else None

    def _cool_down(self, place: int, error: ModelError) -> None:
        """Skip this model for a while, unless the error concerns this one request only (other 4xx)."""
        if error.retryable or error.status in (401, 402, 403, 404):
            self._cooling_down[place] = (self._clock() + COOLDOWN_SECONDS, _lasting_cause(error))


def _lasting_cause(error: ModelError) -> str:
    """Why another model is asked. The time in an `AskLater` is left out: nobody waits for it."""
    return str(error.args[0] if isinstance(error, AskLater) else error)


PAUSED = "paused"
"""Finish reason of a reply that must be sent back unchanged to get its rest."""

MOST_PAUSES = 8
"""Continuations of one reply. A longer reply counts as cut off."""


class Unpaused(ModelWrapper):
    """Joins replies that a provider pauses while its own tools work; the continuation belongs to the same reply."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        reply = await self._model.ask(ask, listener)
        for _ in range(MOST_PAUSES):
            if reply.finish_reason != PAUSED or reply.tool_calls:
                return reply
            said = AssistantMessage(
                tuple(block for block in reply.blocks if not isinstance(block, WantedCall)), self.name
            )
            listener.billed(reply.usage)
            more = await self._model.ask(replace(ask, messages=(*ask.messages, said)), listener)
            reply = replace(more, blocks=(*reply.blocks, *more.blocks), first_token_ms=reply.first_token_ms)
        return replace(reply, finish_reason="length") if reply.finish_reason == PAUSED else reply

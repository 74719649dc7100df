"""Trying again: a model around a model that waits and asks anew when that may help."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from drone.agent.model import (
    Ask,
    AskLater,
    ContextOverflow,
    Listener,
    Model,
    ModelError,
    Reply,
    context_tokens,
)
from drone.models.prices import Bill
from mcc.contracts.usage import Usage

FEWEST_TOKENS = 1_024


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long to wait, in seconds; who asks for more than `longest_asked` is not waited for."""

    tries: int = 4
    first: float = 0.2
    factor: float = 2.0
    longest: float = 30.0
    longest_asked: float = 120.0

    def wait(self, tried: int, error: ModelError, jitter: float) -> float:
        """Seconds before the next try after `tried` failed ones; `jitter` in 0..1 spreads them over half the time."""
        if error.retry_after is not None:
            return error.retry_after
        return min(self.longest, self.first * self.factor ** (tried - 1)) * (0.5 + jitter / 2)


class Retrying:
    """Asks again after errors that may pass, never past `Ask.seconds`.

    A provider that wants a longer pause than that, or than `Patience.longest_asked`, is not waited for: `AskLater`.
    A reply that ran into its cap on output before it said anything is asked for once more with twice the room.
    """

    def __init__(
        self,
        model: Model,
        *,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._patience = patience or Patience()
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_tokens(self) -> int | None:
        return context_tokens(self._model)

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        deadline = self._clock() + ask.seconds
        reply = await self._insist(ask, listener, deadline)
        left = deadline - self._clock()
        if not _said_nothing(reply) or left <= 0:
            return reply
        wider = replace(ask, max_output_tokens=_twice(ask, reply), seconds=left)
        why = f"{self.name} used up its output without a word; asking again with {wider.max_output_tokens} tokens."
        await listener.retried(why, 0.0)
        bill = Bill()
        try:
            again = await self._insist(wider, listener, deadline)
        except ModelError as error:
            bill.add(error.usage)
            return bill.on(reply)
        bill.add(reply.usage)
        return bill.on(again)

    async def _insist(self, ask: Ask, listener: Listener, deadline: float) -> Reply:
        tried, bill = 0, Bill()
        while True:
            try:
                return bill.on(await self._model.ask(ask, listener))
            except ModelError as error:
                tried += 1
                bill.add(error.usage)
                wait = self._next_wait(tried, error, deadline)
                if wait is None:
                    later = error.retryable and tried < self._patience.tries
                    raise (_later if later else _final)(error, tried, bill.usage) from error
                await listener.retried(str(error), wait)
            await self._sleep(wait)
            await listener.go_ahead()
            ask = replace(ask, seconds=deadline - self._clock())

    def _next_wait(self, tried: int, error: ModelError, deadline: float) -> float | None:
        """Seconds until the next try, None when there is none."""
        if not error.retryable or tried >= self._patience.tries:
            return None
        if error.retry_after is not None and error.retry_after > self._patience.longest_asked:
            return None
        wait = round(self._patience.wait(tried, error, self._jitter()), 3)
        return wait if self._clock() + wait < deadline else None


def _said_nothing(reply: Reply) -> bool:
    return reply.finish_reason == "length" and not reply.tool_calls and not reply.text.strip()


def _twice(ask: Ask, reply: Reply) -> int:
    return 2 * max(FEWEST_TOKENS, ask.max_output_tokens or reply.usage.output_tokens)


def _later(error: ModelError, tried: int, usage: Usage | None) -> ModelError:
    """The error of a provider that said when to come again; the last one where it did not."""
    seconds = error.retry_after
    if seconds is None:
        return _final(error, tried, usage)
    return AskLater(f"{error} It wants to be asked again in {seconds:g} s.", seconds, status=error.status, usage=usage)


def _final(error: ModelError, tried: int, usage: Usage | None) -> ModelError:
    """The last error, saying how often it was tried and what that cost."""
    if tried == 1 or isinstance(error, ContextOverflow):
        error.usage = usage
        return error
    return ModelError(
        f"{error} (tried {tried} times)",
        retryable=error.retryable,
        retry_after=error.retry_after,
        status=error.status,
        usage=usage,
    )

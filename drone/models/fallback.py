"""Falling back: models in order, the next one asked where the one before gave no reply."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

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

REST_SECONDS = 60.0
"""A model that failed is passed over for so long, unless no other is left."""

LEAST_SECONDS = 1.0


class Fallback:
    """Asks the first model, and the others in turn when it fails. All share the deadline of the ask.

    When none gives a reply, the last error stands; but the soonest `AskLater`, when one of them raised that. A question
    that is too large for a model is asked of no other: it will be shortened.
    """

    def __init__(self, models: Sequence[Model], *, clock: Callable[[], float] = time.monotonic) -> None:
        if not models:
            raise ValueError("a fallback needs at least one model")
        self._models = tuple(models)
        self._clock = clock
        self._resting: dict[int, tuple[float, str]] = {}

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def context_tokens(self) -> int | None:
        """That of the model that is asked next."""
        last = len(self._models) - 1
        return context_tokens(next(model for at, model in enumerate(self._models) if at == last or not self._rests(at)))

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        deadline = self._clock() + ask.seconds
        last, bill = len(self._models) - 1, Bill()
        later: list[AskLater] = []
        for place, model in enumerate(self._models):
            why = self._rests(place)
            if place == last or why is None:
                try:
                    timed = replace(ask, seconds=deadline - self._clock()) if place else ask
                    return bill.on(await model.ask(timed, listener))
                except ContextOverflow as error:
                    bill.add(error.usage)
                    error.usage = bill.usage
                    raise
                except ModelError as error:
                    self._rest(place, error)
                    bill.add(error.usage)
                    later += [error] if isinstance(error, AskLater) else []
                    if place == last or deadline - self._clock() < LEAST_SECONDS:
                        standing = min(later, key=lambda one: one.seconds, default=error)
                        standing.usage = bill.usage
                        raise standing from error.__cause__
                    why = str(error)
            await listener.fell_back(model.name, self._models[place + 1].name, why)
        raise AssertionError("the last model answers or raises")

    def _rests(self, place: int) -> str | None:
        """Why this model is passed over now, None when it is not."""
        until, why = self._resting.get(place, (0.0, ""))
        return why if self._clock() < until else None

    def _rest(self, place: int, error: ModelError) -> None:
        """Errors of this one request (4xx) say nothing about the next one."""
        if error.retryable or error.status in (401, 402, 403, 404):
            self._resting[place] = (self._clock() + REST_SECONDS, str(error))

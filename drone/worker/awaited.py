"""A database that is away when a drone starts: it is waited for, aloud and not for ever."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from mcc.store.errors import StoreUnavailable

log = structlog.get_logger("drone.awaited")

PAUSE_SECONDS = 1.0


class Asked(Protocol):
    """The part of a store that tells whether it is there, and fit."""

    def schema_problem(self) -> str | None: ...


def rested(seconds: float) -> None:
    threading.Event().wait(seconds)


def schema_problem(
    store: Asked,
    pause: Callable[[float], None] = rested,
    *,
    patience_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> str | None:
    """What the store says of its schema, as soon as it can be asked. `pause` may raise, to end the wait.

    Raises `StoreUnavailable` when the database stays away for `patience_seconds`: the process should end with a
    sentence then, so that whoever supervises it starts another, or somebody looks.
    """
    give_up, told = clock() + patience_seconds, ""
    while True:
        try:
            return store.schema_problem()
        except StoreUnavailable as problem:
            if clock() >= give_up:
                raise
            if str(problem) != told:
                told = str(problem)
                log.warning("the database is away: this drone waits for it", problem=told, seconds=patience_seconds)
        pause(PAUSE_SECONDS)

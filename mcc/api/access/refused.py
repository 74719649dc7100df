"""Notes in the audit about who was refused what: at most one a minute for each principal and route."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from starlette.types import Scope

from mcc.api.access.callers import Caller
from mcc.contracts.callers import Actor
from mcc.store.database.errors import StoreError

KIND = "refused"
PAUSE_SECONDS = 60.0
KEPT = 10_000
"""Of how many pairs of principal and route it is known when they were noted last."""

log = logging.getLogger(__name__)

Note = Callable[[Actor, str], Awaitable[object]]
"""Adds a note about who was refused, and the route."""


class RefusedNotes:
    """Notes are written beside the request. `monotonic` answers seconds."""

    def __init__(self, note: Note, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._note = note
        self._monotonic = monotonic
        self._noted: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._writing: set[asyncio.Task[None]] = set()

    def __call__(self, caller: Caller, scope: Scope) -> None:
        """This caller was refused what the request of this scope asked for."""
        route = f"{scope['method']} {getattr(scope.get('route'), 'path', '')}"
        who, at = (caller.principal, route), self._monotonic()
        if at - self._noted.get(who, float("-inf")) < PAUSE_SECONDS:
            return
        self._noted[who] = at
        self._noted.move_to_end(who)
        if len(self._noted) > KEPT:
            self._noted.popitem(last=False)

        async def write() -> None:
            try:
                await self._note(caller.actor, route)
            except StoreError as error:
                log.debug("a refusal was not noted (%s)", error)

        task = asyncio.create_task(write())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

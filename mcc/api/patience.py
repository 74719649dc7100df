"""This room is for patience: no request waits for the database longer than it can be made to wait."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from mcc.store.errors import StoreUnavailable
from mcc.store.offload import Offload

P = ParamSpec("P")
R = TypeVar("R")

QUEUE_SECONDS = 3.0
ANSWER_SECONDS = 8.0
STORE_SECONDS = 3.0
"""A store whose locks are waited for this long answers within `ANSWER_SECONDS`, one way or the other."""

BUSY = "The database is slow or locked, and earlier requests wait for it: nothing was done. Try again."
SILENT = (
    "The database has not answered in time, so it is not known whether this was done. "
    "Ask again; with the same Idempotency-Key an order is not placed twice."
)


class BoundedOffload(Offload):
    """As `Offload`, except that its callers are told `StoreUnavailable` in the end.

    What did not begin within `queue_seconds` is not done at all. What did not end within `answer_seconds` goes on, and
    its outcome is not known.
    """

    def __init__(
        self,
        threads: int,
        name: str,
        *,
        queue_seconds: float = QUEUE_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        super().__init__(threads, name)
        self._queue_seconds = queue_seconds
        self._answer_seconds = answer_seconds

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        work = self._pool.submit(lambda: function(*args, **kwargs))
        answer = asyncio.wrap_future(work)
        try:
            await asyncio.wait({answer}, timeout=self._queue_seconds)
            if not answer.done() and work.cancel():
                raise StoreUnavailable(BUSY)
            if not answer.done():
                await asyncio.wait({answer}, timeout=self._answer_seconds - self._queue_seconds)
            if not answer.done():
                raise StoreUnavailable(SILENT)
            return answer.result()
        finally:
            answer.cancel()

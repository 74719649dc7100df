"""Asking a drone to try its models, over Redis: a message on its control channel, the rows in a list.

No Celery message: one that waited for a drone would be done, and paid for, when nobody waits for its answer any more.
"""

import asyncio
from collections.abc import Sequence

from pydantic import ValidationError

from mcc.contracts.answers import ModelCheck, longest_check
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import to_json
from mcc.contracts.tool_tests import ToolTested
from mcc.contracts.wire import CheckModels, TryServer, check_key, control_channel
from mcc.dispatch.broker import DispatchUnavailable, connect_async, translated

DEAF = "This drone does not listen to Redis at the moment: mcc drones says whether it is there."

WAIT_SECONDS = 1
SOCKET_SECONDS = 3.0
TRIAL_SECONDS = 70.0
"""Somewhat longer than a drone gives a trial."""


class ModelCheckers:
    """The drones' way to be asked. For an event loop; any number of checks at a time."""

    def __init__(self, redis_url: str) -> None:
        self._redis = connect_async(redis_url, seconds=SOCKET_SECONDS)

    async def check(self, incarnation: str, names: Sequence[str], *, seconds: float | None = None) -> list[ModelCheck]:
        """What the drone process says of these models, in the order in which it does; those that are missing it did
        not tell within `seconds` (None: the time that it may take). Raises `DispatchUnavailable`, also when that
        process does not listen.
        """
        request = CheckModels(names=tuple(names), check_id=fresh_id())
        with translated():
            if not await self._redis.publish(control_channel(incarnation), to_json(request)):
                raise DispatchUnavailable(DEAF)
            return await self._rows(request, longest_check(len(names)) if seconds is None else seconds)

    async def try_server(self, incarnation: str, trial_id: str, seconds: float = TRIAL_SECONDS) -> ToolTested | None:
        """What the drone process says of the trial that the database has; None: it did not tell in time. Raises
        `DispatchUnavailable`, also when that process does not listen."""
        with translated():
            if not await self._redis.publish(control_channel(incarnation), to_json(TryServer(trial_id=trial_id))):
                raise DispatchUnavailable(DEAF)
            until = asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < until:
                if popped := await self._redis.blpop([check_key(trial_id)], timeout=WAIT_SECONDS):
                    return ToolTested.model_validate_json(popped[1])
        return None

    async def close(self) -> None:
        await self._redis.aclose()

    async def _rows(self, request: CheckModels, seconds: float) -> list[ModelCheck]:
        missing, rows = set(request.names), list[ModelCheck]()
        until = asyncio.get_running_loop().time() + seconds
        while missing and asyncio.get_running_loop().time() < until:
            popped = await self._redis.blpop([check_key(request.check_id)], timeout=WAIT_SECONDS)
            row = _row(popped[1]) if popped else None
            if row is not None and row.name in missing:
                missing.remove(row.name)
                rows.append(row)
        return rows


def _row(data: bytes | str) -> ModelCheck | None:
    try:
        return ModelCheck.model_validate_json(data)
    except ValidationError:
        return None

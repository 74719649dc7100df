"""Requests to drones over Redis to try their models and MCP servers.

The request goes to the drone's control channel; the answers come back in a Redis list.
Celery is not used for this: a message that waited in a queue would still be executed, and paid for, long after the
caller has given up.
"""

import asyncio
from collections.abc import Sequence

from pydantic import ValidationError

from mcc.contracts.answers import ModelCheck, longest_check
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import to_json
from mcc.contracts.tool_tests import ToolTested
from mcc.contracts.wire import CheckModels, TryServer, check_key, control_channel
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, connect_async, translated

NOT_LISTENING = "This drone does not listen to Redis at the moment: mcc drones says whether it is there."

WAIT_SECONDS = 1
SOCKET_SECONDS = 3.0
TRIAL_SECONDS = 70.0
"""Somewhat longer than the time limit that a drone sets for a trial."""


class DroneChecks:
    """A client for checks that run on drones. For an event loop; any number of checks may run at a time."""

    def __init__(self, redis: RedisAt) -> None:
        self._prefix = redis.prefix
        self._redis = connect_async(redis, seconds=SOCKET_SECONDS)

    async def check(self, incarnation: str, names: Sequence[str], *, seconds: float | None = None) -> list[ModelCheck]:
        """The drone process's result for each of these models, in the order in which they arrive.

        A result that does not arrive within `seconds` (None: the longest a check of so many may take) is missing.
        Raises `DispatchUnavailable`, also when that process does not listen.
        """
        request = CheckModels(names=tuple(names), check_id=fresh_id())
        with translated():
            if not await self._redis.publish(control_channel(incarnation, self._prefix), to_json(request)):
                raise DispatchUnavailable(NOT_LISTENING)
            return await self._results(request, longest_check(len(names)) if seconds is None else seconds)

    async def try_server(self, incarnation: str, trial_id: str, seconds: float = TRIAL_SECONDS) -> ToolTested | None:
        """The drone process's result of the trial stored under `trial_id`; None when it does not arrive in time.

        Raises `DispatchUnavailable`, also when that process does not listen.
        """
        with translated():
            if not await self._redis.publish(
                control_channel(incarnation, self._prefix), to_json(TryServer(trial_id=trial_id))
            ):
                raise DispatchUnavailable(NOT_LISTENING)
            until = asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < until:
                if popped := await self._redis.blpop([check_key(trial_id, self._prefix)], timeout=WAIT_SECONDS):
                    return ToolTested.model_validate_json(popped[1])
        return None

    async def close(self) -> None:
        await self._redis.aclose()

    async def _results(self, request: CheckModels, seconds: float) -> list[ModelCheck]:
        missing, results = set(request.names), list[ModelCheck]()
        until = asyncio.get_running_loop().time() + seconds
        while missing and asyncio.get_running_loop().time() < until:
            popped = await self._redis.blpop([check_key(request.check_id, self._prefix)], timeout=WAIT_SECONDS)
            result = _result(popped[1]) if popped else None
            if result is not None and result.name in missing:
                missing.remove(result.name)
                results.append(result)
        return results


def _result(data: bytes | str) -> ModelCheck | None:
    try:
        return ModelCheck.model_validate_json(data)
    except ValidationError:
        return None

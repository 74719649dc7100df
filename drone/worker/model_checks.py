"""Trying this drone's models when the service asks for it: one small call each, the rows left in Redis."""

import asyncio
from collections.abc import Iterable

import structlog
from pydantic import ValidationError

from drone.crew import Crew
from mcc.contracts.answers import ModelCheck
from mcc.contracts.shape import to_json
from mcc.contracts.wire import CheckModels, check_key
from mcc.dispatch.broker import FOREIGN, connect_async

log = structlog.get_logger("drone.model_checks")

KEPT_SECONDS = 120
MOST_BYTES = 32 * 1024
"""A message with the most names that one may have is smaller."""

BUSY = "This drone tries models for somebody else just now: ask again in a minute."


class ModelChecks:
    """Hears the messages on the drone's control channel, and does those that ask for a check, one at a time.

    Whoever can write in Redis can ask: so no more is spent than one small call per model and check under way.
    """

    def __init__(self, crew: Crew, redis_url: str, drone: str) -> None:
        self._crew = crew
        self._redis = connect_async(redis_url)
        self._drone = drone
        self._doing: asyncio.Task[None] | None = None
        self._refusing: set[asyncio.Task[None]] = set()

    def hear(self, data: object) -> None:
        """A message; all but requests for a check are passed over. Call on the loop."""
        request = _request(data)
        if request is None:
            return
        if self._doing is None or self._doing.done():
            self._doing = asyncio.create_task(self._do(request))
            return
        refusing = asyncio.create_task(self._refuse(request))
        self._refusing.add(refusing)
        refusing.add_done_callback(self._refusing.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        under_way = [task for task in (self._doing, *self._refusing) if task is not None]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._redis.aclose()

    async def _do(self, request: CheckModels) -> None:
        log.info("models are tried", names=list(request.names))

        async def tell(row: ModelCheck) -> None:
            await self._put(request.check_id, [row])

        try:
            await self._crew.check_models(request.names, tell)
        except Exception:
            log.exception("models could not be tried")

    async def _refuse(self, request: CheckModels) -> None:
        await self._put(request.check_id, [ModelCheck(name=name, problem=BUSY) for name in request.names])

    async def _put(self, check_id: str, rows: Iterable[ModelCheck]) -> None:
        told = [to_json(row.model_copy(update={"drone": self._drone})) for row in rows]
        try:
            async with self._redis.pipeline() as pipeline:
                pipeline.rpush(check_key(check_id), *told)
                pipeline.expire(check_key(check_id), KEPT_SECONDS)
                await pipeline.execute()
        except FOREIGN as problem:
            log.warning("what was found of a model could not be told", problem=str(problem))


def _request(data: object) -> CheckModels | None:
    if not isinstance(data, bytes) or len(data) > MOST_BYTES or b"check_models" not in data:
        return None
    try:
        return CheckModels.model_validate_json(data)
    except ValidationError as problem:
        log.warning("a request to try models was not understood", problem=str(problem)[:200])
        return None

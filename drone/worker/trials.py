"""Trials that this drone makes on request: of its models, and of MCP servers."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

import structlog
from pydantic import ValidationError

from drone.crew import Crew
from drone.worker.loop import AsyncStore
from mcc.contracts.answers import ModelCheck
from mcc.contracts.shape import Closed, to_json
from mcc.contracts.tool_tests import ToolTested
from mcc.contracts.wire import CheckModels, TryServer, check_key
from mcc.dispatch.broker import FOREIGN, RedisAt, connect_async
from mcc.store.database.errors import StoreUnavailable

R = TypeVar("R", bound=Closed)
log = structlog.get_logger("drone.trials")

KEPT_SECONDS = 120
"""How long Redis keeps the result of a trial for the service to read."""

MOST_CHECK_BYTES = 32 * 1024
"""A request for a check with the most names that one may have is smaller."""

MOST_TRIAL_BYTES = 1_024
MOST_AT_ONCE = 4
TRIAL_SECONDS = 60.0
BUSY = "This drone is testing models for somebody else: ask again in a minute."


class TrialResults:
    """Publishes the results of trials in Redis, in the name of one drone."""

    def __init__(self, redis: RedisAt, drone: str) -> None:
        self._redis = connect_async(redis)
        self._prefix = redis.prefix
        self._drone = drone

    async def put(self, trial_id: str, rows: Iterable[ModelCheck | ToolTested]) -> None:
        """Append these rows to the results of the trial; while Redis is unreachable, only log that."""
        encoded = [to_json(row.model_copy(update={"drone": self._drone})) for row in rows]
        try:
            async with self._redis.pipeline() as pipeline:
                pipeline.rpush(check_key(trial_id, self._prefix), *encoded)
                pipeline.expire(check_key(trial_id, self._prefix), KEPT_SECONDS)
                await pipeline.execute()
        except FOREIGN as problem:
            log.warning("the result of a trial could not be published", problem=str(problem))

    async def close(self) -> None:
        await self._redis.aclose()


class ModelChecks:
    """Receives the messages on the drone's control channel, and makes the model checks that they request, one at a
    time.

    Anybody who can write to Redis can request a check. One at a time bounds the cost: one small call per model.
    """

    def __init__(self, crew: Crew, redis: RedisAt, drone: str) -> None:
        self._crew = crew
        self._results = TrialResults(redis, drone)
        self._running: asyncio.Task[None] | None = None
        self._refusing: set[asyncio.Task[None]] = set()

    def hear(self, data: object) -> None:
        """Take a message; ignores all but requests for a check. Call on the loop."""
        request = _request(data, CheckModels, b"check_models", MOST_CHECK_BYTES)
        if request is None:
            return
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._check(request))
            return
        refusing = asyncio.create_task(self._refuse(request))
        self._refusing.add(refusing)
        refusing.add_done_callback(self._refusing.discard)

    async def close(self) -> None:
        """Cancel the running check."""
        tasks = [task for task in (self._running, *self._refusing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._results.close()

    async def _check(self, request: CheckModels) -> None:
        log.info("models are tried", names=list(request.names))

        async def tell(row: ModelCheck) -> None:
            await self._results.put(request.check_id, [row])

        try:
            await self._crew.check_models(request.names, tell)
        except Exception:
            log.exception("models could not be tried")

    async def _refuse(self, request: CheckModels) -> None:
        busy = [ModelCheck(name=name, problem=BUSY) for name in request.names]
        await self._results.put(request.check_id, busy)


class ServerTrials:
    """Receives the messages on the drone's control channel, and tries the MCP servers that the operator wants tried.

    A message names only the trial; the server and the tool come from the database, so that somebody who can merely
    write to Redis cannot start a trial.
    """

    def __init__(self, crew: Crew, store: AsyncStore, redis: RedisAt, drone: str) -> None:
        self._crew = crew
        self._store = store
        self._results = TrialResults(redis, drone)
        self._running: set[asyncio.Task[None]] = set()

    def hear(self, data: object) -> None:
        """Take a message; ignores all but those that name a trial. Call on the loop."""
        request = _request(data, TryServer, b"try_server", MOST_TRIAL_BYTES)
        if request is None or len(self._running) >= MOST_AT_ONCE:
            return
        running = asyncio.create_task(self._try(request.trial_id))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Cancel the running trials."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._results.close()

    async def _try(self, trial_id: str) -> None:
        try:
            test = await self._store.once(lambda store: store.mcp_servers.take(trial_id))
            if test is None:
                return
            log.info("an MCP server is tried", server=test.server, tool=test.tool)
            try:
                async with asyncio.timeout(TRIAL_SECONDS):
                    tested = await self._crew.servers.test(test)
            except TimeoutError:
                tested = ToolTested(server=test.server, problem=f"It did not answer within {TRIAL_SECONDS:g} s.")
            await self._results.put(trial_id, [tested])
        except StoreUnavailable as problem:
            log.warning("a trial was dropped because the database is unavailable", problem=str(problem))
        except Exception:
            log.exception("an MCP server could not be tried")


def _request(data: object, kind: type[R], mark: bytes, most_bytes: int) -> R | None:
    """The message as a request of this kind; None for all other messages. `mark`: what each such request contains."""
    if not isinstance(data, bytes) or len(data) > most_bytes or mark not in data:
        return None
    try:
        return kind.model_validate_json(data)
    except ValidationError as problem:
        log.warning("a request for a trial was not understood", problem=str(problem)[:200])
        return None

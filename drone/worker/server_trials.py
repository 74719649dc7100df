"""Trials of MCP servers that the operator asks for: the database says which, so that a writer in Redis makes none."""

import asyncio

import structlog
from pydantic import ValidationError

from drone.crew import Crew
from drone.worker.loop import AsyncStore
from mcc.contracts.shape import to_json
from mcc.contracts.tool_tests import ToolTested
from mcc.contracts.wire import TryServer, check_key
from mcc.dispatch.broker import FOREIGN, connect_async
from mcc.store.errors import StoreUnavailable

log = structlog.get_logger("drone.server_trials")

KEPT_SECONDS = 120
MOST_BYTES = 1_024
MOST_AT_ONCE = 4
TRIAL_SECONDS = 60.0


class ServerTrials:
    """Hears the messages on the drone's control channel, and makes the trials that they name."""

    def __init__(self, crew: Crew, store: AsyncStore, redis_url: str, drone: str) -> None:
        self._crew = crew
        self._store = store
        self._redis = connect_async(redis_url)
        self._drone = drone
        self._doing: set[asyncio.Task[None]] = set()

    def hear(self, data: object) -> None:
        """A message; all but those that name a trial are passed over. Call on the loop."""
        request = _request(data)
        if request is None or len(self._doing) >= MOST_AT_ONCE:
            return
        doing = asyncio.create_task(self._do(request.trial_id))
        self._doing.add(doing)
        doing.add_done_callback(self._doing.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._doing:
            task.cancel()
        await asyncio.gather(*self._doing, return_exceptions=True)
        await self._redis.aclose()

    async def _do(self, trial_id: str) -> None:
        try:
            test = await self._store.once(lambda store: store.mcp_servers.take(trial_id))
            if test is None:
                return
            log.info("an MCP server is tried", server=test.server, tool=test.tool)
            try:
                async with asyncio.timeout(TRIAL_SECONDS):
                    found = await self._crew.servers.test(test)
            except TimeoutError:
                found = ToolTested(server=test.server, problem=f"It did not answer within {TRIAL_SECONDS:g} s.")
            await self._tell(trial_id, found)
        except StoreUnavailable as problem:
            log.warning("a trial waits for nobody while the database is away", problem=str(problem))
        except Exception:
            log.exception("an MCP server could not be tried")

    async def _tell(self, trial_id: str, found: ToolTested) -> None:
        try:
            async with self._redis.pipeline() as pipeline:
                pipeline.rpush(check_key(trial_id), to_json(found.model_copy(update={"drone": self._drone})))
                pipeline.expire(check_key(trial_id), KEPT_SECONDS)
                await pipeline.execute()
        except FOREIGN as problem:
            log.warning("what a trial showed could not be told", problem=str(problem))


def _request(data: object) -> TryServer | None:
    if not isinstance(data, bytes) or len(data) > MOST_BYTES or b"try_server" not in data:
        return None
    try:
        return TryServer.model_validate_json(data)
    except ValidationError:
        return None

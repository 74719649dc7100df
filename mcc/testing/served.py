"""A control service in a thread, on a free local port, for tests of its clients."""

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import ParamSpec

from fastapi import FastAPI

from mcc.api.access.polls import Polls
from mcc.api.app import NO_REDIS, RedisAccess, build_app
from mcc.api.serve import ApiServer, BoundedConnection, configured
from mcc.api.triggers.ready import ready_triggers
from mcc.feed.feed import Pace
from mcc.settings import ServiceSettings
from mcc.store.store import Store

P = ParamSpec("P")

TOKEN = "a-token-for-tests-0123456789-0123456789"
"""The token of every `Served` service."""


class Served:
    """Serve the API at `served.url` inside `with Served(store, data_dir) as served:`. `port` 0 picks a free port."""

    connection: type[BoundedConnection] = BoundedConnection
    login_seconds = 1
    """How often a command line asks whether it was let in."""
    trigger_secrets: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Of the triggers in the settings, by their names."""

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        *,
        port: int = 0,
        redis: RedisAccess = NO_REDIS,
        pace: Pace | None = None,
        settings: ServiceSettings | None = None,
    ) -> None:
        settings = settings or ServiceSettings(data_dir=data_dir)
        self._listening = socket.create_server(("127.0.0.1", port), backlog=2048)
        self.port = int(self._listening.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = TOKEN
        self.app: FastAPI = build_app(
            settings,
            store,
            token=TOKEN,
            redis=redis,
            pace=pace or Pace(poll_seconds=0.2, poll_without_hints_seconds=0.02),
            polls=Polls(self.login_seconds),
            triggers=ready_triggers(settings, self.trigger_secrets),
        )
        self._checks = redis.checks
        self._server = ApiServer(configured(self.app, self.connection), self.app.state.service)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def viewers(self) -> int:
        """How many event streams are open."""
        return int(self.app.state.service.feed.viewers)

    def call(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Schedule `function` on the service's event loop, for calls that are not safe from another thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(lambda: function(*args, **kwargs))

    def __enter__(self) -> "Served":
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            # Connections belong to this loop: nobody can close them once it has ended.
            if self._checks is not None:
                await self._checks.close()

    def stop(self) -> None:
        """Shut down gracefully, as on SIGTERM. Waits up to 10 seconds."""
        self._server.should_exit = True
        self._thread.join(10.0)
        self._listening.close()

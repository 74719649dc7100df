"""This room is for the family: everything that `mcc up` runs, started in order, watched, and gone when asked."""

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from mcc.api.token import operator_token, refuse_open_door
from mcc.local.child import Tell
from mcc.local.database import upgrade_database
from mcc.local.errors import PortTaken, StartFailed
from mcc.local.flower import Flower
from mcc.local.keepsakes import flower_login
from mcc.local.presence import Hold, Presence, prepare_directory, started_now
from mcc.local.privacy import make_private
from mcc.local.programs import Household, Staff
from mcc.local.ready import Service, check_configured_redis, redis_answers
from mcc.local.redis import ConfiguredRedis, RedisSource, find_redis, server_arguments, socket_in, socket_url
from mcc.local.supervisor import Supervisor
from mcc.settings import Settings

START_SECONDS = 60.0
FLOWER_SECONDS = 15.0

DRONE_GRACE_SECONDS = 2.5
API_GRACE_SECONDS = 1.0
REDIS_GRACE_SECONDS = 1.0
"""Together less than the 5 s in which a family is gone."""

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where this machine reaches a service that listens everywhere."""


def say_nothing(line: str) -> None:
    """For a family that works in silence."""


class Family:
    """Redis, API, drones and Flower on this machine; `async with` it, or `with` it in blocking code (`housed`).

    `purpose` is told to others: "up" stays, "run" is there for one order. `search_path` is where a Redis may be found
    (None = PATH). Entering raises `FamilyError` or `BadSettings`; leaving takes at most 5 s and leaves no process.
    """

    def __init__(
        self,
        settings: Settings,
        staff: Staff | None = None,
        *,
        purpose: str = "up",
        tell: Tell = say_nothing,
        environment: Mapping[str, str] | None = None,
        search_path: str | None = None,
    ) -> None:
        self.settings = settings
        self.staff = staff or Staff()
        self.token = ""
        self.redis: RedisSource | None = None
        self.supervisor = Supervisor(settings.data_dir / "logs", tell)
        self._purpose = purpose
        self._tell = tell
        self._environment = dict(os.environ if environment is None else environment)
        self._search_path = search_path
        self._port = settings.port
        self._flower: Flower | None = None
        self._undo = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        host = LOOPBACK.get(self.settings.host, self.settings.host)
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    @property
    def flower_url(self) -> str | None:
        return self._flower.url if self._flower else None

    @property
    def logs(self) -> Path:
        return self.settings.data_dir / "logs"

    def kill(self) -> None:
        """End every child at once, without asking."""
        self.supervisor.kill()

    async def __aenter__(self) -> "Family":
        try:
            await self._start()
        except BaseException:
            await self._undo.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._undo.aclose()

    async def _start(self) -> None:
        refuse_open_door(self.settings)
        hold = self._take_hold()
        listening = self._undo.enter_context(contextlib.closing(self._listen()))
        self.token = operator_token(self.settings)
        self.redis = find_redis(self.settings.redis_url, search_path=self._search_path)
        if told := await asyncio.to_thread(upgrade_database, self.settings.database_url):
            self._tell(told)
        await self._undo.enter_async_context(self.supervisor)
        redis_url = await self._start_redis(self.redis)
        household = Household.of(self.settings, self._environment, self._private, redis_url)
        self._start_children(household, listening)
        await self._until_ready()
        hold.publish(Presence(self.url, os.getpid(), self.flower_url, started_now(), self._purpose, redis_url))

    @property
    def _private(self) -> Path:
        return self.settings.data_dir / "run"

    def _take_hold(self) -> Hold:
        prepare_directory(self.settings.data_dir)
        for sentence in make_private(self.settings.data_dir):
            self._tell(sentence)
        hold = Hold.take(self.settings.data_dir)
        self._undo.callback(hold.release)
        for directory in (self.logs, self._private, self.settings.data_dir / "redis"):
            prepare_directory(directory)
        return hold

    def _listen(self) -> socket.socket:
        host, port = self.settings.host, self.settings.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, backlog=2048)
        except OSError as error:
            raise PortTaken(
                f"Cannot listen on {host} port {port} ({os.strerror(error.errno or 0)}): another program may be using "
                "it. Choose another with --port, or --port 0 for any free one."
            ) from error
        self._port = listening.getsockname()[1]
        return listening

    async def _start_redis(self, source: RedisSource) -> str:
        if isinstance(source, ConfiguredRedis):
            await asyncio.to_thread(check_configured_redis, source.url)
            return source.url
        path = socket_in(self._private)
        if path.parent != self._private:
            self._undo.callback(shutil.rmtree, path.parent, ignore_errors=True)
        arguments = server_arguments(source.path, path, self.settings.data_dir / "redis")
        bare = Household(self.settings, self._environment, self._private)
        children = self.supervisor.start({"redis": lambda: bare.redis(arguments)}, REDIS_GRACE_SECONDS)
        await self.supervisor.until(lambda: asyncio.to_thread(redis_answers, path), children, START_SECONDS)
        return socket_url(path)

    def _start_children(self, household: Household, listening: socket.socket) -> None:
        """The API is a stage of its own: it ends after the drones, and so can still show how they leave."""
        self.supervisor.start({"api": lambda: household.api(listening)}, API_GRACE_SECONDS)
        names = [f"drone-{number}" for number in range(1, self.staff.drones + 1)]
        commands = {name: household.drone(name, self.staff.slots, self.staff.drones) for name in names}
        if self.staff.flower:
            self._flower = Flower(household, flower_login(self.settings.data_dir))
            commands["flower"] = self._flower.command
        self.supervisor.start(commands, DRONE_GRACE_SECONDS)

    async def _until_ready(self) -> None:
        host = LOOPBACK.get(self.settings.host, self.settings.host)
        service = Service(host, self._port, self.token)
        needed = [child for child in self.supervisor.children if child.name != "flower"]
        await self.supervisor.until(lambda: asyncio.to_thread(service.is_ready), needed, START_SECONDS)
        if self.staff.drones:
            await self.supervisor.until(lambda: asyncio.to_thread(service.drones_up), needed, START_SECONDS)
        if self._flower:
            await self._until_flower(self._flower)

    async def _until_flower(self, flower: Flower) -> None:
        """Flower is a window, not a part: the family goes on without it."""
        children = [child for child in self.supervisor.children if child.name == "flower"]
        try:
            await self.supervisor.until(lambda: asyncio.to_thread(flower.answers), children, FLOWER_SECONDS)
        except StartFailed as error:
            self._tell(f"Flower does not answer yet; everything else does. {error}")

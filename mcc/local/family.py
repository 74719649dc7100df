"""The family: all processes that `mcc up` runs, started in order, supervised, and stopped together."""

import asyncio
import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from mcc.configuration.running import AddedRoots
from mcc.local.child import Child, Notify
from mcc.local.data_dir import flower_login, make_private, opened_store, prepare_directory, upgrade_database
from mcc.local.errors import PortTaken, StartFailed
from mcc.local.presence import Hold, LocalService, Presence, started_now
from mcc.local.programs import ChildCommands, Flower, Staff, workspace_roots
from mcc.local.redis import (
    ConfiguredRedis,
    RedisSource,
    check_configured_redis,
    find_redis,
    forget_installation,
    redis_answers,
    server_arguments,
    socket_in,
    socket_url,
)
from mcc.local.supervisor import Supervisor
from mcc.settings import BadSettings, ServiceSettings, operator_token, refuse_open_door, trigger_secrets

START_SECONDS = 60.0
FLOWER_SECONDS = 15.0

DRONE_GRACE_SECONDS = 2.5
API_GRACE_SECONDS = 1.0
REDIS_GRACE_SECONDS = 1.0
FLOWER_GRACE_SECONDS = 0.3
"""Time to end in order, for each stage; together less than the 5 s within which a family ends."""

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which this machine reaches a service that listens on all addresses."""


def say_nothing(line: str) -> None:
    """The default `notify`: prints nothing."""


class Family:
    """Redis, API, drones and Flower on this machine; `async with Family(…)`, or `family_in_thread` in blocking code.

    `purpose` is published: "up" for a family that stays, "run" for one started for a single order. `search_path`: where
    a Redis is looked for (None = PATH). Entering raises `FamilyError` or `BadSettings`; leaving ends every process
    within 5 s.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        staff: Staff | None = None,
        *,
        purpose: str = "up",
        notify: Notify = say_nothing,
        environment: Mapping[str, str] | None = None,
        search_path: str | None = None,
    ) -> None:
        self.settings = settings
        self.staff = staff or Staff()
        self.token = ""
        self.redis: RedisSource | None = None
        self.supervisor = Supervisor(settings.data_dir / "logs", notify)
        self._purpose = purpose
        self._notify = notify
        self._environment = dict(os.environ if environment is None else environment)
        self._search_path = search_path
        self._port = settings.port
        self._flower: Flower | None = None
        self._cleanup = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        host = LOOPBACK.get(self.settings.host, self.settings.host)
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    @property
    def flower_url(self) -> str | None:
        return self._flower.url if self._flower else None

    @property
    def roots(self) -> Sequence[str]:
        """Directories in which orders may work; empty where mcc.toml has them for drones to read."""
        return workspace_roots(self.settings, self._environment, self.staff.workspaces)

    @property
    def logs(self) -> Path:
        return self.settings.data_dir / "logs"

    def kill(self) -> None:
        """Kill every child now."""
        self.supervisor.kill()

    async def __aenter__(self) -> "Family":
        try:
            await self._start()
        except BaseException:
            await self._cleanup.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cleanup.aclose()

    async def _start(self) -> None:
        refuse_open_door(self.settings)
        # The service would refuse them too, several times over, as it is started again.
        trigger_secrets(self.settings, self._environment)
        # Before anything is started or changed: only one family at a time works on a data directory.
        hold = self._take_hold()
        # The socket is opened here and handed to the service: a port that is taken shows before anything else is
        # started, and a service that is started again keeps its port.
        listening = self._cleanup.enter_context(contextlib.closing(self._listen()))
        self.token = operator_token(self.settings)
        self.redis = find_redis(self.settings.redis_url, search_path=self._search_path)
        problem, done = await asyncio.gather(
            self._commands("").refused_by_drones(), asyncio.to_thread(upgrade_database, self.settings.database)
        )
        if problem:
            raise BadSettings(problem)
        if done:
            self._notify(done)
        await self._cleanup.enter_async_context(self.supervisor)
        redis_url = await self._start_redis(self.redis)
        commands = self._commands(redis_url)
        self._start_children(commands, listening)
        await self._until_ready()
        # After the rest is ready: nothing waits for it, and it may take seconds.
        self._start_flower(commands)
        # Last: who finds the family may use it at once.
        hold.publish(
            Presence(self.url, os.getpid(), self.flower_url, started_now(), self._purpose, redis_url, commands.shared)
        )

    def _commands(self, redis_url: str) -> ChildCommands:
        return ChildCommands.of(self.settings, self._environment, self._run_directory, redis_url, self.staff.workspaces)

    @property
    def _run_directory(self) -> Path:
        return self.settings.data_dir / "run"

    def _take_hold(self) -> Hold:
        prepare_directory(self.settings.data_dir)
        for sentence in make_private(self.settings.data_dir):
            self._notify(sentence)
        hold = Hold.take(self.settings.data_dir)
        self._cleanup.callback(hold.release)
        for directory in (self.logs, self._run_directory, self.settings.data_dir / "redis"):
            prepare_directory(directory)
        added = AddedRoots(self.settings.data_dir)
        added.clear()
        self._cleanup.callback(added.clear)
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
            await asyncio.to_thread(self._check_redis, source.url)
            return source.url
        path = socket_in(self._run_directory)
        if path.parent != self._run_directory:
            self._cleanup.callback(shutil.rmtree, path.parent, ignore_errors=True)
        prefix = self.settings.redis_prefix
        arguments = server_arguments(source.path, path, self.settings.data_dir / "redis", prefix)
        commands = ChildCommands(self.settings, self._environment, self._run_directory)
        children = self.supervisor.start({"redis": lambda: commands.redis(arguments)}, REDIS_GRACE_SECONDS)
        await self.supervisor.until(lambda: asyncio.to_thread(redis_answers, path), children, START_SECONDS)
        await asyncio.to_thread(forget_installation, path, prefix)
        return socket_url(path)

    def _check_redis(self, url: str) -> None:
        from mcc.dispatch.fit import installation_of

        with opened_store(self.settings) as store:
            check_configured_redis(url, self.settings.redis_prefix, installation_of(store))

    def _start_children(self, commands: ChildCommands, listening: socket.socket) -> None:
        """Start API and drones. The API is a stage of its own: it stops after the drones, so viewers see them leave."""
        self.supervisor.start({"api": lambda: commands.api(listening)}, API_GRACE_SECONDS)
        names = [f"drone-{number}" for number in range(1, self.staff.drones + 1)]
        self.supervisor.start(
            {name: commands.drone(name, self.staff.slots, self.staff.drones) for name in names}, DRONE_GRACE_SECONDS
        )

    def _start_flower(self, commands: ChildCommands) -> None:
        """Start Flower, last of all: nothing waits for it, and its start would delay that of the others."""
        if not self.staff.flower:
            return
        self._flower = Flower(commands, flower_login(self.settings.data_dir))
        if sentence := self._flower.elsewhere:
            self._notify(sentence)
        children = self.supervisor.start({"flower": self._flower.command}, FLOWER_GRACE_SECONDS)
        watching = asyncio.create_task(self._watch_flower(self._flower, children))
        self._cleanup.callback(watching.cancel)

    async def _until_ready(self) -> None:
        host = LOOPBACK.get(self.settings.host, self.settings.host)
        service = LocalService(host, self._port, self.token)
        needed = self.supervisor.children
        await self.supervisor.until(lambda: asyncio.to_thread(service.is_ready), needed, START_SECONDS)
        if self.staff.drones:
            await self.supervisor.until(lambda: asyncio.to_thread(service.drones_up), needed, START_SECONDS)

    async def _watch_flower(self, flower: Flower, children: Sequence[Child]) -> None:
        """Print a note where Flower does not answer; everything else works without it."""
        try:
            await self.supervisor.until(lambda: asyncio.to_thread(flower.answers), children, FLOWER_SECONDS)
        except StartFailed as error:
            self._notify(f"Flower does not answer yet; everything else does. {error}")


class FamilyThread:
    """A thread with an event loop for one family. The thread lives as long as the children: the kernel kills a child
    when the thread that started it ends (PR_SET_PDEATHSIG, see launch.py)."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._ready: Future[None] = Future()
        self._begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]] = Future()
        self._thread = threading.Thread(target=self._work, name="family", daemon=True)

    def enter(self) -> None:
        """Wait until the family is ready. Raises what entering the family raises."""
        self._thread.start()
        self._ready.result()

    def leave(self) -> None:
        """Stop the family, ready or not, and wait until all its processes have ended."""
        if self._begun.cancel():
            return  # Ctrl-C came before the thread began, if it ever does: it then starts nothing.
        loop, task = self._begun.result()
        if task is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join()

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _run(self) -> None:
        if not self._begun.set_running_or_notify_cancel():
            return
        self._begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        with contextlib.suppress(asyncio.CancelledError):
            async with self._family:
                self._ready.set_result(None)
                await asyncio.Event().wait()


@contextmanager
def family_in_thread(family: Family) -> Iterator[Family]:
    """Run a family while the block runs, for blocking code. Raises `FamilyError` or `BadSettings`."""
    thread = FamilyThread(family)
    try:
        thread.enter()
        yield family
    finally:
        thread.leave()

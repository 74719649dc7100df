"""The programs that `mcc up` runs: command line and environment of each child process, and the port of Flower."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcc.configuration.file import NAMED_BY, OVERLAY_NAMED_BY
from mcc.configuration.places import as_text, paths_in
from mcc.configuration.settings import absolute
from mcc.local.child import ChildCommand
from mcc.local.presence import LocalService
from mcc.local.redis import reachable_first
from mcc.settings import ServiceSettings, token_file

DRAIN_CANCEL_SECONDS = 0.8
DRAIN_HAND_BACK_SECONDS = 1.6
"""A family must end within 5 s, so its drones hand their orders back sooner than drones that are run by themselves."""

SILENT_LEASES = 2
"""A drone without a heartbeat for this many lease times is killed and started again."""

OWN_PREFIXES = ("FLOWER_", "MCC_")
"""Prefixes of variables that children do not inherit: the family sets them itself."""

SHARED_WITH_DRONES = (
    "DATABASE_URL",
    "DATABASE_POOLER",
    "DATABASE_PREPARED",
    "REDIS_URL",
    "REDIS_PREFIX",
    "DATA_DIR",
    "PROMPTS_DIR",
    "QUEUES",
    "LEASE_SECONDS",
    "RENEW_SECONDS",
    "SWEEP_SECONDS",
    "NAME",
    "WORKSPACE_ROOTS",
    "FLOWER_TITLES",
)
"""Settings whose `DRONE_` variables drones do not inherit: the family sets them, by `MCC_` variables or options."""

SHELL_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
"""The only variables that the embedded Redis inherits."""

SERVICE_PREFIXES = ("LC_", "LD_", "PG", "PYTHON", "SSL_CERT_", "XDG_", *OWN_PREFIXES)
"""Prefixes of variables that API and Flower inherit besides: the keys of providers are for drones alone."""

PRIVATE_UMASK = 0o077
"""umask of children that write only to the data directory; drones keep the user's, for files in workspaces."""


FLOWER_HOST = "127.0.0.1"
PORTS_TRIED = 20


MANY_CORES = 4
"""With this many cores or more, one is left to API, Redis and Flower."""


def drones_for(cores: float) -> int:
    """How many drones use a machine with so many cores: a drone is one event loop, and so uses one core."""
    count = max(1, int(cores))
    return count - 1 if count >= MANY_CORES else count


@dataclass(frozen=True, slots=True)
class Staff:
    """Which children a family has: drones, with `slots` orders at a time each (None = as configured), and Flower.

    `workspaces`: directories in which orders may work besides the configured ones.
    """

    drones: int = 1
    slots: int | None = None
    flower: bool = True
    workspaces: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildCommands:
    """The commands of one family's children. `directory`: their working directory, a private one, so that they import
    nothing from the directory in which the family was started."""

    settings: ServiceSettings
    environment: Mapping[str, str]
    directory: Path

    @classmethod
    def of(
        cls,
        settings: ServiceSettings,
        inherited: Mapping[str, str],
        directory: Path,
        redis_url: str,
        workspaces: Sequence[Path] = (),
    ) -> "ChildCommands":
        environment = {
            name: value
            for name, value in inherited.items()
            if not name.startswith(OWN_PREFIXES)
            and name not in {f"DRONE_{name_shared}" for name_shared in SHARED_WITH_DRONES}
        }
        environment |= _settings_of(settings, redis_url)
        environment["PYTHONUNBUFFERED"] = "1"
        for name, file in ((NAMED_BY, settings.configuration.own), (OVERLAY_NAMED_BY, settings.configuration.trusted)):
            if file is not None:
                environment[name] = str(file)
        if roots := workspace_roots(settings, inherited, workspaces):
            environment["MCC_WORKSPACE_ROOTS"] = as_text(roots)
        return cls(settings, environment, directory)

    def redis(self, arguments: Sequence[str]) -> ChildCommand:
        environment = {name: value for name, value in self.environment.items() if name in SHELL_VARIABLES}
        return ChildCommand(arguments, environment, self.directory, umask=PRIVATE_UMASK)

    def api(self, listening: socket.socket) -> ChildCommand:
        """`mcc serve` on a socket that is open already: while the API restarts, connections wait instead of failing."""
        arguments = _module_command("mcc.cli.main", "serve", "--socket", str(listening.fileno()))
        settings = self.settings
        tokens = {"MCC_TOKEN": settings.token, "MCC_METRICS_TOKEN": settings.metrics_token}
        chosen = {name: token.get_secret_value() for name, token in tokens.items() if token is not None}
        if settings.metrics_token_file is not None:
            chosen["MCC_METRICS_TOKEN_FILE"] = str(settings.metrics_token_file)
        secrets = {name: value for name, value in self.environment.items() if name in settings.own_secret_names}
        environment = {**self._without_keys, **secrets, **chosen}
        descriptors = (listening.fileno(),)
        return ChildCommand(arguments, environment, self.directory, descriptors, umask=PRIVATE_UMASK)

    def drone(self, name: str, slots: int | None, shares: int = 1) -> Callable[[], ChildCommand]:
        """`drone work` under this name. `shares`: how many drones share the machine's memory."""
        settings = {
            "DRONE_MEMORY_SHARES": str(shares),
            "DRONE_DRAIN_CANCEL_SECONDS": str(DRAIN_CANCEL_SECONDS),
            "DRONE_DRAIN_HAND_BACK_SECONDS": str(DRAIN_HAND_BACK_SECONDS),
        }
        if self.settings.token:
            settings["MCC_TOKEN"] = self.settings.token.get_secret_value()
        wanted = [] if slots is None else ["--slots", str(slots)]
        arguments = _module_command("drone.cli", "work", "--name", name, *wanted)
        silent_seconds = SILENT_LEASES * self.settings.lease_seconds
        # The user's own DRONE_ variables win over the family's.
        environment = {**settings, **self._of_drones}
        return lambda: ChildCommand(arguments, environment, self.directory, silent_seconds=silent_seconds)

    async def refused_by_drones(self) -> str:
        """Why drones would refuse to start with this configuration, parts of which only they read; "" if they start."""
        process = await asyncio.create_subprocess_exec(
            *_module_command("drone.cli", "check"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=dict(self._of_drones),
            cwd=self.directory,
        )
        try:
            _, problem = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            raise
        return "" if process.returncode == 0 else problem.decode("utf-8", "replace").strip()

    def flower(self, port: int, login: str) -> ChildCommand:
        """Flower, with a password from its environment, as command lines are public. Without a password any web page
        in the user's browser could call it."""
        arguments = _module_command(
            "celery",
            "-A",
            "drone.worker.app",
            "flower",
            "--address=127.0.0.1",
            f"--port={port}",
            "--max-tasks=5000",
            "--purge-offline-workers=300",
            "--tasks-columns=uuid,state,args,result,exception,received,runtime,worker",
        )
        redis_url = reachable_first(self.environment["MCC_REDIS_URL"])
        environment = {**self._without_keys, "FLOWER_BASIC_AUTH": login, "MCC_REDIS_URL": redis_url}
        return ChildCommand(arguments, environment, self.directory, umask=PRIVATE_UMASK)

    @property
    def shared(self) -> Mapping[str, str]:
        """The variables for a drone that is started beside this family."""
        return {name: value for name, value in self.environment.items() if name.startswith("MCC_")}

    @property
    def _of_drones(self) -> Mapping[str, str]:
        """All but the secrets of the service: agents work in the processes of drones."""
        settings = self.settings
        of_forges = (forge.token_env for forge in settings.forges.values())
        hidden = settings.own_secret_names.difference(of_forges, (git.token_env for git in settings.workspaces.git))
        return {name: value for name, value in self.environment.items() if name not in hidden}

    @property
    def _without_keys(self) -> Mapping[str, str]:
        return {
            name: value
            for name, value in self.environment.items()
            if name in SHELL_VARIABLES or name.startswith(SERVICE_PREFIXES)
        }


class Flower:
    """Flower of a family, on the configured port or the next free one, which is looked for at each restart."""

    def __init__(self, commands: ChildCommands, login: str) -> None:
        self._commands = commands
        self._login = login
        self._port = free_port(commands.settings.flower_port)

    @property
    def url(self) -> str:
        return f"http://{FLOWER_HOST}:{self._port}"

    @property
    def elsewhere(self) -> str:
        """A sentence that says that Flower is not on the configured port; "" where it is."""
        wanted = self._commands.settings.flower_port
        return f"Port {wanted} is in use, so Flower is at {self.url}." if wanted not in (0, self._port) else ""

    def command(self) -> ChildCommand:
        self._port = free_port(self._port)
        return self._commands.flower(self._port, self._login)

    def answers(self) -> bool:
        """Whether Flower's health check, which needs no login, answers."""
        return LocalService(FLOWER_HOST, self._port).get("/healthcheck")[0] == 200


def workspace_roots(
    settings: ServiceSettings, inherited: Mapping[str, str], workspaces: Sequence[Path] = ()
) -> Sequence[str]:
    """The directories in which this family's orders may work: the configured ones, else the current one, and
    `workspaces`.

    Empty where only mcc.toml configures them, under [drone]: drones read that themselves.
    """
    configured = settings.configuration.table("drone").get("workspace_roots")
    if named := inherited.get("DRONE_WORKSPACE_ROOTS"):
        roots = [str(Path(part).absolute()) for part in paths_in(named)]
    elif settings.workspace_roots:
        roots = [str(root) for root in settings.workspace_roots]
    elif configured is None:
        roots = [str(Path.cwd())]
    elif workspaces:
        roots = [
            str(absolute(Path(part))) for part in (paths_in(configured) if isinstance(configured, str) else configured)
        ]
    else:
        return []
    return list(dict.fromkeys((*roots, *map(str, workspaces))))


def _settings_of(settings: ServiceSettings, redis_url: str) -> dict[str, str]:
    chosen = {
        "MCC_DATABASE_URL": settings.database_url,
        "MCC_DATABASE_POOLER": settings.database_pooler,
        "MCC_DATABASE_PREPARED": "on" if settings.database_prepared else "off",
        "MCC_REDIS_URL": redis_url,
        "MCC_REDIS_PREFIX": settings.redis_prefix,
        "MCC_DATA_DIR": str(settings.data_dir),
        "MCC_TOKEN_FILE": str(token_file(settings)),
        "MCC_HOST": settings.host,
        "MCC_PORT": str(settings.port),
        "MCC_QUEUES": ",".join(settings.queues),
        "MCC_ALLOWED_HOSTS": ",".join(settings.allowed_hosts),
        "MCC_LEASE_SECONDS": f"{settings.lease_seconds:g}",
        "MCC_RENEW_SECONDS": f"{settings.renew_seconds:g}",
        "MCC_SWEEP_SECONDS": f"{settings.sweep_seconds:g}",
        "MCC_DISK_RESERVE_MB": f"{settings.disk_reserve_mb:g}",
        "MCC_MAX_QUEUED_ORDERS": str(settings.max_queued_orders),
        "MCC_FLOWER_TITLES": "on" if settings.flower_titles else "off",
    }
    if settings.prompts_dir is not None:
        chosen["MCC_PROMPTS_DIR"] = str(settings.prompts_dir)
    return chosen


def _module_command(module: str, *arguments: str) -> Sequence[str]:
    """The command that runs a module of this installation; -P keeps the current directory out of the import path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def free_port(port: int) -> int:
    """`port` or the next free one within PORTS_TRIED; for 0, and where none of these is free, any free port."""
    tries = range(port, min(port + PORTS_TRIED, 65_536)) if port else ()
    for one in (*tries, 0):
        with contextlib.suppress(OSError), socket.create_server((FLOWER_HOST, one)) as probe:
            return int(probe.getsockname()[1])
    return port

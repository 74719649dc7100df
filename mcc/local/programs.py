"""This room is for what a family consists of: the command line and the environment of each child."""

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcc.api.token import token_file
from mcc.configuration.file import NAMED_BY, OVERLAY_NAMED_BY
from mcc.configuration.lists import as_text, paths_in
from mcc.local.child import Command
from mcc.settings import Settings

DRAIN_CANCEL_SECONDS = 0.8
DRAIN_HAND_BACK_SECONDS = 1.6
"""A family must be gone in 5 s, so its drones hand their orders back sooner than those that a service stops."""

SILENT_LEASES = 2
"""A drone that gives no sign of life for so many leases is killed and started again."""

OWN_NAMES = ("FLOWER_", "MCC_")
"""Prefixes that children do not inherit: what counts of them is told anew."""

SHARED_WITH_DRONES = (
    "DATABASE_URL",
    "REDIS_URL",
    "DATA_DIR",
    "PROMPTS_DIR",
    "QUEUES",
    "LEASE_SECONDS",
    "RENEW_SECONDS",
    "SWEEP_SECONDS",
    "NAME",
    "WORKSPACE_ROOTS",
)
"""`DRONE_` names that a family decides for its drones."""

FROM_THE_SHELL = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
"""All that a Redis of ours is given of the environment."""

OF_SERVICES = ("LC_", "LD_", "PG", "PYTHON", "SSL_CERT_", "XDG_", *OWN_NAMES)
"""Prefixes of what API and Flower are given beside that: the keys of providers are for drones alone."""

FOR_OUR_OWN_EYES = 0o077
"""umask of children that write into the data dir only; what drones write into workspaces is their user's affair."""


@dataclass(frozen=True, slots=True)
class Staff:
    """How many drones with how many slots each (None = as configured), and whether there is a Flower."""

    drones: int = 1
    slots: int | None = None
    flower: bool = True


@dataclass(frozen=True, slots=True)
class Household:
    """What all children of one family share. `directory` is where they work: private, so that nothing is imported from
    the place where the family was started."""

    settings: Settings
    environment: Mapping[str, str]
    directory: Path

    @classmethod
    def of(cls, settings: Settings, inherited: Mapping[str, str], directory: Path, redis_url: str) -> "Household":
        environment = {
            name: value
            for name, value in inherited.items()
            if not name.startswith(OWN_NAMES) and name not in {f"DRONE_{own}" for own in SHARED_WITH_DRONES}
        }
        environment |= _told(settings, redis_url)
        environment["PYTHONUNBUFFERED"] = "1"
        for name, file in ((NAMED_BY, settings.configuration.own), (OVERLAY_NAMED_BY, settings.configuration.trusted)):
            if file is not None:
                environment[name] = str(file)
        if roots := workspace_roots(settings, inherited):
            environment["MCC_WORKSPACE_ROOTS"] = as_text(roots)
        return cls(settings, environment, directory)

    def redis(self, arguments: Sequence[str]) -> Command:
        environment = {name: value for name, value in self.environment.items() if name in FROM_THE_SHELL}
        return Command(arguments, environment, self.directory, umask=FOR_OUR_OWN_EYES)

    def api(self, listening: socket.socket) -> Command:
        """`mcc serve` on a socket that is open already, so that callers wait through a restart instead of failing."""
        arguments = _python("mcc.cli.main", "serve", "--socket", str(listening.fileno()))
        token = self.settings.token
        chosen = {"MCC_TOKEN": token.get_secret_value()} if token else {}
        environment = {**self._without_keys, **chosen}
        descriptors = (listening.fileno(),)
        return Command(arguments, environment, self.directory, descriptors, umask=FOR_OUR_OWN_EYES)

    def drone(self, name: str, slots: int | None, shares: int = 1) -> Callable[[], Command]:
        """`shares`: how many drones of the family the machine's memory is for."""
        own = {
            "DRONE_MEMORY_SHARES": str(shares),
            "DRONE_DRAIN_CANCEL_SECONDS": str(DRAIN_CANCEL_SECONDS),
            "DRONE_DRAIN_HAND_BACK_SECONDS": str(DRAIN_HAND_BACK_SECONDS),
        }
        if self.settings.token:
            own["MCC_TOKEN"] = self.settings.token.get_secret_value()
        wanted = [] if slots is None else ["--slots", str(slots)]
        arguments = _python("drone.cli", "work", "--name", name, *wanted)
        silent_seconds = SILENT_LEASES * self.settings.lease_seconds
        environment = {**own, **self.environment}
        return lambda: Command(arguments, environment, self.directory, silent_seconds=silent_seconds)

    def flower(self, port: int, login: str) -> Command:
        """Flower behind a password, which is not on the command line; without one any web page could talk to it."""
        arguments = _python(
            "celery",
            "-A",
            "drone.worker.app",
            "flower",
            "--address=127.0.0.1",
            f"--port={port}",
            "--max-tasks=5000",
            "--purge-offline-workers=300",
        )
        environment = {**self._without_keys, "FLOWER_BASIC_AUTH": login}
        return Command(arguments, environment, self.directory, umask=FOR_OUR_OWN_EYES)

    @property
    def _without_keys(self) -> Mapping[str, str]:
        return {
            name: value
            for name, value in self.environment.items()
            if name in FROM_THE_SHELL or name.startswith(OF_SERVICES)
        }


def workspace_roots(settings: Settings, inherited: Mapping[str, str]) -> Sequence[str]:
    """The directories in which this family's orders may work: the configured ones, else the current one.

    Empty when mcc.toml names them for drones: those read it themselves.
    """
    if named := inherited.get("DRONE_WORKSPACE_ROOTS"):
        return [str(Path(part).absolute()) for part in paths_in(named)]
    if settings.workspace_roots:
        return [str(root) for root in settings.workspace_roots]
    if "workspace_roots" in settings.configuration.table("drone"):
        return []
    return [str(Path.cwd())]


def _told(settings: Settings, redis_url: str) -> dict[str, str]:
    told = {
        "MCC_DATABASE_URL": settings.database_url,
        "MCC_REDIS_URL": redis_url,
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
    }
    if settings.prompts_dir is not None:
        told["MCC_PROMPTS_DIR"] = str(settings.prompts_dir)
    return told


def _python(module: str, *arguments: str) -> Sequence[str]:
    """A module of ours or of our environment, never one of the directory that we happen to be in (-P)."""
    return [sys.executable, "-P", "-m", module, *arguments]

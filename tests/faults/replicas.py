"""A Redis with a replica, and the Sentinels that watch them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.faults.members import Launched, Member, clean_environment, until
from tests.faults.services import REDIS_SERVER, Redis
from tests.ports import free_port

MASTER = "main"
PASSWORD = "p@ss/w#rd"
DOWN_MILLISECONDS = 1_000


def role_of(server: Redis) -> bytes:
    """Empty while it does not answer: a server closes its connections when its role changes."""
    try:
        role: bytes = server.command("ROLE")[0]
    except redis.RedisError:
        return b""
    return role


def follow(replica: Redis, master: Redis) -> None:
    """Make one the replica of the other, and wait until it has all that the other had."""
    replica.command("REPLICAOF", "127.0.0.1", str(master.port))
    until(lambda: b"connected" in replica.command("ROLE"), 20.0, "the replica follows")


def swap(master: Redis, replica: Redis) -> None:
    """Exchange the roles; all connections stay open."""
    replica.command("REPLICAOF", "NO", "ONE")
    follow(master, replica)


class Watched:
    """Two servers and three Sentinels, which promote the replica when the master does not answer for a second."""

    def __init__(self, directory: Path) -> None:
        self._bare = clean_environment(directory)
        self._directory = directory
        self.servers = [self._server(name) for name in ("one", "two")]
        self.ports = [free_port() for _ in range(3)]
        self._sentinels = [self._sentinel(number, port) for number, port in enumerate(self.ports, 1)]

    @property
    def url(self) -> str:
        """The address of all Sentinels."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"sentinel://{hosts}/{MASTER}?db=1"

    def start(self) -> None:
        for server in self.servers:
            server.start()
        follow(self.servers[1], self.servers[0])
        for sentinel in self._sentinels:
            sentinel.start()
        until(lambda: all(self._sees_all(port) for port in self.ports), 30.0, "the Sentinels see each other")

    def end(self) -> None:
        for member in (*self._sentinels, *(server.member for server in self.servers)):
            member.end()

    def master(self) -> Redis:
        """The server that the Sentinels name."""
        port = int(self._asked(self.ports[0], "GET-MASTER-ADDR-BY-NAME", MASTER)[1])
        return next(server for server in self.servers if server.port == port)

    def fail_over(self) -> float:
        """Kill the master, and wait until the other server can be written. Answers when that was (monotonic)."""
        lost = self.master()
        [other] = [server for server in self.servers if server is not lost]
        lost.member.kill()
        until(lambda: role_of(other) == b"master", 30.0, "the replica is promoted")
        return time.monotonic()

    def come_back(self, server: Redis) -> None:
        """Start a lost server again; the Sentinels make it a replica."""
        server.start()
        until(lambda: role_of(server) == b"slave", 30.0, "the lost server is a replica")

    def _server(self, name: str) -> Redis:
        private = self._directory / name
        private.mkdir()
        return Redis(private, self._directory, self._bare, {"repl-diskless-sync-delay": "0"})

    def _sentinel(self, number: int, port: int) -> Member:
        assert REDIS_SERVER is not None
        settings = self._directory / f"sentinel-{number}.conf"
        settings.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {self._directory}\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {self.servers[0].port} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {DOWN_MILLISECONDS}\n"
            f"sentinel failover-timeout {MASTER} 5000\n"
        )
        arguments = [REDIS_SERVER, str(settings), "--sentinel"]
        return Member(f"sentinel-{number}", Launched(arguments), self._bare, self._directory / f"sentinel-{number}.log")

    def _sees_all(self, port: int) -> bool:
        try:
            others = self._asked(port, "SENTINELS", MASTER)
            return len(others) == 2 and len(self._asked(port, "REPLICAS", MASTER)) == 1
        except redis.RedisError:
            return False

    def _asked(self, port: int, *words: str) -> Sequence[str]:
        with redis.Redis(port=port, socket_timeout=5.0, decode_responses=True) as client:
            answer: Sequence[str] = client.execute_command(f"SENTINEL {words[0]}", *words[1:])
            return answer


@contextmanager
def watched(directory: Path) -> Iterator[Watched]:
    made = Watched(directory)
    try:
        made.start()
        yield made
    finally:
        made.end()

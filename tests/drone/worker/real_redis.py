"""A Redis for one test: on a private unix socket, deleted afterwards."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
WHY_NOT = "neither redis-server nor valkey-server is on PATH"


class RealRedis:
    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert SERVER is not None
        arguments = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir", str(self.socket.parent)]
        self._process = subprocess.Popen([SERVER, *arguments], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(redis.RedisError), redis.Redis.from_url(self.url) as client:
                client.ping()
                return
        raise AssertionError("redis-server did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def own_redis() -> Iterator[RealRedis]:
    with tempfile.TemporaryDirectory(prefix="mcc-", dir="/tmp") as folder:
        server = RealRedis(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()

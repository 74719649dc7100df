"""Service, drone and command line of this version or the next, as processes of their own on one data directory."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcc.client import MCC
from mcc.local.redis import RedisBinary, find_redis, redis_answers, server_arguments, socket_url
from tests.forking import popen
from tests.next_version import said
from tests.ports import free_port
from tests.waiting import until

TOKEN = "0" * 40
FOREIGN = ("MCC_", "DRONE_", "ANTHROPIC_", "OPENAI_", "OPENROUTER_", "OLLAMA_")


@contextmanager
def redis_server() -> Iterator[str]:
    """An own Redis on a socket; its address."""
    binary = find_redis(None)
    assert isinstance(binary, RedisBinary)
    with tempfile.TemporaryDirectory(prefix="mcc-") as directory:
        address = Path(directory) / "redis.sock"
        server = subprocess.Popen(server_arguments(binary.path, address, Path(directory)), stdout=subprocess.DEVNULL)
        try:
            until(lambda: redis_answers(address), "an own Redis answers")
            yield socket_url(address)
        finally:
            server.kill()
            server.wait()


@dataclass(frozen=True)
class Place:
    """Where both versions work: data directory, workspace, Redis."""

    data_dir: Path
    workspace: Path
    redis: str

    @property
    def url(self) -> str:
        return f"sqlite:///{self.data_dir / 'mcc.db'}"

    def furnish(self, held: float) -> None:
        """Workspace, script and configuration; `held`: how long the replies take that nobody shall see."""
        for path, text in said.HARBOUR.items():
            (self.workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / path).write_text(text)
        self.data_dir.mkdir(exist_ok=True)
        self.say(held)
        (self.data_dir / "mcc.toml").write_text(
            f'[models.harbour]\nprovider = "scripted"\nmodel = "{self.data_dir / "script.json"}"\n'
            '[defaults]\nmodel = "harbour"\n'
        )

    def say(self, held: float) -> None:
        (self.data_dir / "script.json").write_text(json.dumps(said.script(held)))

    def environment(self, packages: Path | None) -> dict[str, str]:
        """That of programs of this version, or of the one in `packages`."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return {
            **plain,
            **({} if packages is None else {"PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"}),
            "MCC_CONFIG": str(self.data_dir / "mcc.toml"),
            "MCC_DATA_DIR": str(self.data_dir),
            "MCC_REDIS_URL": self.redis,
            "MCC_TOKEN": TOKEN,
            "MCC_WORKSPACE_ROOTS": str(self.workspace),
            "DRONE_WORKSPACE_ROOTS": str(self.workspace),
            "DRONE_PARK_AFTER_SECONDS": "0.5",
        }

    def mcc(self, *arguments: str, packages: Path | None = None) -> str:
        """What `mcc` prints. Raises CalledProcessError."""
        command = [sys.executable, "-m", "mcc.cli.main", *arguments]
        done = popen.run(
            command, env=self.environment(packages), cwd=self.data_dir, check=True, stdout=subprocess.PIPE, text=True
        )
        return str(done.stdout)


@dataclass(frozen=True)
class Programs:
    mcc: MCC
    drone: "subprocess.Popen[bytes]"


@contextmanager
def programs(place: Place, packages: Path | None = None) -> Iterator[Programs]:
    """A service and a drone; both are ended at the end, the drone without a chance to hand anything back."""
    place.mcc("db", "upgrade", packages=packages)
    port, environment = free_port(), place.environment(packages)

    def start(*arguments: str) -> "subprocess.Popen[bytes]":
        return popen.Popen([sys.executable, "-m", *arguments], env=environment, cwd=place.data_dir)

    service = start("mcc.cli.main", "serve", "--port", str(port))
    drone = start("drone.cli", "work", "--name", "drone-1")
    try:
        with MCC(f"http://127.0.0.1:{port}", token=TOKEN) as mcc:
            until(lambda: answers(mcc), "the service answers")
            yield Programs(mcc, drone)
    finally:
        service.send_signal(signal.SIGTERM)
        drone.kill()
        drone.wait()
        service.wait()


def answers(mcc: MCC) -> bool:
    try:
        mcc.orders.list()
    except Exception:
        return False
    return True

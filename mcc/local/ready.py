"""This room is for asking whether a part of the family answers yet."""

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcc.local.errors import NoRedis

PATIENCE_SECONDS = 2.0


def redis_answers(path: Path) -> bool:
    """One PING over the unix socket at `path`; False while the server is not there or still loads its file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(PATIENCE_SECONDS)
        try:
            link.connect(str(path))
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def check_configured_redis(url: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Raises `NoRedis` when the Redis that someone else runs does not answer."""
    from redis import RedisError

    from mcc.dispatch.connection import connect

    try:
        with connect(url, seconds=seconds) as link:
            link.ping()
    except (RedisError, ValueError, OSError) as error:
        raise NoRedis(
            f"The configured Redis does not answer ({error}). Start it or correct MCC_REDIS_URL; "
            "without that setting an embedded one is used."
        ) from error


@dataclass(frozen=True, slots=True)
class Service:
    """An HTTP service on this machine, asked without a proxy; `token` may be empty."""

    host: str
    port: int
    token: str = ""

    def get(self, path: str) -> tuple[int, Any]:
        """Status and decoded JSON of `path`; status 0 when nobody answers."""
        link = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            link.request("GET", path, headers=headers)
            answer = link.getresponse()
            return answer.status, _decoded(answer.read())
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            link.close()

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def drones_up(self) -> int:
        """How many drones are registered and neither draining nor silent."""
        status, body = self.get("/api/v1/drones")
        if status != 200:
            return 0
        drones = body.get("items", []) if isinstance(body, Mapping) else body
        return sum(1 for drone in drones if drone.get("status") == "up")


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None

"""What must be ready before a family is: the database's schema, and the API with its drones."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcc.local.errors import UnusableDatabase

PATIENCE_SECONDS = 2.0


def upgrade_database(url: str) -> str | None:
    """Migrate the database at `url` to this version's schema; answers a sentence, None when there was nothing to do.

    Raises `UnusableDatabase`.
    """
    from alembic.util import CommandError

    from mcc.store.errors import StoreError
    from mcc.store.migrate import schema_problem, upgrade

    problem: str | None = None
    try:
        problem = schema_problem(url)
        if problem is None:
            return None
        upgrade(url)
    except CommandError as error:
        raise UnusableDatabase(f"The database cannot be used: {problem}.") from error
    except (StoreError, OSError, ValueError) as error:
        if str(error) == problem:
            raise UnusableDatabase(f"The database cannot be used: {problem}.") from error
        raise UnusableDatabase(
            f"The database cannot be prepared ({error}): is it there, can it be written, does anyone hold it locked?"
        ) from error
    return f"The database was brought up to date (before: {problem.partition(':')[0]})."


@dataclass(frozen=True, slots=True)
class Service:
    """An HTTP service on this machine, called without a proxy; `token` may be empty."""

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

"""A complete installation to measure: API, drones and Redis as real processes, with the fake model server."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.workload import fake_provider
from mcc.local.family import Family, family_in_thread
from mcc.local.programs import Staff
from mcc.settings import load

SLOTS = 20

CONFIGURATION = """
[models.fake]
provider = "openai"
base_url = "{address}/v1"
model = "fake"
api_key_env = "FAKE_KEY"
"""


class Installation:
    """A service and its drones on a new data directory, and an HTTP client of the service."""

    def __init__(self, family: Family, client: httpx.Client, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.settings = family.settings
        self._family = family

    def pid(self, name: str) -> int:
        child = next(child for child in self._family.supervisor.children if child.name == name)
        if child.pid is None:
            raise RuntimeError(f"{name} is not running")
        return child.pid

    @property
    def drone(self) -> int:
        return self.pid("drone-1")

    @property
    def drones(self) -> Sequence[int]:
        """The process ids of the drones."""
        return [self.pid(child.name) for child in self._family.supervisor.children if child.name.startswith("drone-")]

    @property
    def service(self) -> int:
        return self.pid("api")

    def place(self, prompt: str, **fields: object) -> str:
        """Place an order with the model `fake`; answers its id."""
        order = {"prompt": prompt, "model": "fake", **fields}
        answer = self.client.post("/orders", json=order).raise_for_status()
        order_id: str = answer.json()["id"]
        return order_id

    def until_done(self) -> None:
        """Wait until every order has ended."""
        statuses = ("queued", "running", "waiting")
        while any(self.client.get("/orders", params={"status": one, "limit": 1}).json()["items"] for one in statuses):
            time.sleep(0.2)

    def order(self, order_id: str) -> dict[str, Any]:
        order: dict[str, Any] = self.client.get(f"/orders/{order_id}").raise_for_status().json()
        return order


@contextmanager
def installed(drones: int = 1, *, slots: int = SLOTS, database_url: str | None = None) -> Iterator[Installation]:
    """Start an installation with the fake model server. `database_url`: an empty database; None = a new SQLite file."""
    with TemporaryDirectory(prefix="mcc-") as folder, fake_provider() as address:
        data, work = Path(folder) / "data", Path(folder) / "work"
        for directory in (data, work):
            directory.mkdir(mode=0o700)
        configuration = data / "mcc.toml"
        configuration.write_text(CONFIGURATION.format(address=address), "utf-8")
        environment = {**os.environ, "FAKE_KEY": "benchmark"}
        own = {} if database_url is None else {"database_url": database_url}
        settings = load(data_dir=data, port=0, host="127.0.0.1", workspace_roots=(work,), **own)
        staff = Staff(drones=drones, flower=False, slots=slots)
        family = Family(settings, staff, purpose="run", environment=environment)
        with family_in_thread(family):
            headers = {"Authorization": f"Bearer {family.token}"}
            with httpx.Client(base_url=f"{family.url}/api/v1", headers=headers, timeout=120) as client:
                yield Installation(family, client, work)

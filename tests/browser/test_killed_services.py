"""The service as a process of its own, killed in the midst of what its viewers are told: nothing is lost or doubled."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from mcc.contracts.journal import ToolStarted
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from tests.browser.conftest import AWAY, OpenPage
from tests.browser.seeds import child, child_of, place, say
from tests.ports import free_port
from tests.waiting import until

pytestmark = pytest.mark.group("serve")

CODE = "import sys; from mcc.api.serve import serve; from mcc.settings import load; sys.exit(serve(load()))"
AGENTS = ("scout", "review")


class Process:
    """`python` serves the database of `data_dir` until it is killed."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    @property
    def token(self) -> str:
        return (self._data_dir / "token").read_text().strip()

    def start(self) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
        place = {"MCC_DATA_DIR": str(self._data_dir), "MCC_PORT": str(self._port)}
        environment = own | place | {"MCC_REDIS_URL": "redis://127.0.0.1:1/0"}
        with (self._data_dir / "service.log").open("ab") as log:
            self._process = subprocess.Popen([sys.executable, "-c", CODE], env=environment, stdout=log, stderr=log)
        until(self._is_up, f"the service is up; {self._data_dir}/service.log says more")

    def _is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").is_success
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """By SIGKILL, with which no process tidies up."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    upgrade(f"sqlite:///{tmp_path}/mcc.db")
    made = open_store(f"sqlite:///{tmp_path}/mcc.db")
    yield made
    made.close()


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    process.start()
    yield process
    process.kill()


def speak(held: HeldOrder, numbers: range) -> None:
    """Both subagents, one after the other, say each number."""
    for number in numbers:
        for agent in AGENTS:
            say(held, f"{agent} says {number}.", child(held, agent, agent), at_round=number)


def test_a_service_that_was_killed_while_agents_speak_loses_and_doubles_nothing(
    store: Store, served: Process, open_page: OpenPage, expected: list[re.Pattern[str]]
) -> None:
    expected.append(AWAY)
    held = HandDrone(store).claim(place(store, "Look at it from two sides"))
    held.start()
    for agent in AGENTS:
        held.write(
            ToolStarted(call_id=agent, round=1, index=0, name="subagents_run", arguments={}, idempotent=False),
        )
        child_of(held, agent, agent, f"The side of {agent}")
    page = open_page(f"orders/{held.id}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("The side of review")
    speak(held, range(1, 20))
    expect(log).to_contain_text("scout says 10.")
    served.kill()
    speak(held, range(20, 40))
    expect(page.get_by_text("Not connected")).to_be_visible()
    served.start()
    speak(held, range(40, 60))
    for agent in AGENTS:
        # One that nobody sees asks for nothing.
        log.get_by_role("button", name=f"The side of {agent}").scroll_into_view_if_needed()
        expect(log).to_contain_text(f"{agent} says 59.")
    expect(page.get_by_text("Not connected")).to_have_count(0)
    shown = log.inner_text()
    for agent in AGENTS:
        assert re.findall(rf"{agent} says (\d+)\.", shown) == [str(number) for number in range(1, 60)]

"""Flower started by hand: nobody beyond this machine sees it without a login, whichever way it was configured."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from drone.worker.app import OpenToAll, keep_to_loopback

Start = Callable[..., "subprocess.Popen[str]"]


@dataclass
class Given:
    """Options as Flower has read them."""

    address: str = ""
    auth: str = ""
    basic_auth: list[str] | None = field(default=None)


def test_without_an_address_it_is_loopback() -> None:
    for given in (Given(), Given(basic_auth=["a:b"])):
        keep_to_loopback(given)
        assert given.address == "127.0.0.1"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_login(address: str) -> None:
    given = Given(address)
    keep_to_loopback(given)
    assert given.address == address


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7", "::ffff:192.0.2.7", "myhost", "127.0.0.1.evil", "0"])
def test_elsewhere_it_needs_a_login(address: str) -> None:
    for open_to_all in (Given(address), Given(address, basic_auth=[]), Given(address, basic_auth=[""])):
        with pytest.raises(OpenToAll, match="FLOWER_BASIC_AUTH"):
            keep_to_loopback(open_to_all)
    for half in (["name:"], [":password"], ["name"], ["name:password", ""]):
        with pytest.raises(OpenToAll):
            keep_to_loopback(Given(address, basic_auth=half))
    for behind in (Given(address, basic_auth=["a:b"]), Given(address, auth=r".*@example\.com")):
        keep_to_loopback(behind)
        assert behind.address == address


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`celery -A drone.worker.app flower`, as people type it."""
    with ExitStack() as stack:

        def start(*options: str, **environment: str) -> "subprocess.Popen[str]":
            own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "FLOWER_"))}
            told = {"MCC_REDIS_URL": "redis://127.0.0.1:1/0", "MCC_DATA_DIR": str(tmp_path)}
            process = subprocess.Popen(
                [str(Path(sys.executable).parent / "celery"), "-A", "drone.worker.app", "flower", "--port=0", *options],
                cwd=tmp_path,
                env={**own, **told, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


@pytest.mark.parametrize("way", ["--address", "FLOWER_ADDRESS", "flowerconfig.py"])
def test_it_does_not_start_in_the_open(start: Start, tmp_path: Path, way: str) -> None:
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    match way:
        case "--address":
            options = ("--address=0.0.0.0",)
        case "FLOWER_ADDRESS":
            environment = {"FLOWER_ADDRESS": "0.0.0.0"}
        case _:
            (tmp_path / way).write_text('address = "0.0.0.0"\n')
    process = start(*options, **environment)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "does not listen on 0.0.0.0 without a login" in said and "Traceback" not in said


def test_it_starts_on_loopback(start: Start) -> None:
    process = start()
    listening: list[str] = []
    while not listening and process.poll() is None:
        threading.Event().wait(0.05)
        found = psutil.Process(process.pid).net_connections("inet")
        listening = [one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]


def test_its_shut_down_says_that_no_drone_obeys(start: Start) -> None:
    process = start("--basic-auth=name:password", "--address=127.0.0.1")
    listening: list[int] = []
    while not listening and process.poll() is None:
        threading.Event().wait(0.05)
        found = psutil.Process(process.pid).net_connections("inet")
        listening = [one.laddr.port for one in found if one.status == psutil.CONN_LISTEN]
    answer = httpx.post(
        f"http://127.0.0.1:{listening[0]}/api/worker/shutdown/drone@here", auth=("name", "password"), timeout=30
    )
    assert answer.status_code == 403 and "do not obey Shut Down" in answer.text

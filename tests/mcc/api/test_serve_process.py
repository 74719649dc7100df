"""The service as a process: refusing to start, sweeping, and shutting down."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store

pytestmark = pytest.mark.group("serve")

CODE = """
import socket, sys
from mcc.api.serve import serve
from mcc.settings import load
listening = socket.socket(fileno=int(sys.argv[1])) if len(sys.argv) > 1 else None
sys.exit(serve(load(), listening=listening))
"""

REFUSALS = """
import contextlib, io, json, os, sys
from mcc.api.serve import serve
from mcc.settings import load
for own in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = serve(load(os.environ | own))
    print(json.dumps([code, said.getvalue()]))
"""
"""Tries to start the service with one environment after the other; each must prevent the start."""


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
    nowhere = {"MCC_REDIS_URL": "redis://127.0.0.1:1/0"}
    return own | nowhere | {"MCC_DATA_DIR": str(data_dir), **more}


def refusals(data_dir: Path, *environments: dict[str, str]) -> list[tuple[int, str]]:
    """Exit code and output of the service for each environment, all started in one process."""
    done = subprocess.run(
        [sys.executable, "-c", REFUSALS],
        env=environment(data_dir),
        cwd=data_dir,
        input=json.dumps(environments),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [(code, said) for code, said in map(json.loads, done.stdout.splitlines())]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with an empty database of this version."""
    upgrade(f"sqlite:///{tmp_path}/mcc.db")
    return tmp_path


@contextmanager
def serving(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The process and a client with its token. A process that still runs is stopped at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor = listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(descriptor)],
            env=environment(data_dir),
            cwd=data_dir,
            pass_fds=[descriptor],
            stderr=subprocess.PIPE,
            text=True,
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with process, httpx.Client(base_url=url, timeout=60) as client:
        try:
            assert client.get("/readyz").json()["status"] == "ok"
            client.headers["Authorization"] = "Bearer " + (data_dir / "token").read_text().strip()
            yield process, client
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=20)
        finally:
            # Leaving the process's context waits for its end, which a running service never reaches.
            process.kill()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, httpx.Client]]:
    """The data directory of a long-running service, and a client of it."""
    data_dir = tmp_path_factory.mktemp("service")
    upgrade(f"sqlite:///{data_dir}/mcc.db")
    with serving(data_dir) as (_, client):
        yield data_dir, client


def test_what_keeps_a_service_from_starting_is_told_in_a_sentence_with_its_exit_code(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("schema", "address", "open", "port")}
    for place in places.values():
        place.mkdir()
    upgrade(f"sqlite:///{places['port']}/mcc.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        wrong = {
            "schema": {},
            "address": {"MCC_DATABASE_URL": "mongodb://x"},
            "open": {"MCC_HOST": "0.0.0.0"},
            "port": {"MCC_PORT": port},
        }
        answers = refusals(tmp_path, *({"MCC_DATA_DIR": str(places[name]), **own} for name, own in wrong.items()))
    said = {name: sentence for name, (_, sentence) in zip(wrong, answers, strict=True)}
    assert [code for code, _ in answers] == [3, 2, 2, 1]
    assert not any("Traceback" in sentence for sentence in said.values())
    assert "mcc db upgrade" in said["schema"]
    assert "MCC_DATABASE_URL" in said["address"]
    assert "MCC_TOKEN" in said["open"] and not (places["open"] / "token").exists()
    assert "in use" in said["port"] and "MCC_PORT" in said["port"]


def test_without_redis_it_serves_and_says_so_and_ends_with_its_viewers(data_dir: Path) -> None:
    with serving(data_dir) as (process, client):
        assert client.get("/readyz").json()["redis"] == "degraded"
        order_id = client.post("/api/v1/orders", json={"prompt": "x"}).json()["id"]
        with client.stream("GET", f"/api/v1/orders/{order_id}/events") as answer:
            parts = answer.iter_bytes()
            assert next(parts)
            process.send_signal(signal.SIGTERM)
            assert b"order.queued" in b"".join(parts)
            assert process.wait(20) == 0


def test_an_order_is_there_when_the_process_is_killed_after_its_answer(data_dir: Path) -> None:
    with serving(data_dir) as (process, client):
        order_id = client.post("/api/v1/orders", json={"prompt": "x"}).json()["id"]
        process.kill()
    store = open_store(f"sqlite:///{data_dir}/mcc.db")
    assert store.orders.get(order_id).status == "queued"
    store.close()


def test_two_services_on_one_database_make_one_order_of_one_key(service: tuple[Path, httpx.Client]) -> None:
    data_dir, one = service
    with serving(data_dir) as (_, other):
        answers = [
            client.post("/api/v1/orders", json={"prompt": "x"}, headers={"Idempotency-Key": "k"})
            for client in (one, other, one)
        ]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_orders_are_swept_by_the_service(service: tuple[Path, httpx.Client]) -> None:
    _, client = service
    body = {"prompt": "x", "expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))}
    order_id = client.post("/api/v1/orders", json=body).json()["id"]
    with client.stream("GET", f"/api/v1/orders/{order_id}/events") as answer:
        assert '"reason":"expired"' in answer.read().decode()

"""This room is for the service as a process: what it refuses to start with, and how it ends."""

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

from mcc.contracts.order import NewOrder
from mcc.store.migrate import upgrade
from mcc.store.sql import open_store

CODE = """
import socket, sys
from mcc.api.serve import serve
from mcc.settings import load
listening = socket.socket(fileno=int(sys.argv[1])) if len(sys.argv) > 1 else None
sys.exit(serve(load(), listening=listening))
"""


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
    nowhere = {"MCC_REDIS_URL": "redis://127.0.0.1:1/0"}
    return own | nowhere | {"MCC_DATA_DIR": str(data_dir), **more}


def refused(data_dir: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment(data_dir, **more),
        cwd=data_dir,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data dir with an empty database of this version."""
    upgrade(f"sqlite:///{tmp_path}/mcc.db")
    return tmp_path


@contextmanager
def serving(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The process and a caller with its token; stopped at the end if it is still there."""
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
        assert client.get("/readyz").json()["status"] == "ok"
        client.headers["Authorization"] = "Bearer " + (data_dir / "token").read_text().strip()
        yield process, client
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=20)


def test_a_database_without_its_schema_is_told(tmp_path: Path) -> None:
    done = refused(tmp_path)
    assert done.returncode == 1
    assert "mcc db upgrade" in done.stderr and "Traceback" not in done.stderr


def test_a_database_address_that_is_none_is_told(tmp_path: Path) -> None:
    done = refused(tmp_path, MCC_DATABASE_URL="mongodb://x")
    assert done.returncode == 2
    assert "MCC_DATABASE_URL" in done.stderr and "Traceback" not in done.stderr


def test_a_port_in_use_is_told(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = refused(data_dir, MCC_PORT=str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "in use" in done.stderr and "MCC_PORT" in done.stderr and "Traceback" not in done.stderr


def test_listening_to_others_without_a_chosen_token_is_refused(data_dir: Path) -> None:
    done = refused(data_dir, MCC_HOST="0.0.0.0")
    assert done.returncode == 2
    assert "MCC_TOKEN" in done.stderr and not (data_dir / "token").exists()


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


def test_two_services_on_one_database_make_one_order_of_one_key(data_dir: Path) -> None:
    with serving(data_dir) as (_, one), serving(data_dir) as (_, other):
        answers = [
            client.post("/api/v1/orders", json={"prompt": "x"}, headers={"Idempotency-Key": "k"})
            for client in (one, other, one)
        ]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_orders_are_swept_by_the_service(data_dir: Path) -> None:
    store = open_store(f"sqlite:///{data_dir}/mcc.db")
    store.orders.place(NewOrder(prompt="x"), principal="test")
    with serving(data_dir) as (_, client):
        body = {"prompt": "x", "expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))}
        order_id = client.post("/api/v1/orders", json=body).json()["id"]
        with client.stream("GET", f"/api/v1/orders/{order_id}/events") as answer:
            assert '"reason":"expired"' in answer.read().decode()
    store.close()

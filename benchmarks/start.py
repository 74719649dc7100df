"""The way to a drone: from POST to `agent.started` at a viewer, beside bare Celery."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import redis

from benchmarks.plain_celery import PREFIX, REACHED, URL_NAME, app, stamp
from benchmarks.workload import table
from mcc.local.family import Family, family_in_thread
from mcc.local.programs import Staff
from mcc.settings import load

ORDERS = 100
WARM = 5
ANSWER_SECONDS = 30
"""The first task waits until the plain worker has started."""


def main() -> None:
    with TemporaryDirectory(prefix="mcc-") as folder:
        settings = load(data_dir=Path(folder), port=0, host="127.0.0.1")
        with family_in_thread(Family(settings, Staff(flower=False), purpose="run")) as family:
            ours = [_first_word(family.url, family.token) for _ in range(ORDERS + WARM)][WARM:]
            bare = _bare_celery(f"unix://{Path(folder) / 'run' / 'redis.sock'}")
    rows = [
        ("POST answered → agent.started at a viewer", *_percentiles(ours), "p50 <= 25 ms, p99 <= 80 ms"),
        ("Celery alone: enqueue → body", *_percentiles(bare), ""),
    ]
    table(
        f"The way to a drone ({ORDERS} orders, one after the other, idle system)", ("what", "p50", "p99", "hold"), rows
    )


def _first_word(url: str, token: str) -> float:
    """Milliseconds from the answer to POST until a viewer that then connects has read that the agent started."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        order = client.post("/orders", json={"prompt": "Say hello.", "model": "offline"}).raise_for_status().json()
        answered = time.perf_counter()
        with client.stream("GET", f"/orders/{order['id']}/events") as events:
            for line in events.iter_lines():
                if line == "event: agent.started":
                    reached = time.perf_counter()
                if line == "event: order.finished":
                    break
    return (reached - answered) * 1000


def _bare_celery(redis_url: str) -> list[float]:
    """Milliseconds, measured on this machine's monotonic clock, which both processes share."""
    address = redis_url.replace("unix://", "redis+socket://")
    app.conf.broker_url = address
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.plain_celery", "worker", "--pool", "threads"]
    quiet = ["--concurrency", "4", "--loglevel", "ERROR", "--without-gossip", "--without-mingle"]
    worker = subprocess.Popen(
        [*command, *quiet], env={**os.environ, URL_NAME: address}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with redis.Redis.from_url(redis_url, socket_timeout=2 * ANSWER_SECONDS) as answers:
            return [_one_task(answers) for _ in range(ORDERS + WARM)][WARM:]
    finally:
        worker.terminate()
        worker.wait(20)


def _one_task(answers: "redis.Redis") -> float:
    sent = time.monotonic_ns()
    stamp.delay(sent)
    answer = answers.blpop(PREFIX + REACHED, timeout=ANSWER_SECONDS)
    if answer is None:
        raise TimeoutError("the plain Celery worker did not answer")
    began, reached = json.loads(answer[1])
    return (reached - began) / 1e6


def _percentiles(values: Sequence[float]) -> tuple[str, str]:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f} ms", f"{ordered[int(len(ordered) * 0.99)]:.1f} ms"


if __name__ == "__main__":
    main()

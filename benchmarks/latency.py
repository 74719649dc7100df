"""Latency: POST to `agent.started` at a viewer, cancel to the last call, an entry to 500 viewers, and start-up.

    python -m benchmarks.latency [way] [cancel] [viewers] [family]

These are wall-clock times, so load on the machine affects every figure. Plain Celery, measured from enqueue to task
body in the same minutes, shows by how much; the time of a start is printed together with its CPU.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import redis

from benchmarks.plain_celery import PREFIX, REACHED, URL_NAME, app, stamp
from benchmarks.service import CONFIGURATION
from benchmarks.summary import Promise
from benchmarks.workload import fake_provider, table
from mcc.local.family import Family, family_in_thread
from mcc.local.programs import Staff
from mcc.settings import load

ORDERS = 60
WARM = 5
WAITING = (1, 100, 1_000)
CANCELS = 10
VIEWERS = 500
ANSWER_SECONDS = 30
"""The first task waits until the plain Celery worker has started."""

BUCKETS = (5, 7.5, 10, 12, 15, 20, 30, 50, 80, 150, 300)
BAR = 40


@contextmanager
def family() -> Iterator[tuple[Family, Path, float]]:
    """Start a service with one drone; yields the family, its data directory and the seconds its start took.

    The drone serves `default`, one of the two queues. The model `fake` takes 100 ms a call.
    """
    with TemporaryDirectory(prefix="mcc-") as folder, fake_provider() as address:
        data, work = Path(folder) / "data", Path(folder) / "work"
        for directory in (data, work):
            directory.mkdir(mode=0o700)
        (data / "mcc.toml").write_text(CONFIGURATION.format(address=f"{address}/L100/T20/G0"), "utf-8")
        settings = load(data_dir=data, port=0, host="127.0.0.1", workspace_roots=(work,), queues=("default", "another"))
        environment = {**os.environ, "FAKE_KEY": "benchmark", "DRONE_QUEUES": "default"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        began = time.perf_counter()
        with family_in_thread(Family(settings, Staff(flower=False), purpose="run", environment=environment)) as ready:
            yield ready, data, time.perf_counter() - began


def client_of(family: Family) -> httpx.Client:
    headers = {"Authorization": f"Bearer {family.token}"}
    return httpx.Client(base_url=f"{family.url}/api/v1", headers=headers, timeout=60)


def way(family: Family, data: Path) -> list[Promise]:
    """POST to `agent.started`, while orders wait in a queue without drones: they fill tables but block nothing."""
    rows, smallest = [], []
    with client_of(family) as client:
        waiting = 0
        for count in WAITING:
            for _ in range(count - waiting):
                client.post("/orders", json={"prompt": "Wait.", "model": "offline", "queue": "another"})
            waiting = count
            found = [_milliseconds_to_start(client) for _ in range(ORDERS + WARM)][WARM:]
            smallest = smallest or found
            rows.append((f"POST answered → agent.started, {count:,} waiting", *_percentiles(found)))
            histogram(f"{count:,} waiting", found)
    plain = _plain_celery(f"unix://{data / 'run' / 'redis.sock'}")
    rows.append(("plain Celery: enqueue → task body", *_percentiles(plain)))
    table(f"Latency until an agent starts ({ORDERS} orders, one after the other)", ("interval", "p50", "p99"), rows)
    note = f"plain Celery {_percentile(plain, 0.5):.1f} / {_percentile(plain, 0.99):.1f} ms"
    return [
        Promise("POST answered → agent.started, p50", _percentile(smallest, 0.5), 12, "ms", note=note),
        Promise("POST answered → agent.started, p99", _percentile(smallest, 0.99), 30, "ms", note=note),
    ]


def histogram(title: str, milliseconds: Sequence[float]) -> None:
    """Print a text histogram."""
    print(f"\n  {title}")
    lower = 0.0
    for upper in (*BUCKETS, float("inf")):
        count = sum(lower < one <= upper for one in milliseconds)
        bar = "#" * round(BAR * count / len(milliseconds))
        print(f"  {f'<= {upper:g} ms':>12}  {count:4}  {bar}".rstrip())
        lower = upper


def _milliseconds_to_start(client: httpx.Client) -> float:
    """Milliseconds from the response to POST until a viewer, which connects then, reads `agent.started`."""
    order = client.post("/orders", json={"prompt": "Say hello.", "model": "offline"}).raise_for_status().json()
    answered = time.perf_counter()
    with client.stream("GET", f"/orders/{order['id']}/events") as events:
        for line in events.iter_lines():
            if line == "event: agent.started":
                reached = time.perf_counter()
            if line == "event: order.finished":
                break
    return (reached - answered) * 1000


def cancel(family: Family, _: Path) -> list[Promise]:
    """Time from the cancel request until the last call of any agent began, and until the order ended."""
    last_calls, ends = [], []
    with client_of(family) as client:
        for _number in range(CANCELS):
            order = {"prompt": "Do the research. [[master k=4 r=100 agent=explore]]", "model": "fake"}
            path = f"/orders/{client.post('/orders', json=order).raise_for_status().json()['id']}"
            _wait_for(client, path, "model.replied")
            requested = time.time()
            client.post(f"{path}/cancel").raise_for_status()
            _wait_for(client, path, "order.finished")
            entries = client.get(f"{path}/journal").raise_for_status().json()["items"]
            started = [_timestamp(one["at"]) for one in entries if one["kind"] in ("model.started", "tool.started")]
            last_calls.append(max(0.0, max(started) - requested) * 1000)
            ends.append((_timestamp(entries[-1]["at"]) - requested) * 1000)
    rows = [("the last call began", *_percentiles(last_calls)), ("the order ended", *_percentiles(ends))]
    table(f"After cancelling a master with four subagents ({CANCELS} orders)", ("event", "p50", "p99"), rows)
    return [Promise("cancel → no further call starts, p99", _percentile(last_calls, 0.99), 2_000, "ms")]


def _wait_for(client: httpx.Client, path: str, kind: str) -> None:
    with client.stream("GET", f"{path}/events") as events:
        for line in events.iter_lines():
            if line == f"event: {kind}":
                return


def _timestamp(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def viewers(family: Family, _: Path) -> list[Promise]:
    """Time from the creation of an entry until each of many viewers has it. This process reads all of their streams."""
    with client_of(family) as client:
        order = {"prompt": "Do the research. [[master k=2 r=6 agent=explore]]", "model": "fake"}
        path = f"/orders/{client.post('/orders', json=order).raise_for_status().json()['id']}"
        _wait_for(client, path, "model.started")
        client.post(f"{path}/pause").raise_for_status()
        delays = asyncio.run(_delays(family, f"/api/v1{path}/events", lambda: client.post(f"{path}/resume")))
    rows = [(f"{len(delays):,}", *_percentiles(delays), f"{_percentile(delays, 0.95):.0f} ms")]
    table(f"An entry → {VIEWERS} viewers", ("entries read", "p50", "p99", "p95"), rows)
    return [Promise(f"an entry → {VIEWERS} viewers, p95", _percentile(delays, 0.95), 250, "ms")]


async def _delays(family: Family, path: str, resume: Callable[[], object]) -> list[float]:
    """Milliseconds from creation to arrival of each entry written after all viewers connected and the order resumed."""
    host, _, port = family.url.removeprefix("http://").partition(":")
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {family.token}\r\n\r\n".encode()
    received: list[tuple[float, bytes]] = []
    connected = asyncio.Semaphore(0)

    async def watch() -> None:
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
        writer.write(request)
        first = True
        try:
            while line := await reader.readline():
                if first and line.startswith(b"data: "):
                    first = False
                    connected.release()
                if line.startswith(b"data: "):
                    received.append((time.time(), line[6:]))
                elif line.startswith(b"event: order.finished"):
                    received.append((time.time(), (await reader.readline())[6:]))
                    return
        finally:
            writer.close()

    watching = [asyncio.create_task(watch()) for _ in range(VIEWERS)]
    for _ in watching:
        await connected.acquire()
    resumed = time.time()
    await asyncio.to_thread(resume)
    await asyncio.gather(*watching)
    decoded = ((at, json.loads(data)) for at, data in received if b'"at"' in data)
    moments = ((at, _timestamp(entry["at"])) for at, entry in decoded if "at" in entry)
    return [(at - moment) * 1000 for at, moment in moments if moment > resumed]


def start_and_memory(family: Family, seconds: float, earlier: float) -> list[Promise]:
    """Memory of the processes of a family, and the CPU of its start, which took `seconds`.

    `earlier`: what `_cpu_of_ended` answered before it started.
    """
    pids = [child.pid for child in family.supervisor.children if child.pid is not None]
    memory = [_pss(pid) for pid in pids]
    names = [child.name for child in family.supervisor.children]
    tick = os.sysconf("SC_CLK_TCK")
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    cpu = _cpu_of_ended() - earlier + sum(int(stat[11]) + int(stat[12]) for stat in stats) / tick
    rows = [(name, f"{megabytes:.0f} MB") for name, megabytes in zip(names, memory, strict=True)]
    table(f"A family, ready after {seconds:.1f} s, {cpu:.1f} s of CPU", ("process", "PSS"), rows)
    return [
        Promise("mcc up ready", seconds, 3, "s", note=f"{cpu:.1f} s of CPU in all processes"),
        Promise("one family, PSS of its processes", sum(memory), 300, "MB"),
    ]


def _cpu_of_ended() -> float:
    """Seconds of CPU of all children of this process that have ended, those of earlier benchmarks included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _pss(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


PARTS: dict[str, Callable[[Family, Path], list[Promise]]] = {"way": way, "cancel": cancel, "viewers": viewers}


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    chosen = [name for name in PARTS if name in arguments or not arguments]
    earlier = _cpu_of_ended()
    with family() as (ready, data, seconds):
        promises = start_and_memory(ready, seconds, earlier)
        for name in chosen:
            promises += PARTS[name](ready, data)
    return promises


def _plain_celery(redis_url: str) -> list[float]:
    """Milliseconds from enqueue to task body, by the machine's monotonic clock, which both processes share."""
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
    sent_at, reached = json.loads(answer[1])
    return (reached - sent_at) / 1e6


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _percentiles(values: Sequence[float]) -> tuple[str, str]:
    return f"{_percentile(values, 0.5):.1f} ms", f"{_percentile(values, 0.99):.1f} ms"


if __name__ == "__main__":
    main(sys.argv[1:])

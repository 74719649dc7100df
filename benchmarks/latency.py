"""How long people wait: POST to `agent.started` at a viewer, cancel to the last call, an entry to 500 viewers, a start.

    python -m benchmarks.latency [way] [cancel] [viewers] [family]

Wall clocks, so that a busy machine shows in every figure: Celery's own enqueue to body, measured in the same minutes,
says by how much, and the CPU of a start is told beside its time.
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
"""The first task waits until the plain worker has started."""

BUCKETS = (5, 7.5, 10, 12, 15, 20, 30, 50, 80, 150, 300)
BAR = 40


@contextmanager
def family() -> Iterator[tuple[Family, Path, float]]:
    """A service with one drone, which serves the queue `default` of two, its data directory, and the seconds of its
    start; the model `fake` takes 100 ms a call."""
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
    """With so many orders that wait in a queue which nobody serves: they weigh, and are not in front."""
    rows, alone = [], []
    with client_of(family) as client:
        waiting = 0
        for count in WAITING:
            for _ in range(count - waiting):
                client.post("/orders", json={"prompt": "Wait.", "model": "offline", "queue": "another"})
            waiting = count
            found = [_first_word(client) for _ in range(ORDERS + WARM)][WARM:]
            alone = alone or found
            rows.append((f"POST answered → agent.started, {count:,} waiting", *_percentiles(found)))
            histogram(f"{count:,} waiting", found)
    bare = _bare_celery(f"unix://{data / 'run' / 'redis.sock'}")
    rows.append(("Celery alone: enqueue → body", *_percentiles(bare)))
    table(f"The way to a drone ({ORDERS} orders, one after the other)", ("what", "p50", "p99"), rows)
    beside = f"Celery alone {_percentile(bare, 0.5):.1f} / {_percentile(bare, 0.99):.1f} ms"
    return [
        Promise("POST answered → agent.started, p50", _percentile(alone, 0.5), 12, "ms", note=beside),
        Promise("POST answered → agent.started, p99", _percentile(alone, 0.99), 30, "ms", note=beside),
    ]


def histogram(title: str, milliseconds: Sequence[float]) -> None:
    """Drawn in text: how many took how long."""
    print(f"\n  {title}")
    lower = 0.0
    for upper in (*BUCKETS, float("inf")):
        count = sum(lower < one <= upper for one in milliseconds)
        bar = "#" * round(BAR * count / len(milliseconds))
        print(f"  {f'<= {upper:g} ms':>12}  {count:4}  {bar}".rstrip())
        lower = upper


def _first_word(client: httpx.Client) -> float:
    """Milliseconds from the answer to POST until a viewer that then connects has read that the agent started."""
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
    """From the request until the last call of the tree began, and until the order has ended."""
    last, over = [], []
    with client_of(family) as client:
        for _number in range(CANCELS):
            order = {"prompt": "Do the research. [[master k=4 r=100 agent=explore]]", "model": "fake"}
            path = f"/orders/{client.post('/orders', json=order).raise_for_status().json()['id']}"
            _until(client, path, "model.replied")
            asked = time.time()
            client.post(f"{path}/cancel").raise_for_status()
            _until(client, path, "order.finished")
            entries = client.get(f"{path}/journal").raise_for_status().json()["items"]
            begun = [_moment(one["at"]) for one in entries if one["kind"] in ("model.started", "tool.started")]
            last.append(max(0.0, max(begun) - asked) * 1000)
            over.append((_moment(entries[-1]["at"]) - asked) * 1000)
    rows = [("the last call began", *_percentiles(last)), ("the order ended", *_percentiles(over))]
    table(f"After a cancel of a master with four children ({CANCELS} orders)", ("what", "p50", "p99"), rows)
    return [Promise("cancel → no further call starts, p99", _percentile(last, 0.99), 2_000, "ms")]


def _until(client: httpx.Client, path: str, kind: str) -> None:
    with client.stream("GET", f"{path}/events") as events:
        for line in events.iter_lines():
            if line == f"event: {kind}":
                return


def _moment(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def viewers(family: Family, _: Path) -> list[Promise]:
    """When an entry was made, and when each of many viewers had it, all of which this process reads."""
    with client_of(family) as client:
        order = {"prompt": "Do the research. [[master k=2 r=6 agent=explore]]", "model": "fake"}
        path = f"/orders/{client.post('/orders', json=order).raise_for_status().json()['id']}"
        _until(client, path, "model.started")
        client.post(f"{path}/pause").raise_for_status()
        late = asyncio.run(_watched(family, f"/api/v1{path}/events", lambda: client.post(f"{path}/resume")))
    rows = [(f"{len(late):,} times", *_percentiles(late), f"{_percentile(late, 0.95):.0f} ms")]
    table(f"An entry → {VIEWERS} viewers", ("entries read", "p50", "p99", "p95"), rows)
    return [Promise(f"an entry → {VIEWERS} viewers, p95", _percentile(late, 0.95), 250, "ms")]


async def _watched(family: Family, path: str, resume: Callable[[], object]) -> list[float]:
    """Milliseconds of each entry that was written after all had seen those before and the order was resumed."""
    host, _, port = family.url.removeprefix("http://").partition(":")
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {family.token}\r\n\r\n".encode()
    came: list[tuple[float, bytes]] = []
    seen = asyncio.Semaphore(0)

    async def watch() -> None:
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
        writer.write(request)
        first = True
        try:
            while line := await reader.readline():
                if first and line.startswith(b"data: "):
                    first = False
                    seen.release()
                if line.startswith(b"data: "):
                    came.append((time.time(), line[6:]))
                elif line.startswith(b"event: order.finished"):
                    came.append((time.time(), (await reader.readline())[6:]))
                    return
        finally:
            writer.close()

    watching = [asyncio.create_task(watch()) for _ in range(VIEWERS)]
    for _ in watching:
        await seen.acquire()
    resumed = time.time()
    await asyncio.to_thread(resume)
    await asyncio.gather(*watching)
    told = ((at, json.loads(data)) for at, data in came if b'"at"' in data)
    moments = ((at, _moment(entry["at"])) for at, entry in told if "at" in entry)
    return [(at - moment) * 1000 for at, moment in moments if moment > resumed]


def of_family(family: Family, seconds: float) -> list[Promise]:
    pids = [child.pid for child in family.supervisor.children if child.pid is not None]
    held = [_pss(pid) for pid in pids]
    names = [child.name for child in family.supervisor.children]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    tick = os.sysconf("SC_CLK_TCK")
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    cpu = used.ru_utime + used.ru_stime + sum(int(stat[11]) + int(stat[12]) for stat in stats) / tick
    rows = [(name, f"{megabytes:.0f} MB") for name, megabytes in zip(names, held, strict=True)]
    table(f"A family, ready after {seconds:.1f} s with {cpu:.1f} s of CPU", ("process", "PSS"), rows)
    return [
        Promise("mcc up ready", seconds, 3, "s", note=f"{cpu:.1f} s of CPU in all its processes"),
        Promise("one family, PSS of its processes", sum(held), 300, "MB"),
    ]


def _pss(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


PARTS: dict[str, Callable[[Family, Path], list[Promise]]] = {"way": way, "cancel": cancel, "viewers": viewers}


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    wanted = [name for name in PARTS if name in arguments or not arguments]
    with family() as (ready, data, seconds):
        promises = of_family(ready, seconds)
        for name in wanted:
            promises += PARTS[name](ready, data)
    return promises


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


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _percentiles(values: Sequence[float]) -> tuple[str, str]:
    return f"{_percentile(values, 0.5):.1f} ms", f"{_percentile(values, 0.99):.1f} ms"


if __name__ == "__main__":
    main(sys.argv[1:])

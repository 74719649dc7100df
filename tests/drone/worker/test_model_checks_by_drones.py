"""Checks of models between service and drone: over a Redis of the test's own, and with a worker in its own process."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis

from drone.crew import Crew
from drone.models.checks import Tell
from drone.worker.trials import BUSY, MOST_CHECK_BYTES, ModelChecks
from mcc.api.app import RedisAccess
from mcc.client import MCC
from mcc.contracts.answers import MAX_CHECKED_MODELS, ModelCheck
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import to_json
from mcc.contracts.wire import CheckModels, control_channel
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, connect_async, queue_keys
from mcc.dispatch.checks import DroneChecks
from mcc.testing.served import TOKEN, Served
from tests.drone.worker.real_redis import RealRedis
from tests.drone.worker.test_celery_worker import Site

KEY = "sk-very-secret-key-0123456789"


@dataclass
class TryingCrew(Crew):
    """Reports that each model works, once `may_go` is set; sets `began` before."""

    began: asyncio.Event = field(default_factory=asyncio.Event)
    may_go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def check_models(self, names: Iterable[str], tell: Tell) -> None:
        self.asked.append(tuple(names))
        self.began.set()
        await self.may_go.wait()
        for name in self.asked[-1]:
            await tell(ModelCheck(name=name, key="accepted"))


@asynccontextmanager
async def listening(crew: TryingCrew, url: str, incarnation: str) -> AsyncIterator[ModelChecks]:
    """Passes the messages of a control channel on to model checks, as a drone's control listener does."""
    checks, client = ModelChecks(crew, RedisAt(url), "d1"), connect_async(RedisAt(url))

    async def listen() -> None:
        async for message in pubsub.listen():
            if message["type"] == "message":
                checks.hear(message["data"])

    async with client.pubsub() as pubsub:
        await pubsub.subscribe(control_channel(incarnation))
        await pubsub.get_message(timeout=5)
        task = asyncio.create_task(listen())
        yield checks
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await checks.close()
    await client.aclose()


async def test_a_drone_answers_a_check_and_refuses_a_second_one_meanwhile(real_redis: RealRedis) -> None:
    crew, checks, incarnation = TryingCrew(), DroneChecks(RedisAt(real_redis.url)), fresh_id()
    async with listening(crew, real_redis.url, incarnation), asyncio.timeout(20):
        first = asyncio.create_task(checks.check(incarnation, ["fast", "slow"]))
        await crew.began.wait()
        (busy,) = await checks.check(incarnation, ["fast"])
        assert busy.problem == BUSY
        crew.may_go.set()
        assert [(row.name, row.drone, row.problem) for row in await first] == [
            ("fast", "d1", None),
            ("slow", "d1", None),
        ]
        assert [row.name for row in await checks.check(incarnation, ["fast"])] == ["fast"]
    await checks.close()


async def test_waiting_for_a_silent_drone_is_bounded_in_time(real_redis: RealRedis) -> None:
    crew, checks, incarnation = TryingCrew(), DroneChecks(RedisAt(real_redis.url)), fresh_id()
    async with listening(crew, real_redis.url, incarnation), asyncio.timeout(20):
        assert await checks.check(incarnation, ["fast"], seconds=0.1) == []
    await checks.close()


@pytest.mark.parametrize("away", [False, True])
async def test_a_drone_that_does_not_listen_is_not_asked_for_a_check(real_redis: RealRedis, away: bool) -> None:
    checks = DroneChecks(RedisAt("redis://127.0.0.1:1/0" if away else real_redis.url))
    with pytest.raises(DispatchUnavailable, match="Redis"):
        await checks.check(fresh_id(), ["fast"])
    await checks.close()


async def test_other_messages_start_no_check() -> None:
    crew = TryingCrew()
    checks = ModelChecks(crew, RedisAt("redis://127.0.0.1:1/0"), "d1")
    request = {"type": "check_models", "check_id": fresh_id(), "names": ["fast"]}
    too_many = ["x"] * (MAX_CHECKED_MODELS + 1)
    wrong = ({**request, "names": too_many}, {**request, "check_id": "x:y"}, {**request, "more": 1})
    said = [json.dumps(one).encode() for one in wrong]
    for data in (*said, b'{"type": "wake"}', b"check_models", to_json(request) + b" " * MOST_CHECK_BYTES, None, "text"):
        checks.hear(data)
    await asyncio.sleep(0)
    assert crew.asked == []
    checks.hear(to_json(CheckModels(check_id=fresh_id(), names=("fast",))))
    await asyncio.sleep(0)
    assert crew.asked == [("fast",)]
    await checks.close()


class Completions(BaseHTTPRequestHandler):
    """A server of chat completions that calls the tool it is offered, if the key is right."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != f"Bearer {KEY}":
            self._answer(401, "application/json", b'{"error": {"message": "no such key"}}')
            return
        (tool,) = body["tools"]
        call = {"index": 0, "id": "c1", "function": {"name": tool["function"]["name"], "arguments": '{"ready":true}'}}
        events = (
            {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}},
        )
        stream = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
        self._answer(200, "text/event-stream", stream + b"data: [DONE]\n\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


CONFIGURATION = """
[models.good]
provider = "openai"
model = "m"
base_url = "{url}"
api_key_env = "GOOD"
context_tokens = 32000
[models.good.price]
input = 1.0
output = 1.0
[models.wrong]
provider = "openai"
model = "m"
base_url = "{url}"
api_key_env = "WRONG"
[models.bare]
provider = "openai"
model = "m"
base_url = "{url}"
api_key_env = "NOBODY_SET_THIS"
[defaults]
model = "good"
"""


def test_a_service_without_keys_has_a_worker_try_its_models(tmp_path: Path, real_redis: RealRedis) -> None:
    with redis.Redis.from_url(real_redis.url) as client, ExitStack() as stack:
        client.flushall()
        site = Site(tmp_path, real_redis, stack)
        configuration = tmp_path / "mcc.toml"
        configuration.write_text(CONFIGURATION.format(url=stack.enter_context(provider())))
        keys: dict[str, Any] = {"MCC_CONFIG": str(configuration), "GOOD": KEY, "WRONG": "sk-wrong-key-0123456789"}
        site.drone("d1", sys.executable, "-m", "drone.cli", "work", **keys)
        access = RedisAccess(checks=DroneChecks(RedisAt(real_redis.url)))
        served = stack.enter_context(Served(site.store, tmp_path, redis=access))
        with MCC(served.url, token=TOKEN) as mcc:
            found = {row.name: row for row in heard(mcc)}
        assert client.exists(*queue_keys("default")) == 0, "nothing waits for a drone, or shows as a task"
        assert not client.keys("mcc:check:*")
    good, wrong, bare = found["good"], found["wrong"], found["bare"]
    assert (good.problem, good.key, good.tools, good.streaming) == (None, "accepted", True, True)
    assert (good.context_tokens, good.drone) == (32_000, "d1")
    assert good.usage is not None and good.usage.cost_usd == pytest.approx(110 / 1_000_000)
    assert wrong.key == "refused" and "Check the key in WRONG" in (wrong.problem or "")
    assert bare.key == "missing" and "NOBODY_SET_THIS" in (bare.problem or "")
    assert found["offline"].problem is None
    assert KEY not in str(found) and KEY not in site.log("d1")


def heard(mcc: MCC) -> Iterable[ModelCheck]:
    """The rows; a worker that has only just registered may not listen yet."""
    for _ in range(200):
        found = mcc.models.check()
        if not any("does not listen" in (row.problem or "") for row in found):
            return found
        threading.Event().wait(0.05)
    raise AssertionError("the worker never listened")

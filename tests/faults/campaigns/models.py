"""Harm by model servers: refusals, cut streams, and models that call tools wrongly."""

import asyncio
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import DeltaKind
from drone.agent.ports.model import Ask, Model
from drone.models.registry import Models
from drone.settings import ModelConfig, Settings
from mcc.contracts.usage import Usage
from mcc.transcript.messages import UserMessage
from tests.faults.assembly import MODEL, MODEL_OF_MESSAGES
from tests.faults.bad_calls import BAD, bad_prompt
from tests.faults.campaigns.stage import Stage, pause
from tests.faults.jsonlines import read
from tests.faults.llm_faults import BEFORE, EVENTS
from tests.faults.members import until
from tests.faults.script import Asked, Play, prompt_of, reply
from tests.faults.wire import Tokens, chat_events, message_events

FINAL_STATUSES = (400, 401, 403, 404, 302)
"""Nobody who gets one of these asks again."""

PATIENT = ("0", "1", "garbage", "-5")
"""Retry-After values that cost no more than some seconds."""

SIDE_BY_SIDE = 40
STRIDE = 40
"""Unless all are wanted, every so manieth cut point is tried, from a drawn one on."""


def model_refuses(stage: Stage) -> None:
    """Refusals, stalls and 5xx at random; statuses that end a call at once; a rate limit of a day that is cancelled."""
    family = stage.family
    armed = [_armed(f"status-{status}", status) for status in FINAL_STATUSES]
    armed += [_armed(f"patient-{index}", 429, said) for index, said in enumerate(PATIENT)]
    armed.append(_armed("a-day", 429, "86400", n=None))
    family.llm_orders(rate=0.3, seed=stage.seed, kinds=BEFORE, armed=armed)
    ending = [stage.submit(f"status-{status}", watched=False) for status in FINAL_STATUSES]
    going_on = [stage.submit(f"patient-{index}") for index in range(len(PATIENT))] + stage.crowd("any", 4)
    a_day = stage.submit("a-day")
    until(lambda: _asked(stage, "a-day") > 0, 60.0, "the model was asked for the order that must wait a day")
    pause(1.0)
    family.clients.control(a_day, "cancel")
    stage.quiet()
    stage.succeeded(going_on, "what the model server did passes by")
    for status, order_id in zip(FINAL_STATUSES, ending, strict=True):
        state = family.state(order_id)
        asked = _asked(stage, f"status-{status}", first_step=True)
        stage.wish(state.status == "failed", f"{order_id}, told {status} by its model, is {state.status}")
        stage.wish(asked == 1, f"{order_id}, told {status} by its model, asked the same {asked} times")


def _armed(order: str, status: int, retry_after: str | None = None, n: int | None = 1) -> dict[str, Any]:
    fault = {"kind": "status", "status": status, "retry_after": retry_after}
    return {"fault": fault, "order": order, "agent": "master", "step": 0, "n": n}


def _asked(stage: Stage, key: str, *, first_step: bool = False) -> int:
    lines = [line for line in read(stage.family.places.llm_log) if line["order"] == key]
    return sum(line["agent"] == "master" and line["step"] == 0 for line in lines) if first_step else len(lines)


def streams_break(stage: Stage) -> None:
    """Streams that are cut anywhere, malformed, doubled or cost nonsense, under load; then the cut points of one."""
    kinds = ("cut", "reset", "slices", "stall_between", *EVENTS)
    stage.family.llm_orders(rate=0.35, seed=stage.seed, kinds=kinds)
    placed = stage.crowd("stream", 8)
    placed += [stage.submit(f"strange-{model}", strange=True, model=model) for model in (MODEL, MODEL_OF_MESSAGES)]
    stage.quiet()
    stage.succeeded(placed, "only streams were broken")
    for model in (MODEL, MODEL_OF_MESSAGES):
        tried, wrong = asyncio.run(_cut_points(stage, model))
        stage.measured["cut points of a stream"].append(tried)
        stage.problems += wrong


async def _cut_points(stage: Stage, name: str) -> tuple[int, list[str]]:
    """How many were tried, and what was taken for a reply that was none."""
    whole = _length(name)
    points = range(whole) if stage.whole else range(stage.dice.randrange(STRIDE), whole, STRIDE)
    faults = [_cut_at(name, point) for point in points]
    stage.family.llm_orders(armed=faults)
    settings = Settings(models={name: _config(stage, name)}, data_dir=stage.family.places.private)
    models = Models(settings)
    gate = asyncio.Semaphore(SIDE_BY_SIDE)
    try:
        wrong = await asyncio.gather(*(_cut(models.get(name), name, point, gate) for point in points))
    finally:
        await models.aclose()
    return len(points), [sentence for sentence in wrong if sentence]


def _key(name: str, point: int) -> str:
    return f"cut-{name}-{point:05}"


def _cut_at(name: str, point: int) -> dict[str, Any]:
    return {"fault": {"kind": "cut", "after": point}, "order": _key(name, point), "step": 0, "n": 1}


async def _cut(model: Model, name: str, point: int, gate: asyncio.Semaphore) -> str | None:
    play = Play(_key(name, point), 7, children=0, steps=4)
    prompt = prompt_of(play.key, play.seed, children=0, steps=4)
    wanted = reply(Asked(play, 0))
    ear = Ear()
    async with gate:
        said = await model.ask(Ask(system="", messages=(UserMessage(text=prompt),)), ear)
    if said.text != wanted.text or len(said.tool_calls) != len(wanted.calls):
        return f"{name}, cut after {point} bytes: {said.text[:50]!r} was taken for the reply"
    return None


@dataclass
class Ear:
    """Counts what was tried again."""

    tries: int = 1

    def delta(self, kind: DeltaKind, text: str, call: object = None) -> None: ...

    async def retried(self, error: str, wait_seconds: float) -> None:
        self.tries += 1

    async def fell_back(self, source: str, target: str, error: str) -> None: ...

    async def not_sent(self, what: str) -> None: ...

    def billed(self, usage: Usage) -> None: ...

    async def go_ahead(self) -> None: ...


def _length(name: str) -> int:
    """Bytes of the reference stream, up to where it says that it is whole."""
    step = reply(Asked(Play(_key(name, 0), 7, children=0, steps=4), 0))
    stream = chat_events if name == MODEL else message_events
    return len(b"".join(stream(step, _key(name, 0), Tokens(100, 10))))


def _config(stage: Stage, name: str) -> ModelConfig:
    told = _told(stage.family.places.settings)[name]
    return ModelConfig(provider=told["provider"], base_url=told["base_url"], model=told["model"])


def _told(file: Path) -> Mapping[str, Any]:
    return dict(tomllib.loads(file.read_text())["models"])


def bad_calls(stage: Stage) -> None:
    """Unknown tools, arguments that are none, a hundred calls at once, the same call for ever: each order ends."""
    family = stage.family
    orders = {}
    for name in BAD:
        placed = family.clients.post(bad_prompt(name), limits={"rounds": 20, "tool_calls": 150})
        stage.wish(placed is not None, f"the order of bad calls {name} was not accepted")
        if placed is not None:
            orders[placed] = name
            family.told("bad tool calls", name)
    healthy = stage.crowd("healthy", 3)
    stage.quiet()
    stage.succeeded(healthy, "other orders' models called wrongly")
    for order_id, name in orders.items():
        state = family.state(order_id)
        within = state.status == "succeeded" or state.reason in ("limit_reached", "model_error")
        stage.wish(within, f"the order of bad calls {name} is {state.status} ({state.reason})")
        stage.wish(state.attempt == 1, f"bad calls {name} cost {state.attempt} attempts")

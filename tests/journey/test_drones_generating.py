"""Documents that real drones generate: gone on with after a kill, cancelled, and a failed node tried again."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcc.client import MCC
from mcc.contracts.entry import Entry
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.journal import AgentFinished, AgentStarted, DocumentChanged, ToolFinished
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import WorkOrder
from mcc.contracts.order_facts import OrderClaimed, OrderWaiting
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.local.family import Family
from mcc.local.programs import Staff
from mcc.settings import load
from tests.forking.popen import family_of_forks
from tests.journey.conftest import FOREIGN

pytestmark = pytest.mark.group("generating")

COURSE = """
blueprint: tides
root: course
components:
  course:
    metadata: {topic: {type: text, required: true}}
    properties: {title: {type: text, required: true, min_length: 5}}
    children: {lesson: {min: 2, max: 8}}
    describe: 'Course on {metadata.topic}.'
    agent: {system: You plan courses.}
  lesson:
    metadata: {focus: {type: text, required: true}}
    properties:
      minutes:
        type: number
        integer: true
        required: true
        rules: [{cel: value == null || value % 5 == 0, message: Use steps of five.}]
    children: {activity: {min: 1}}
    agent: {system: You plan lessons.}
  activity:
    properties: {text: {type: text, required: true, min_length: 10}}
    agent: {system: You write activities.}
"""
LESSONS = 4
STUBBORN = "A lesson that cannot be"


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def script(seconds: float) -> dict[str, Any]:
    """What the agents of the course say, each reply after so many seconds. A lesson with the focus `STUBBORN` never
    gets its minutes right."""
    lessons = [call("add_child", component="lesson", metadata={"focus": f"Part {n}"}) for n in range(LESSONS)]
    wrong = [call("set_value", values={"minutes": 42}), call("done")]
    right = [call("set_value", values={"minutes": 45}), call("add_child", component="activity")]
    text = [call("set_value", values={"text": "Watch the water for an hour."})]
    plan = [call("set_value", values={"title": "All about tides"}), *lessons]
    done = call("done", summary="It is done.")
    return {
        "rules": [
            {"match": f'metadata.focus: "{STUBBORN}"', "replies": [{"tool_calls": wrong}] * 5},
            {"match": "You plan courses", "replies": [{"tool_calls": plan}, {"tool_calls": [done]}]},
            {
                "match": "You plan lessons",
                "replies": [
                    {"tool_calls": right, "delay_seconds": seconds},
                    {"tool_calls": [done], "delay_seconds": seconds},
                ],
            },
            {"match": "You write", "replies": [{"tool_calls": [*text, done], "delay_seconds": seconds}]},
        ]
    }


@dataclass(frozen=True)
class House:
    family: Family
    mcc: MCC
    blueprint: str

    def course(self, model: str, **asked: Any) -> WorkOrder:
        """A new document on the tides."""
        return self.generate(model, blueprint=self.blueprint, generation={"metadata": {"topic": "Tides"}, **asked})

    def generate(self, model: str, **fields: Any) -> WorkOrder:
        return self.mcc.orders.submit("", kind="generate", model=model, **fields)

    def until(self, order: WorkOrder, there: Callable[[Entry], bool]) -> Entry:
        return next(entry for entry in self.mcc.orders.watch(order.id) if there(entry))

    def ended(self, order: WorkOrder) -> WorkOrder:
        for _ in self.mcc.orders.watch(order.id):
            pass
        return self.mcc.orders.get(order.id)

    def journal(self, order: WorkOrder) -> list[Entry]:
        return list(self.mcc.orders.journal(order.id))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    data_dir = tmp_path_factory.mktemp("documents")
    models = {"quick": 0.0, "slow": 0.4, "endless": 60.0}
    said = "\n".join(_model(data_dir, name, seconds) for name, seconds in models.items())
    (data_dir / "mcc.toml").write_text(f'{said}\n[defaults]\nmodel = "quick"\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    settings = load(environ={}, data_dir=data_dir, host="127.0.0.1", port=0, lease_seconds=2, renew_seconds=0.3)
    family = Family(settings, Staff(drones=2, slots=4, flower=False), purpose="run", environment=environment)
    with family_of_forks(family), MCC(family.url, token=family.token) as mcc:
        kept = mcc.blueprints.keep(COURSE)
        yield House(family, mcc, f"{kept.name}:{kept.digest.removeprefix('sha256:')[:12]}")


def _model(data_dir: Path, name: str, seconds: float) -> str:
    path = data_dir / f"{name}.json"
    path.write_text(json.dumps(script(seconds)))
    return f'[models.{name}]\nprovider = "scripted"\nmodel = "{path}"\n'


def began(entries: list[Entry]) -> Counter[str | None]:
    return Counter(entry.record_id for entry in entries if isinstance(entry.data, AgentStarted))


def test_an_order_generates_a_document(house: House) -> None:
    order = house.ended(house.course("quick"))
    assert (order.status, order.accepted) == (OrderStatus.SUCCEEDED, True), order.detail
    assert order.document_id is not None and order.result["counts"]["done"] == 1 + 2 * LESSONS
    document = house.mcc.documents.get(order.document_id)
    assert document.status == "done" and document.order_id is None
    changes = [entry.data for entry in house.journal(order) if isinstance(entry.data, DocumentChanged)]
    assert {change.document_id for change in changes} == {order.document_id}
    assert [change.version for change in changes] == list(range(changes[0].version, changes[-1].version + 1))
    record = house.mcc.orders.record(order.id)
    assert record.agent == "generator" and record.model is None
    assert {child.depth for child in record.subagent_history} == {1}


def test_a_killed_drones_document_goes_on_where_it_was_and_no_node_is_generated_twice(house: House) -> None:
    order = house.course("slow")
    house.until(order, lambda entry: isinstance(entry.data, ModelReplied) and entry.agent == "tides/lesson")
    held = house.mcc.orders.get(order.id)
    victim = next(drone for drone in house.mcc.drones.list() if drone.name == held.drone)
    os.kill(victim.pid, signal.SIGKILL)
    ended = house.ended(order)
    assert ended.status is OrderStatus.SUCCEEDED, ended.detail
    entries = house.journal(order)
    assert sum(isinstance(entry.data, OrderClaimed) for entry in entries) == 2
    assert set(began(entries).values()) == {1}
    rounds = Counter((entry.record_id, entry.data.round) for entry in entries if isinstance(entry.data, ModelReplied))
    assert set(rounds.values()) == {1}, "no committed reply was paid for again"
    results = Counter(entry.data.call_id for entry in entries if isinstance(entry.data, ToolFinished))
    assert set(results.values()) == {1}
    lost = sum(isinstance(entry.data, ModelStarted) for entry in entries) - rounds.total()
    assert lost <= LESSONS, "at most one open call of each agent that was at work"
    assert ended.document_id is not None
    document = house.mcc.documents.get(ended.document_id)
    assert document.counts.done == 1 + 2 * LESSONS
    assert len(document.nodes) == 1 + 2 * LESSONS, "nothing was added twice"


def test_a_cancelled_generation_ends_at_once_and_its_document_stays(house: House) -> None:
    order = house.course("endless")
    house.until(order, lambda entry: isinstance(entry.data, ModelStarted) and entry.agent == "tides/lesson")
    house.mcc.orders.cancel(order.id)
    ended = house.ended(order)
    assert ended.status is OrderStatus.CANCELLED
    entries = house.journal(order)
    ends = Counter(entry.record_id for entry in entries if isinstance(entry.data, AgentFinished))
    assert ends == began(entries)
    assert ended.document_id is not None
    document = house.mcc.documents.get(ended.document_id)
    assert document.counts.done == 1 and document.counts.pending == LESSONS
    again = house.ended(house.generate("quick", document_id=ended.document_id))
    assert again.status is OrderStatus.SUCCEEDED, again.detail


def test_one_failed_node_is_tried_again_by_its_path(house: House) -> None:
    first = house.ended(house.course("quick"))
    document_id = first.document_id
    assert document_id is not None
    focus = {"command": "set_metadata", "node": "/lesson-2", "values": {"focus": STUBBORN}}
    house.mcc.documents.run(document_id, [focus])
    failed = house.ended(house.generate("quick", document_id=document_id))
    assert (failed.status, failed.reason) == (OrderStatus.FAILED, FailureReason.GATE_FAILED)
    assert failed.result["failed"] == ["/lesson-2"]
    assert (failed.detail or "").startswith("1 of 2 nodes is not done: /lesson-2: the result was refused 5 times")
    node = next(one for one in house.mcc.documents.get(document_id).nodes if one.path == "/lesson-2")
    assert node.status == "failed" and node.failure is not None and node.props["minutes"] == 42
    house.mcc.documents.run(document_id, [{**focus, "values": {"focus": "Spring tides"}}])
    again = house.ended(house.generate("quick", document_id=document_id, generation={"nodes": ["/lesson-2"]}))
    assert again.status is OrderStatus.SUCCEEDED, again.detail
    nodes = [entry.data.node for entry in house.journal(again) if isinstance(entry.data, AgentStarted)]
    assert nodes == [None, "/lesson-2", "/lesson-2/activity-2"], "what was there below it was not named"


def test_an_outline_waits_for_a_person_and_what_follows_keeps_to_it(house: House) -> None:
    order = house.course("quick", outline=True)
    asked = house.until(order, lambda entry: isinstance(entry.data, ApprovalRequested))
    house.until(order, lambda entry: isinstance(entry.data, OrderWaiting))
    waiting = house.mcc.orders.get(order.id)
    assert (waiting.status, waiting.reason) == (OrderStatus.WAITING, "approval")
    assert waiting.document_id is not None
    document = house.mcc.documents.get(waiting.document_id)
    assert document.counts.done == 0 and len(document.nodes) == 1 + 2 * LESSONS
    house.mcc.documents.run(waiting.document_id, [{"command": "remove_child", "node": "/lesson-4"}])
    house.mcc.inbox.approve(asked.data.approval_id)  # type: ignore[attr-defined]
    ended = house.ended(order)
    assert ended.status is OrderStatus.SUCCEEDED, ended.detail
    assert len(house.mcc.documents.get(waiting.document_id).nodes) == 1 + 2 * (LESSONS - 1)

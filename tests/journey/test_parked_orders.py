"""Orders that only wait, in a real family with one slot: they leave it to others, and go on where they were."""

import http.server
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcc.client import MCC
from mcc.contracts.approvals import LateAnswer
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentStarted, ToolFinished
from mcc.contracts.order import WorkOrder
from mcc.contracts.order_facts import OrderWaiting
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.local.family import Family
from mcc.local.programs import Staff
from mcc.settings import load
from tests.forking import popen
from tests.forking.popen import family_of_forks
from tests.journey.conftest import FOREIGN
from tests.journey.script import EAST, HARBOUR, PATROL, ROPES, SAY_SHORT, SCRIPT, TIDE, WEST, write_harbour

pytestmark = pytest.mark.group("turns")

BUSY = "busy"


@dataclass
class Provider:
    """Wants to be asked an hour later, as long as it is `busy`; keeps what it was asked."""

    busy: bool = True
    asked: list[object] = field(default_factory=list)

    def answer(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(json.loads(body))
        if self.busy:
            refused = {"error": {"message": "Too many requests", "type": "rate_limit_error"}}
            return 429, {"retry-after": "3600"}, json.dumps(refused).encode()
        message = {"role": "assistant", "content": "Now I can."}
        said = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        said["usage"] = {"prompt_tokens": 10, "completion_tokens": 3}  # type: ignore[assignment]
        return 200, {}, json.dumps(said).encode()


@dataclass(frozen=True)
class House:
    family: Family
    mcc: MCC
    workspace: Path
    data_dir: Path
    provider: Provider

    def submit(self, prompt: str, model: str = HARBOUR, **fields: Any) -> WorkOrder:
        return self.mcc.orders.submit(prompt, workspace=self.workspace, model=model, **fields)

    def until(self, order: WorkOrder, there: Callable[[Entry], bool]) -> Entry:
        return next(entry for entry in self.mcc.orders.watch(order.id) if there(entry))

    def shown(self, order: WorkOrder) -> str:
        """What `mcc orders show` prints."""
        return self.orders("show", order.id)

    def orders(self, *words: str) -> str:
        """What `mcc orders` prints."""
        program = Path(sys.executable).parent / "mcc"
        command = [str(program), "orders", *words, "--url", self.family.url, "--data-dir", str(self.data_dir)]
        shown: str = popen.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        return shown


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    data_dir = tmp_path_factory.mktemp("parked")
    with provided() as (provider, address):
        workspace = write_harbour(tmp_path_factory.mktemp("place") / HARBOUR)
        (data_dir / "script.json").write_text(json.dumps(SCRIPT))
        (data_dir / "mcc.toml").write_text(
            f"""
[drone]
park_after_seconds = 0.5

[models.{HARBOUR}]
provider = "scripted"
model = "{data_dir / "script.json"}"

[models.{BUSY}]
provider = "openai"
base_url = "{address}/v1"
model = "any"
stream = false
"""
        )
        settings = load(data_dir=data_dir, host="127.0.0.1", port=0, workspace_roots=(workspace,))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        family = Family(settings, Staff(drones=1, slots=1, flower=False), purpose="run", environment=environment)
        with family_of_forks(family), MCC(family.url, token=family.token) as mcc:
            yield House(family, mcc, workspace, data_dir, provider)


@contextmanager
def provided() -> Iterator[tuple[Provider, str]]:
    provider = Provider()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, headers, body = provider.answer(self.rfile.read(int(self.headers.get("content-length", 0))))
            self.send_response(status)
            for name, value in {**headers, "content-type": "application/json", "content-length": len(body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield provider, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def is_waiting(entry: Entry) -> bool:
    return isinstance(entry.data, OrderWaiting)


def test_a_paused_order_leaves_its_slot_to_another_one_and_goes_on_when_it_is_resumed(house: House) -> None:
    order = house.submit(PATROL)
    house.until(order, lambda entry: isinstance(entry.data, AgentStarted) and entry.data.prompt == WEST)
    house.mcc.orders.pause(order.id, reason="lunch")
    house.until(order, is_waiting)
    waiting = house.mcc.orders.get(order.id)
    assert (waiting.status, waiting.reason) == (OrderStatus.WAITING, WaitingReason.PAUSED)
    shown = house.shown(order)
    assert "waiting (paused)" in shown and f"mcc orders resume {order.id}" in shown

    beside = house.submit(SAY_SHORT)
    assert [entry.kind for entry in house.mcc.orders.watch(beside.id)][-1] == "order.finished"
    assert house.mcc.orders.get(beside.id).answer == "Short."
    assert house.mcc.orders.get(order.id).status is OrderStatus.WAITING

    resume = house.mcc.orders.resume(order.id)
    entries = list(house.mcc.orders.watch(order.id))
    done, record = house.mcc.orders.get(order.id), house.mcc.orders.record(order.id)
    assert (done.status, done.answer, done.attempt) == (OrderStatus.SUCCEEDED, "The patrol is back.", 2)
    assert Fold.of(order.id, entries).record() == record
    assert {child.prompt: child.status for child in record.subagent_history} == {
        EAST: RecordStatus.COMPLETED,
        WEST: RecordStatus.COMPLETED,
    }
    settled = {control.id: control.applied_seq for control in house.mcc.orders.controls(order.id)}
    assert settled[resume.id] is not None and all(settled.values())
    rounds = [(entry.record_id, getattr(entry.data, "round", 0)) for entry in entries if entry.kind == "model.replied"]
    assert len(rounds) == len(set(rounds)) == 2 * 21 + 2


def test_an_order_that_asks_leaves_its_slot_and_goes_on_when_the_command_line_approves(house: House) -> None:
    order = house.submit(ROPES, permission={"list_files": "ask"}, on_ask="wait")
    house.until(order, is_waiting)
    waiting = house.mcc.orders.get(order.id)
    assert (waiting.status, waiting.reason) == (OrderStatus.WAITING, WaitingReason.APPROVAL)
    beside = house.submit(SAY_SHORT)
    assert [entry.kind for entry in house.mcc.orders.watch(beside.id)][-1] == "order.finished"
    assert house.mcc.orders.get(order.id).status is OrderStatus.WAITING
    [item] = house.mcc.inbox.list(order_id=order.id).items
    approved = json.loads(house.orders("approve", order.id, "--remember", "order", "--note", "Count them.", "--json"))
    told = {"id": item.id, "status": "approved", "by": "operator", "note": "Count them.", "remember": "order"}
    assert {name: approved[name] for name in told} == told
    entries = list(house.mcc.orders.watch(order.id))
    done = house.mcc.orders.get(order.id)
    assert (done.status, done.attempt) == (OrderStatus.SUCCEEDED, 2)
    assert [entry.kind for entry in entries].count("approval.requested") == 1
    assert house.mcc.grants.list().items == (), "what stood for the order ended with it"


def test_a_question_that_nobody_answers_in_time_has_its_default_for_an_answer(house: House) -> None:
    order = house.submit(TIDE)
    house.until(order, is_waiting)
    assert house.mcc.orders.get(order.id).reason is WaitingReason.QUESTION
    ends = [entry.data for entry in house.mcc.orders.watch(order.id) if isinstance(entry.data, ToolFinished)]
    assert [end.is_error for end in ends] == [False] and '"status":"expired","answer":"Low"' in ends[0].content
    [item] = house.mcc.inbox.list(status=None, order_id=order.id).items
    assert item.kind == "question" and (item.status, item.answer, item.by) == ("expired", "Low", None)
    late = house.mcc.inbox.answer(item.id, "High")
    assert isinstance(late, LateAnswer) and late.became == "next_turn"


def test_an_order_whose_provider_wants_to_be_left_alone_waits_and_then_asks_the_same_again(house: House) -> None:
    order = house.submit("Say what you can", BUSY)
    house.until(order, is_waiting)
    waiting = house.mcc.orders.get(order.id)
    assert (waiting.status, waiting.reason) == (OrderStatus.WAITING, WaitingReason.RATE_LIMIT)
    assert "Too many requests" in (waiting.detail or "")
    house.provider.busy = False
    house.mcc.orders.resume(order.id)
    entries = list(house.mcc.orders.watch(order.id))
    done = house.mcc.orders.get(order.id)
    assert (done.status, done.usage.model_calls) == (OrderStatus.SUCCEEDED, 1)
    first, *later = house.provider.asked
    assert later == [first]
    assert [entry.kind for entry in entries].count("model.replied") == 1

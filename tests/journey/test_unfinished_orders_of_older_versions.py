"""A database in which a drone of an older version was killed: its orders go on under this version, from the middle."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mcc.client import MCC
from mcc.contracts.entry import Entry
from mcc.contracts.journal import ControlApplied, GateChecked, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.local.family import Family, family_in_thread
from mcc.local.programs import Staff
from mcc.settings import load
from mcc.store.migrate import upgrade
from mcc.store.store import open_store
from tests.fixtures.unfinished import said
from tests.fixtures.unfinished.restored import DUMPS, restore
from tests.journey.conftest import FOREIGN

pytestmark = pytest.mark.xdist_group("unfinished")


@dataclass(frozen=True)
class Found:
    """The family that found the orders, and what their journals said before it began."""

    mcc: MCC
    before: dict[str, list[Entry]]

    def order(self, prompt: str) -> WorkOrder:
        return next(order for order in self.mcc.orders.list(limit=50).items if order.prompt == prompt)

    def ended(self, prompt: str) -> WorkOrder:
        order = self.order(prompt)
        for _ in self.mcc.orders.watch(order.id):
            pass
        return self.mcc.orders.get(order.id)

    def journal(self, order: WorkOrder) -> list[Entry]:
        return list(self.mcc.orders.journal(order.id))


@pytest.fixture(scope="module", params=DUMPS, ids=lambda dump: dump.name.partition(".")[0])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    data_dir, workspace = tmp_path_factory.mktemp("family"), tmp_path_factory.mktemp("place") / "harbour"
    restore(request.param, data_dir / "mcc.db", workspace)
    (data_dir / "script.json").write_text(json.dumps(said.script(0.0)))
    (data_dir / "mcc.toml").write_text(
        f'[models.harbour]\nprovider = "scripted"\nmodel = "{data_dir / "script.json"}"\n'
        '[defaults]\nmodel = "harbour"\n'
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    settings = load(environ={}, data_dir=data_dir, host="127.0.0.1", port=0, workspace_roots=(workspace,))
    before = journals(f"sqlite:///{data_dir / 'mcc.db'}")
    family = Family(settings, Staff(drones=1, slots=10, flower=False), purpose="run", environment=environment)
    with family_in_thread(family), MCC(family.url, token=family.token) as mcc:
        yield Found(mcc, before)


def journals(url: str) -> dict[str, list[Entry]]:
    """As this version reads them, before anything runs."""
    upgrade(url)
    store = open_store(url)
    try:
        return {order.id: list(store.journal.read(order.id)) for order in store.orders.list().items}
    finally:
        store.close()


def test_children_side_by_side_go_on_where_each_of_them_was(found: Found) -> None:
    order = found.ended(said.SURVEY)
    assert (order.status, order.answer) == (OrderStatus.SUCCEEDED, "North has two cranes, south and west have none.")
    record = found.mcc.orders.record(order.id)
    assert [child.agent for child in record.subagent_history] == ["explore", "scout", "general"]
    assert {child.status for child in record.subagent_history} == {"completed"}


def test_a_gate_half_way_keeps_the_attempt_that_it_refused(found: Found) -> None:
    order = found.ended(said.COUNT)
    assert (order.status, order.result) == (OrderStatus.SUCCEEDED, {"cranes": 2})
    checked = [entry.data.ok for entry in found.journal(order) if isinstance(entry.data, GateChecked)]
    assert checked == [False, True]


def test_what_was_said_before_the_kill_is_applied_once_and_what_was_not_yet_heard_is_heard(found: Found) -> None:
    order = found.ended(said.PATROL)
    assert order.status is OrderStatus.SUCCEEDED
    applied = [entry.data.message for entry in found.journal(order) if isinstance(entry.data, ControlApplied)]
    assert applied == ["Go by the east quay", "And come back by the west quay"]


def test_a_paused_order_stays_paused_until_somebody_resumes_it(found: Found) -> None:
    order = found.order(said.WAIT)
    assert (order.status, order.reason) == (OrderStatus.WAITING, "paused")
    found.mcc.orders.resume(order.id)
    assert found.ended(said.WAIT).answer == "The tide is in."


@pytest.mark.parametrize(("prompt", "answer"), [(said.AGAIN, "Good day again."), (said.LATER, "It is later.")])
def test_what_nobody_had_begun_is_done(found: Found, prompt: str, answer: str) -> None:
    assert found.ended(prompt).answer == answer


def test_the_finished_order_reads_as_before(found: Found) -> None:
    order = found.order(said.GREET)
    assert order.status is OrderStatus.SUCCEEDED
    assert found.mcc.orders.record(order.id).answer == "Good day."


@pytest.mark.parametrize("prompt", [said.SURVEY, said.COUNT, said.PATROL, said.AGAIN, said.LATER, said.GREET])
def test_what_was_journaled_stays_and_nothing_finished_is_done_again(found: Found, prompt: str) -> None:
    order = found.ended(prompt)
    entries, before = found.journal(order), found.before[order.id]
    assert entries[: len(before)] == before
    ends = Counter(entry.data.call_id for entry in entries if isinstance(entry.data, ToolFinished))
    assert set(ends.values()) <= {1}
    settled = {entry.data.call_id for entry in before if isinstance(entry.data, ToolFinished)}
    assert not settled & {entry.data.call_id for entry in entries[len(before) :] if isinstance(entry.data, ToolStarted)}
    rounds = Counter((e.record_id, e.data.round) for e in entries if isinstance(e.data, ModelReplied))
    assert set(rounds.values()) <= {1}

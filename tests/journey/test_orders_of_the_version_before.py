"""A drone of this version is killed in the middle of its orders: the next version, which only tests have, ends them."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from mcc.client import MCC
from mcc.contracts.entry import Entry
from mcc.contracts.journal import JOURNAL_VERSION, AgentStarted, ControlApplied, GateChecked, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable
from mcc.store.database.migrate import upgrade
from mcc.store.database.tables import STATE
from tests.next_version import overlay, said
from tests.next_version.programs import Place, Programs, programs, redis_server
from tests.waiting import until

pytestmark = pytest.mark.group("next version")


@dataclass(frozen=True)
class Found:
    """The service of the next version, and what the journals said before it began."""

    mcc: MCC
    place: Place
    packages: Path
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


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("versions")
    packages = overlay.make(folder / "next")
    with redis_server() as redis:
        place = Place(folder / "data", folder / "harbour", redis)
        place.furnish(said.HELD)
        with programs(place) as before:
            interrupt(before, place.workspace)
            kept = {order.id: journal(before.mcc, order.id) for order in before.mcc.orders.list(limit=50).items}
            place.mcc("backup", str(folder / "before.gz"))
        place.say(0.0)
        with programs(place, packages) as now:
            yield Found(now.mcc, place, packages, kept)


def journal(mcc: MCC, order_id: str) -> list[Entry]:
    return list(mcc.orders.journal(order_id))


def kinds(mcc: MCC, order_id: str) -> list[str]:
    return [entry.kind for entry in journal(mcc, order_id)]


def interrupt(running: Programs, workspace: Path) -> None:
    """Bring all orders to where they shall be found; then kill the drone and place one more."""
    mcc = running.mcc
    session = mcc.sessions.open()
    first = mcc.orders.submit(said.GREET, session_id=session.id)
    until(lambda: mcc.orders.get(first.id).status == "succeeded", "the first turn has ended")
    paused = mcc.orders.submit(said.WAIT, workspace=str(workspace), mode="plan")
    until(lambda: "model.started" in kinds(mcc, paused.id), "the paused one has begun")
    mcc.orders.pause(paused.id, reason="lunch")
    survey = mcc.orders.submit(said.SURVEY, workspace=str(workspace), mode="plan")
    count = mcc.orders.submit(said.COUNT, result_schema=said.SCHEMA, rules=[said.RULE])
    patrol = mcc.orders.submit(said.PATROL, workspace=str(workspace), mode="plan")
    until(lambda: "model.started" in kinds(mcc, patrol.id), "the patrol has begun")
    mcc.orders.steer(patrol.id, "Go by the east quay")
    until(lambda: mcc.orders.get(paused.id).status == "waiting", "one is paused")
    until(lambda: "control.applied" in kinds(mcc, patrol.id), "the patrol has heard")
    until(lambda: kinds(mcc, patrol.id)[-1] == "model.started", "the patrol goes on")
    until(lambda: {"gate.checked"} <= {*kinds(mcc, count.id)}, "the count was refused")
    until(lambda: kinds(mcc, count.id)[-1] == "model.started", "the count goes on")
    until(lambda: kinds(mcc, survey.id).count("agent.finished") == 1, "one quay is surveyed")
    mcc.orders.steer(patrol.id, "And come back by the west quay")
    running.drone.kill()
    running.drone.wait()
    mcc.orders.submit(said.AGAIN, session_id=session.id)
    mcc.orders.submit(said.LATER)


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
    entries, before = found.journal(order), found.before.get(order.id, [])
    assert [unversioned(entry) for entry in entries[: len(before)]] == list(map(unversioned, before))
    ends = Counter(entry.data.call_id for entry in entries if isinstance(entry.data, ToolFinished))
    assert set(ends.values()) <= {1}
    settled = {entry.data.call_id for entry in before if isinstance(entry.data, ToolFinished)}
    assert not settled & {entry.data.call_id for entry in entries[len(before) :] if isinstance(entry.data, ToolStarted)}
    rounds = Counter((e.record_id, e.data.round) for e in entries if isinstance(e.data, ModelReplied))
    assert set(rounds.values()) <= {1}


def unversioned(entry: Entry) -> Entry:
    """The entry without the version that the next version's programs put in front of paths."""
    if not isinstance(entry.data, AgentStarted) or entry.data.definition_origin is None:
        return entry
    path = entry.data.definition_origin.path or ""
    origin = entry.data.definition_origin.model_copy(update={"path": path.removeprefix("1:").removeprefix("2:")})
    return entry.model_copy(update={"data": entry.data.model_copy(update={"definition_origin": origin})})


def versions(entries: list[Entry]) -> list[str]:
    """By which version each agent's beginning was written, as the next version reads it."""
    began = [entry.data.definition_origin for entry in entries if isinstance(entry.data, AgentStarted)]
    return [str(origin.path)[:2] for origin in began if origin is not None]


def test_entries_of_the_version_before_are_read_in_the_newest_shape(found: Found) -> None:
    assert versions(found.journal(found.ended(said.GREET))) == ["1:"]
    assert versions(found.journal(found.ended(said.LATER))) == ["2:"]
    assert versions(found.journal(found.ended(said.SURVEY))) == ["1:"] * 4


@pytest.mark.parametrize(("prompt", "later"), [(said.GREET, 0), (said.COUNT, 1), (said.LATER, 1)])
def test_whoever_goes_on_with_a_journal_makes_it_one_of_the_newest_version(
    found: Found, prompt: str, later: int
) -> None:
    order, database = found.ended(prompt), Database(found.place.url)
    wanted = sa.select(STATE.c.journal_version).where(STATE.c.order_id == order.id)
    assert database.read(lambda connection: connection.scalar(wanted)) == JOURNAL_VERSION + later
    database.close()


def test_the_schema_was_upgraded_with_what_was_in_it(found: Found) -> None:
    assert praise(found.place.url) == {"none yet"}


def test_a_backup_of_the_version_before_is_restored_in_the_next_ones_schema(found: Found, tmp_path: Path) -> None:
    elsewhere = replace(found.place, data_dir=tmp_path / "data")
    elsewhere.furnish(0.0)
    backup = found.place.data_dir.parent / "before.gz"
    elsewhere.mcc("restore", str(backup), packages=found.packages)
    assert praise(elsewhere.url) == {"none yet"}
    order_id = found.order(said.GREET).id
    record = json.loads(elsewhere.mcc("orders", "record", order_id, "--json", packages=found.packages))
    assert record["answer"] == "Good day."


def test_this_version_refuses_the_next_ones_database(found: Found) -> None:
    with pytest.raises(StoreUnavailable, match=f"schema {overlay.NEXT}, which this version"):
        upgrade(found.place.url)


def praise(url: str) -> set[str]:
    database = Database(url)
    try:
        return {*database.read(lambda connection: connection.exec_driver_sql("SELECT praise FROM orders").scalars())}
    finally:
        database.close()

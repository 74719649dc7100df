"""Whole turns through the real family, on SQLite and PostgreSQL: accepted over HTTP, done by a drone, read back."""

import asyncio
import json
import random
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from mcc.client import MCC, Refused
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.order import WorkOrder
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.store import open_store
from tests.journey.conftest import House
from tests.journey.expected import Playwright, leaf_of
from tests.journey.script import HARBOUR, NAME, REFUSED, SAY_SHORT, SAY_STRANGE, SLOW, STRANGE, SURVEY, WAIT

pytestmark = pytest.mark.group("turns")


def finished(mcc: MCC, order: WorkOrder) -> tuple[WorkOrder, list[Entry]]:
    """Watch to the end; the order then, and every entry."""
    entries = list(mcc.orders.watch(order.id))
    return mcc.orders.get(order.id), entries


def folded(order: WorkOrder, entries: list[Entry]) -> ChatRecord:
    record = Fold.of(order.id, entries).record()
    assert record is not None
    return record


def assert_tells_what_happened(house: House, order: WorkOrder, prompt: str, entries: list[Entry]) -> None:
    """Folded journal and stored record are one, and both are the tree that the script and the tools make."""
    record = house.mcc.orders.record(order.id)
    assert folded(order, entries) == record
    assert leaf_of(record) == asyncio.run(Playwright(house.workspace).play("master", prompt))


def all_records(record: ChatRecord) -> Iterator[ChatRecord]:
    yield record
    for child in record.subagent_history:
        yield from all_records(child)


async def test_the_record_is_the_tree_that_the_script_and_the_tools_make(house: House) -> None:
    order = house.mcc.orders.submit(SURVEY, workspace=house.workspace, model=HARBOUR)
    order, entries = await asyncio.to_thread(finished, house.mcc, order)
    assert (order.status, order.answer) == (OrderStatus.SUCCEEDED, "North has two cranes, south has none.")
    expected = await Playwright(house.workspace).play("master", SURVEY)
    record = house.mcc.orders.record(order.id)
    assert leaf_of(record) == expected
    assert leaf_of(folded(order, entries)) == expected


def test_folding_the_journal_gives_the_stored_record_and_its_usage(house: House) -> None:
    order = house.mcc.orders.submit(SURVEY, workspace=house.workspace, model=HARBOUR)
    order, entries = finished(house.mcc, order)
    record = house.mcc.orders.record(order.id)
    assert folded(order, entries) == record
    spent = Usage()
    for each in all_records(record):
        spent = spent.plus(each.usage)
    assert record.usage_total == order.usage == spent
    assert (spent.model_calls, spent.tool_calls) == (8, 9)


def test_the_journal_is_numbered_without_a_gap_and_every_agent_that_started_finished(house: House) -> None:
    order = house.mcc.orders.submit(SURVEY, workspace=house.workspace, model=HARBOUR)
    order, entries = finished(house.mcc, order)
    assert [entry.seq for entry in entries] == list(range(1, order.last_seq + 1))
    assert entries == list(house.mcc.orders.journal(order.id))
    assert entries[-1].kind == "order.finished"
    started = {entry.record_id for entry in entries if entry.kind == "agent.started"}
    ended = [entry.record_id for entry in entries if entry.kind == "agent.finished"]
    assert len(started) == 3 and started == set(ended) and len(ended) == 3


def test_a_viewer_that_begins_after_any_entry_gets_exactly_the_rest(house: House) -> None:
    order = house.mcc.orders.submit(SURVEY, workspace=house.workspace, model=HARBOUR)
    order, _ = finished(house.mcc, order)
    headers = {"Authorization": f"Bearer {house.token}"}
    with httpx.Client(base_url=f"{house.family.url}/api/v1", headers=headers, timeout=20) as client:
        for after in range(order.last_seq):
            answer = client.get(f"/orders/{order.id}/events", headers={"Last-Event-ID": str(after)})
            ids = [int(line[4:]) for line in answer.text.splitlines() if line.startswith("id: ")]
            assert ids == list(range(after + 1, order.last_seq + 1))
        assert client.get(f"/orders/{order.id}/events?after={order.last_seq}").status_code == 204
        assert client.get(f"/orders/{order.id}/events?after={order.last_seq + 5}").status_code == 204


def test_viewers_that_disconnect_while_it_runs_have_every_entry_once(house: House) -> None:
    order = house.mcc.orders.submit(SLOW, workspace=house.workspace, model=HARBOUR)
    dice = random.Random(7)
    headers = {"Authorization": f"Bearer {house.token}"}
    seen: list[int] = []
    with httpx.Client(base_url=f"{house.family.url}/api/v1", headers=headers, timeout=20) as client:
        while not seen or not _ended(client, order.id, seen[-1]):
            seen.extend(_some(client, order.id, seen[-1] if seen else 0, dice.randint(1, 6)))
    order = house.mcc.orders.get(order.id)
    assert seen == list(range(1, order.last_seq + 1))
    assert_tells_what_happened(house, order, SLOW, list(house.mcc.orders.journal(order.id)))


def _ended(client: httpx.Client, order_id: str, after: int) -> bool:
    with client.stream("GET", f"/orders/{order_id}/events", params={"after": after}) as answer:
        return answer.status_code == 204


def _some(client: httpx.Client, order_id: str, after: int, most: int) -> list[int]:
    ids: list[int] = []
    with client.stream("GET", f"/orders/{order_id}/events", headers={"Last-Event-ID": str(after)}) as answer:
        for line in answer.iter_lines():
            if line.startswith("id: "):
                ids.append(int(line[4:]))
            if len(ids) == most:
                break
    return ids


def test_nul_and_lone_surrogates_are_kept_exactly_and_half_a_pair_is_read_as_a_replacement(house: House) -> None:
    order = house.mcc.orders.submit(SAY_STRANGE, model=HARBOUR)
    order, entries = finished(house.mcc, order)
    record = house.mcc.orders.record(order.id)
    read = STRANGE.replace("\ud800", "\ufffd")
    # The texts are compared beforehand: a message about one of them could not be written down.
    (step,) = [step for step in record.steps if step.kind == "model"]
    assert [text == read for text in (order.answer, record.answer, step.text, step.thinking)] == [True] * 4
    store = open_store(house.family.settings.database)
    kept = store.orders.record(order.id)
    store.close()
    is_exact = kept is not None and leaf_of(kept) == asyncio.run(
        Playwright(house.workspace).play("master", SAY_STRANGE)
    )
    assert is_exact and folded(order, entries) == record


def test_cancel_ends_a_running_order_and_closes_its_record(house: House) -> None:
    order = house.mcc.orders.submit(WAIT, model=HARBOUR)
    entries: list[Entry] = []
    for entry in house.mcc.orders.watch(order.id):
        entries.append(entry)
        if entry.kind == "model.started":
            house.mcc.orders.cancel(order.id, reason="low tide")
    order = house.mcc.orders.get(order.id)
    assert folded(order, entries) == house.mcc.orders.record(order.id)
    assert (order.status, order.detail) == (OrderStatus.CANCELLED, "low tide")
    assert house.mcc.orders.record(order.id).status is RecordStatus.CANCELLED
    (control,) = house.mcc.orders.controls(order.id)
    assert control.applied_seq is not None and control.refused is None


def test_a_steer_reaches_the_master_between_two_rounds_and_its_receipt_names_the_entry(house: House) -> None:
    order = house.mcc.orders.submit(SLOW, workspace=house.workspace, model=HARBOUR)
    entries: list[Entry] = []
    for entry in house.mcc.orders.watch(order.id):
        entries.append(entry)
        if entry.kind == "model.started" and sum(one.kind == "model.started" for one in entries) == 1:
            steered = house.mcc.orders.submit("Mind the gulls", session_id=order.session_id, when_busy="steer")
    assert steered.id == order.id
    (control,) = house.mcc.orders.controls(order.id)
    (applied,) = [entry for entry in entries if entry.kind == "control.applied"]
    assert (control.applied_seq, control.refused) == (applied.seq, None)
    steps = [step.message for step in house.mcc.orders.record(order.id).steps if step.kind == "steer"]
    assert steps == ["Mind the gulls"]
    assert_tells_what_happened(house, order, SLOW, entries)


def test_turns_of_a_session_run_one_after_the_other(house: House) -> None:
    first = house.mcc.orders.submit(SLOW, workspace=house.workspace, model=HARBOUR)
    second = house.mcc.orders.submit(SAY_SHORT, session_id=first.session_id, model=HARBOUR)
    assert (second.session_seq, second.blocked_by) == (2, first.id)
    second, entries = finished(house.mcc, second)
    first = house.mcc.orders.get(first.id)
    assert_tells_what_happened(house, second, SAY_SHORT, entries)
    assert_tells_what_happened(house, first, SLOW, list(house.mcc.orders.journal(first.id)))
    assert first.finished_at is not None and second.started_at is not None
    assert second.started_at >= first.finished_at


def test_a_drone_that_is_killed_loses_nothing_and_the_turn_goes_on_elsewhere(house: House) -> None:
    order = house.mcc.orders.submit(SLOW, workspace=house.workspace, model=HARBOUR)
    entries: list[Entry] = []
    for entry in house.mcc.orders.watch(order.id):
        entries.append(entry)
        if entry.kind == "tool.finished" and _first(entries, "tool.finished"):
            _kill_the_drone_of(house, order.id)
    order = house.mcc.orders.get(order.id)
    assert (order.status, order.attempt, order.answer) == (OrderStatus.SUCCEEDED, 2, "That was all.")
    assert [entry.seq for entry in entries] == list(range(1, order.last_seq + 1))
    (started,) = [entry.record_id for entry in entries if entry.kind == "agent.started"]
    assert [entry.record_id for entry in entries if entry.kind == "agent.finished"] == [started]
    assert_tells_what_happened(house, order, SLOW, entries)
    record = house.mcc.orders.record(order.id)
    assert record.id == started and record.usage_total.model_calls == 9


def _first(entries: list[Entry], kind: str) -> bool:
    """Whether there is one of this kind and no more."""
    return sum(entry.kind == kind for entry in entries) == 1


def _kill_the_drone_of(house: House, order_id: str) -> None:
    name = house.mcc.orders.get(order_id).drone
    pid = next(drone.pid for drone in house.mcc.drones.list() if drone.name == name and drone.status == "up")
    psutil.Process(pid).send_signal(signal.SIGKILL)


def test_an_answer_that_its_verifier_sends_back_is_mended_and_judged_again(house: House) -> None:
    order = house.mcc.orders.submit(NAME, model=HARBOUR, verify={"rubric": "It says the name."})
    order, entries = finished(house.mcc, order)
    assert (order.status, order.answer, order.accepted) == (OrderStatus.SUCCEEDED, "It is the Albatross.", True)
    record = house.mcc.orders.record(order.id)
    assert folded(order, entries) == record
    verdicts = [step for step in record.steps if step.kind == "verify"]
    assert [(one.passed, one.points, one.sent_back) for one in verdicts] == [
        (False, ("Say its name.",), True),
        (True, (), False),
    ]
    assert [child.id for child in record.subagent_history] == [one.verifier_id for one in verdicts]
    assert (order.usage.model_calls, record.usage.model_calls, record.usage_total) == (4, 2, order.usage)
    again = house.mcc.orders.retry(order.id)
    assert again.verify == order.verify and again.verify is not None and again.verify.rubric == "It says the name."
    assert finished(house.mcc, again)[0].accepted is True


def test_a_key_that_the_provider_refuses_is_told_in_a_sentence_without_the_key(house: House) -> None:
    order = house.mcc.orders.submit(SAY_SHORT, model=REFUSED)
    order, _ = finished(house.mcc, order)
    assert (order.status, order.reason) == (OrderStatus.FAILED, "model_error")
    assert order.detail is not None and "401" in order.detail and "wrong" not in order.detail


def test_a_workspace_that_does_not_exist_ends_the_order_with_a_sentence(house: House) -> None:
    order = house.mcc.orders.submit(SAY_SHORT, workspace=house.workspace / "nowhere", model=HARBOUR)
    order, _ = finished(house.mcc, order)
    assert (order.status, order.reason) == (OrderStatus.FAILED, "invalid")
    assert order.detail is not None and "not a directory" in order.detail


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"workspace": "/etc"}, "allowed"),
        ({"workspace": "relative/place"}, "absolute"),
        ({"agent": "mastre"}, "master"),
        ({"model": "harbor"}, "harbour"),
        ({"queue": "slow"}, "queue"),
        ({"limits": {"rounds": 0}}, "rounds"),
        ({"limits": {"rouns": 3}}, "rouns"),
        ({"result_schema": {"type": "objekt"}}, "result_schema"),
        ({"labels": ["x"] * 21}, "labels"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(house: House, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as refused:
        house.mcc.orders.submit("Go.", **fields)
    assert refused.value.status == 422
    assert words in json.dumps([str(refused.value), refused.value.errors])

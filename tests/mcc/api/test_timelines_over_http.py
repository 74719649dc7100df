"""The time line of an order: who ran when, in how few bars, and when nothing ran."""

from typing import Any

import httpx
import pytest

from mcc.contracts.entry import Origin
from mcc.contracts.ids import call_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested
from mcc.contracts.journal import AgentFinished, ControlApplied, GateChecked
from mcc.contracts.model_facts import ModelFellBack, ModelRetried
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.reading.order import asked

ORDERS = "/api/v1/orders"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Any:
    opened = temporary_store(clock)
    yield opened
    opened.close()


@pytest.fixture
def held(store: Store, clock: FakeClock) -> Held:
    return Scene(store, clock, "sqlite").running()


async def get(api: httpx.AsyncClient, held: Held, query: str = "") -> Any:
    answer = await api.get(f"{ORDERS}/{held.order_id}/timeline{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def bars(timeline: Any, lane: int = 0) -> list[tuple[str, float, float, int, str, str]]:
    """Kind, start and length in seconds, how many, state, label."""
    return [
        (kind, start / 1_000, ms / 1_000, n, state, timeline["labels"][label])
        for kind, start, ms, _, n, state, label in timeline["lanes"][lane]["bars"]
    ]


def child_of(held: Held) -> Origin:
    master = held.origin.record_id or ""
    return Origin(record_id=f"{master}-child", parent_id=master, agent="explore", depth=1)


async def test_bars_tell_when_each_agent_model_and_tool_ran(
    api: httpx.AsyncClient, held: Held, clock: FakeClock
) -> None:
    child, master = child_of(held), held.origin.record_id or ""
    held.write(started(), asked(1))
    clock.advance(4)
    held.write(replied(), called(master))
    clock.advance(1)
    held.write(started("look", call=call_id(master, 1, 0)), asked(1), origin=child)
    clock.advance(2)
    held.write(replied(), AgentFinished(status=RecordStatus.COMPLETED), origin=child)
    held.write(returned(master), AgentFinished(status=RecordStatus.COMPLETED))
    held.finish()
    timeline = await get(api, held)
    assert bars(timeline) == [
        ("agent", 0, 7, 1, "ok", "master"),
        ("model", 0, 4, 1, "ok", "openai/fast"),
        ("tool", 4, 3, 1, "ok", "read_file"),
    ]
    assert bars(timeline, 1) == [("agent", 5, 2, 1, "ok", "explore"), ("model", 5, 2, 1, "ok", "openai/fast")]
    assert [lane["agent"] for lane in timeline["lanes"]] == ["master", "explore"]
    assert timeline["gaps"] == timeline["failure_path"] == timeline["marks"] == []
    by_agent = await get(api, held, "?by=agent")
    assert [lane["id"] for lane in by_agent["lanes"]] == ["master", "explore"]


async def test_what_goes_on_reaches_to_the_end_and_as_of_an_entry_to_that_entry(
    api: httpx.AsyncClient, held: Held, clock: FakeClock
) -> None:
    held.write(started(), asked(1))
    clock.advance(5)
    held.write(replied(), asked(2))
    at = held.last_seq
    clock.advance(5)
    held.write(replied(round_number=2))
    then = await get(api, held, f"?at={at}")
    assert bars(then) == [
        ("agent", 0, 5, 1, "running", "master"),
        ("model", 0, 5, 1, "ok", "openai/fast"),
        ("model", 5, 0, 1, "running", "openai/fast"),
    ]
    assert then["at"] == at and then["last_seq"] == held.last_seq


async def test_bars_shorter_than_a_pixel_are_merged_and_there_are_never_too_many(
    api: httpx.AsyncClient, held: Held, clock: FakeClock
) -> None:
    held.write(started())
    facts = [fact for number in range(1, 5_001) for fact in (asked(number), replied(round_number=number))]
    for start in range(0, len(facts), 200):
        held.write(*facts[start : start + 200])
        clock.advance(1)
    held.finish()
    whole = await get(api, held)
    while whole["index"]["to"] < whole["index"]["of"]:
        whole = await get(api, held)
    assert sum(bar[4] for lane in whole["lanes"] for bar in lane["bars"] if bar[0] == "model") == 5_000
    assert 40 <= len(whole["lanes"][0]["bars"]) <= 120
    wide = await get(api, held, "?px=10000")
    assert sum(len(lane["bars"]) for lane in wide["lanes"]) <= 4_000


async def test_times_in_which_nothing_ran_are_told_with_the_reason(
    api: httpx.AsyncClient, held: Held, clock: FakeClock
) -> None:
    held.write(started(), asked(1))
    clock.advance(10)
    held.write(replied())
    held.write(ApprovalRequested(approval_id="a", call_id="c", tool="run_shell", digest="d"))
    clock.advance(300)
    held.write(ApprovalDecided(approval_id="a", call_id="c", decision="approve", by="operator"), asked(2))
    clock.advance(10)
    held.write(replied(round_number=2))
    clock.advance(29)
    held.write(asked(3), replied(round_number=3), ended())
    held.finish()
    timeline = await get(api, held)
    ((start, end, why),) = timeline["gaps"]
    assert why == "waits: approval" and start < end
    assert ("wait", 10, 300, 1, "ok", "approval") in bars(timeline)
    part = await get(api, held, f"?from={start.replace('+', '%2B')}&to={end.replace('+', '%2B')}")
    assert ("wait", 0, 300, 1, "ok", "approval") in bars(part) and ("agent", 0, 300, 1, "ok", "master") in bars(part)


async def test_marks_tell_what_happened_beside_the_work(api: httpx.AsyncClient, held: Held, clock: FakeClock) -> None:
    held.write(started(), asked(1))
    held.write(ModelRetried(round=1, attempt=1, model="m", error="busy", wait_seconds=40))
    clock.advance(40)
    held.write(asked(1, 2))
    held.write(ModelFellBack(round=1, source="m", target="n", error="away"), asked(1, 3), replied())
    held.write(
        GateChecked(attempt=1, ok=False, errors=("no",)),
        GateChecked(attempt=1, ok=False, check_only=True, errors=("no",)),
        ControlApplied(control_id="k", control="steer", message="x"),
        ControlApplied(control_id="l", control="pause"),
    )
    timeline = await get(api, held)
    assert [mark["kind"] for mark in timeline["marks"]] == ["retry", "fell_back", "gate_refused", "steer"]
    assert ("wait", 0, 40, 1, "ok", "provider") in bars(timeline)


async def test_a_takeover_is_marked(api: httpx.AsyncClient, held: Held, clock: FakeClock) -> None:
    held.write(started(), asked(1))
    held.scene.lose()
    held.scene.hold(held.order_id, held.scene.drone("drone-2"), "other")
    timeline = await get(api, held)
    assert [mark["kind"] for mark in timeline["marks"]] == ["takeover"]
    overview = (await api.get(f"{ORDERS}/{held.order_id}/overview")).json()
    assert [(attempt["n"], attempt["ended"]) for attempt in overview["attempts"]] == [(1, "lost"), (2, None)]


async def test_the_path_of_a_failure_leads_to_the_agent_that_failed_first(api: httpx.AsyncClient, held: Held) -> None:
    child = child_of(held)
    held.write(started())
    held.write(started("look"), AgentFinished(status=RecordStatus.FAILED, error="broke"), origin=child)
    assert (await get(api, held))["failure_path"] == []
    held.write(AgentFinished(status=RecordStatus.FAILED, error="broke"))
    held.finish(OrderStatus.FAILED)
    timeline = await get(api, held)
    assert timeline["failure_path"] == [held.origin.record_id, child.record_id]
    assert "failed" in [mark["kind"] for mark in timeline["marks"]]


async def test_a_time_line_is_as_described(api: httpx.AsyncClient, held: Held, document: dict[str, Any]) -> None:
    held.write(started(), asked(1), replied())
    answer = await api.get(f"{ORDERS}/{held.order_id}/timeline")
    check(document, answer, f"{ORDERS}/{{order_id}}/timeline")


@pytest.mark.parametrize("query", ["from=9999-12-31T23:59:59.999999Z", "to=0001-01-01T00:00:00Z"])
async def test_the_first_and_the_last_time_there_are_bound_a_time_line(
    api: httpx.AsyncClient, held: Held, query: str
) -> None:
    held.write(started())
    told = await get(api, held, f"?{query}")
    assert told["from"] != told["to"]


@pytest.mark.parametrize("query", ["?px=1", "?by=nonsense", "?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"])
async def test_what_cannot_be_drawn_is_refused(api: httpx.AsyncClient, held: Held, query: str) -> None:
    assert (await api.get(f"{ORDERS}/{held.order_id}/timeline{query}")).status_code == 422

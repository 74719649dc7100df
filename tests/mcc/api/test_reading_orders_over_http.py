"""One order as people look at it: its agents and rows, as of any entry, while it runs and afterwards."""

from typing import Any

import httpx
import pytest

from mcc.contracts.fold import Fold
from mcc.contracts.record import ChatRecord
from mcc.store.rows.part_rows import PART_ENTRIES
from mcc.store.store import Store
from mcc.testing import FakeClock
from tests.conformance.store.scene import Held, Scene, called, replied, returned, started
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.reading.order import asked, write_everything

ORDERS = "/api/v1/orders"
SAME = ("id", "parent_id", "call_id", "agent", "title", "depth", "status", "usage", "usage_total", "model")
"""Fields that an overview has from the record."""


@pytest.fixture
def held(store: Store) -> Held:
    return Scene(store, FakeClock(), "sqlite").running("Do **it**")


async def get(api: httpx.AsyncClient, held: Held, path: str) -> Any:
    answer = await api.get(f"{ORDERS}/{held.order_id}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def flat(record: ChatRecord) -> list[ChatRecord]:
    return [record, *(below for child in record.subagent_history for below in flat(child))]


async def test_an_overview_tells_of_each_agent_what_its_record_says(api: httpx.AsyncClient, held: Held) -> None:
    write_everything(held)
    held.finish()
    overview = await get(api, held, "overview")
    fold = Fold.of(held.order_id, held.scene.store.journal.read(held.order_id))
    record = fold.record()
    assert record is not None and overview["last_seq"] == overview["at"] == fold.last_seq
    assert overview["index"] == {"to": fold.last_seq, "of": fold.last_seq}
    assert len(overview["records"]) == 2
    for told, known in zip(overview["records"], flat(record), strict=True):
        for name in (
            "id",
            "parent_id",
            "call_id",
            "agent",
            "title",
            "depth",
            "status",
            "usage",
            "usage_total",
            "model",
        ):
            assert told[name] == known.model_dump(mode="json")[name], name
        assert told["steps"] == sum(step.kind == "model" for step in known.steps)
        assert told["tool_calls"] == sum(step.kind == "tool" for step in known.steps)
    master = overview["records"][0]
    assert master["gate"] == {"ok": True, "rule": None, "message": ""} and master["waiting"] is None
    assert overview["order"]["status"] == "succeeded"
    assert [(one["n"], one["ended"]) for one in overview["attempts"]] == [(1, "finished")]


async def test_an_overview_as_of_an_entry_knows_nothing_of_what_came_later(api: httpx.AsyncClient, held: Held) -> None:
    write_everything(held)
    held.finish()
    rows = (await get(api, held, "rows"))["items"]
    approval = next(row["seq"] for row in rows if row["kind"] == "approval")
    then = await get(api, held, f"overview?at={approval}")
    assert then["at"] == approval and then["last_seq"] > approval
    assert then["order"]["status"] == "running" and then["order"]["answer"] is None
    assert then["order"]["usage"] == then["records"][0]["usage_total"]
    assert then["records"][0]["status"] == "running" and then["records"][0]["waiting"] == "approval"
    assert then["attempts"][0]["ended"] is None and then["index"]["to"] == then["last_seq"]
    assert len((await get(api, held, "overview?at=3"))["records"]) == 1


async def test_a_failed_gate_names_the_rule(api: httpx.AsyncClient, held: Held) -> None:
    write_everything(held)
    failed = [row for row in (await get(api, held, "rows?errors=true"))["items"] if row["kind"] == "gate"]
    (gate,) = (await get(api, held, f"overview?at={failed[0]['seq']}"))["records"][:1]
    assert gate["gate"] == {
        "ok": False,
        "rule": "size(result) > 0: is empty",
        "message": "size(result) > 0: is empty\nmore",
    }


async def test_rows_are_what_the_agents_said_and_did(api: httpx.AsyncClient, held: Held) -> None:
    child = write_everything(held)
    rows = (await get(api, held, f"rows?record={held.origin.record_id}"))["items"]
    kinds = [row["kind"] for row in rows]
    first = ["note", "prompt", "model", "child", "model", "tools", "model", "approval", "tool", "question"]
    assert kinds == [*first, "steer", "compacted", "note", "gate", "gate", "note"]
    prompt, model, delegation, hostile, merged = rows[1:6]
    assert prompt["text"] == [["p", {}, "Do ", ["strong", {}, "it"]]]
    assert model["data"]["tries"] == 2 and "busy" in model["data"]["error"]
    assert delegation["data"]["records"] == [child] and delegation["text"] == [["pre", {}, "the report"]]
    assert hostile["text"][0][2] == "<script>alert(1)</script> "
    assert ["span", {"class": "ctl"}, "U+202E"] in hostile["text"][0]
    assert merged["data"]["n"] == len(merged["data"]["calls"]) == 3
    refused = rows[8]
    assert refused["data"]["is_error"] and refused["data"]["outcome"] == "denied"
    assert rows[7]["data"]["decision"] == "deny" and rows[7]["text"] == [["pre", {}, "rm -rf /"]]
    below = (await get(api, held, f"rows?record={child}"))["items"]
    assert [row["kind"] for row in below] == ["prompt", "model", "note"]
    everything = (await get(api, held, "rows"))["items"]
    assert [row["seq"] for row in everything] == sorted({row["seq"] for row in (*rows, *below)})


async def test_a_row_appears_when_it_begins_and_keeps_its_place(api: httpx.AsyncClient, held: Held) -> None:
    write_everything(held)
    held.finish()
    last = held.scene.store.orders.get(held.order_id).last_seq
    final = [row["seq"] for row in (await get(api, held, "rows"))["items"]]
    kinds: dict[int, list[str]] = {}
    for at in range(1, last + 1):
        rows = (await get(api, held, f"rows?at={at}"))["items"]
        assert [row["seq"] for row in rows] == [seq for seq in final if seq <= at]
        for row in rows:
            if row["kind"] not in (before := kinds.setdefault(row["seq"], [])):
                before.append(row["kind"])
    assert [became for became in kinds.values() if len(became) > 1] == [["tool", "child"], ["tool", "tools"]]


async def test_an_order_that_has_ended_looks_as_it_did_live(api: httpx.AsyncClient, held: Held) -> None:
    write_everything(held)
    live = await get(api, held, "rows"), await get(api, held, "overview")
    at = held.last_seq
    held.finish()
    then = await get(api, held, f"rows?at={at}"), await get(api, held, f"overview?at={at}")
    assert then[0]["items"] == live[0]["items"]
    assert then[1]["records"] == live[1]["records"]


async def test_pages_of_rows_go_both_ways_and_around_an_entry(api: httpx.AsyncClient, held: Held) -> None:
    write_everything(held)
    all_rows = [row["seq"] for row in (await get(api, held, "rows"))["items"]]
    seen: list[int] = []
    page = await get(api, held, "rows?limit=4")
    assert not page["later"]
    seen = [row["seq"] for row in page["items"]]
    while page["earlier"]:
        page = await get(api, held, f"rows?limit=4&before={seen[0]}")
        seen = [*(row["seq"] for row in page["items"]), *seen]
    assert seen == all_rows
    page, seen = await get(api, held, "rows?limit=4&after=0"), []
    assert not page["earlier"]
    while page["items"]:
        seen += [row["seq"] for row in page["items"]]
        page = await get(api, held, f"rows?limit=4&after={seen[-1]}")
    assert seen == all_rows
    for seq in all_rows:
        around = await get(api, held, f"rows?limit=3&around={seq}")
        assert seq in [row["seq"] for row in around["items"]] and len(around["items"]) == 3


async def test_rows_can_be_of_some_kinds_alone(api: httpx.AsyncClient, held: Held) -> None:
    write_everything(held)
    rows = (await get(api, held, "rows?kinds=gate&kinds=steer"))["items"]
    assert [row["kind"] for row in rows] == ["steer", "gate", "gate"]


async def test_an_answer_with_large_rows_ends_early_and_the_next_one_goes_on(
    api: httpx.AsyncClient, held: Held
) -> None:
    held.write(started())
    coloured = "```python\n" + "a=1;" * 1_000
    for number in range(1, 121):
        held.write(asked(number), replied(coloured, round_number=number))
    page = await get(api, held, "rows?limit=200")
    assert page["earlier"] and not page["later"] and len(page["items"]) < 120
    assert page["items"][-1]["cut"]
    earlier = await get(api, held, f"rows?limit=200&before={page['items'][0]['seq']}")
    assert earlier["later"] and earlier["items"][-1]["seq"] < page["items"][0]["seq"]
    middle = await get(api, held, "rows?limit=200&around=100")
    assert any(row["seq"] <= 100 < row["seq"] + 2 for row in middle["items"])


async def test_a_journal_can_be_read_by_kind_record_and_call(api: httpx.AsyncClient, held: Held) -> None:
    child = write_everything(held)
    entries = (await get(api, held, "journal"))["items"]
    for query, picked in (
        ("kind=gate.checked", [one for one in entries if one["kind"] == "gate.checked"]),
        (
            "kind=gate.checked&kind=agent.started",
            [e for e in entries if e["kind"] in ("gate.checked", "agent.started")],
        ),
        (f"record_id={child}", [one for one in entries if one["record_id"] == child]),
        ("call_id=c9", [one for one in entries if one["data"].get("call_id") == "c9"]),
        (f"record_id={child}&kind=agent.finished", [entry for entry in entries if entry["record_id"] == child][-1:]),
        ("kind=nonsense", []),
    ):
        assert (page := await get(api, held, f"journal?{query}")) == {"items": picked, "next_cursor": None}, query
        paged: list[Any] = []
        page = await get(api, held, f"journal?{query}&limit=1")
        while True:
            paged += page["items"]
            if page["next_cursor"] is None:
                break
            page = await get(api, held, f"journal?{query}&limit=1&cursor={page['next_cursor']}")
        assert paged == picked, query


async def test_whoever_reads_a_long_order_stores_its_parts(api: httpx.AsyncClient, held: Held, store: Store) -> None:
    held.write(started())
    master, number = held.origin.record_id or "", 0
    while held.last_seq < PART_ENTRIES + 100:
        number += 1
        held.write(asked(number), replied(round_number=number), called(master, number), returned(master, number))
    for path in ("overview", "rows?limit=5"):
        index = (await get(api, held, path))["index"]
        while index["to"] < index["of"]:
            index = (await get(api, held, path))["index"]
    assert len(store.parts.stored(held.order_id, 0)) == PART_ENTRIES
    held.write(asked(number + 1), replied(round_number=number + 1))
    again = await get(api, held, "overview")
    assert again["last_seq"] == held.last_seq and again["records"][0]["steps"] == number + 1


async def test_answers_are_as_described(api: httpx.AsyncClient, held: Held, document: dict[str, Any]) -> None:
    write_everything(held)
    for path in ("overview", "rows"):
        answer = await api.get(f"{ORDERS}/{held.order_id}/{path}")
        check(document, answer, f"{ORDERS}/{{order_id}}/{path}")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("overview?cursor=x", 400),
        ("overview?at=0", 422),
        ("rows?before=1&after=2", 422),
        ("rows?kinds=nonsense", 422),
        ("rows?limit=201", 422),
    ],
)
async def test_what_cannot_be_asked_is_refused(api: httpx.AsyncClient, held: Held, path: str, status: int) -> None:
    assert (await api.get(f"{ORDERS}/{held.order_id}/{path}")).status_code == status


async def test_nobody_reads_an_order_that_is_not_there(api: httpx.AsyncClient) -> None:
    for path in ("overview", "rows", "journal?kind=x"):
        answer = await api.get(f"{ORDERS}/01900000-0000-7000-8000-000000000000/{path}")
        assert answer.status_code == 404, path

"""What a model was asked with, over HTTP: its pages are bounded, and what cannot be told says why."""

import json
from typing import Any

import httpx
import pytest

from mcc.contracts.blocks import blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStarted, ControlApplied
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.usage import Usage
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from tests.mcc.api.test_answers_as_described import check

MOST_BYTES = 2_000_000
ASKED = ModelStarted(round=1, attempt=1, model="offline", reserved_output_tokens=4_096)


def setup(system: str = "Be brief.", **tool: Any) -> str:
    told = {"name": "read_file", "description": "Reads.", "parameters": {"type": "object"}, **tool}
    return json.dumps({"system": system, "tools": [told]})


def held(store: Store, prompt: str = "Look", kept: str | None = None) -> HeldOrder:
    order = store.orders.place(NewOrder(prompt=prompt), by=Actor("test")).order
    claimed = HandDrone(store).claim(order.id)
    claimed.start(setup=kept or setup())
    return claimed


def path(order: HeldOrder, seq: int) -> str:
    return f"/api/v1/orders/{order.id}/calls/{seq}"


async def test_a_call_is_told_with_its_reply_once_that_is_there(api: httpx.AsyncClient, store: Store) -> None:
    order = held(store)
    asked = order.write(ASKED)
    before = (await api.get(path(order, asked))).json()
    assert before["usage"] is before["cached_share"] is before["reply_seq"] is None
    assert (before["system"], before["tools"][0]["description"]) == ("Be brief.", "Reads.")
    (message,) = before["messages"]
    assert message["blocks"] == [{"type": "text", "text": "Look", "extra": None}]
    assert (message["role"], message["seq"], message["order_id"]) == ("user", asked - 1, order.id)
    used = Usage(model_calls=1, input_tokens=200, cached_input_tokens=50)
    replied = order.write(
        ModelReplied(round=1, attempt=1, model="offline", finish_reason="stop", usage=used, blocks=blocks_of("Done."))
    )
    after = (await api.get(path(order, asked))).json()
    assert (after["cached_share"], after["reply_seq"]) == (0.25, replied)
    assert after["messages"] == before["messages"], "what came later is not in it"


async def test_an_attempt_without_a_reply_does_not_have_that_of_the_next(api: httpx.AsyncClient, store: Store) -> None:
    order = held(store)
    first = order.write(ASKED)
    second = order.write(ASKED.model_copy(update={"attempt": 2}))
    replied = order.write(ModelReplied(round=1, attempt=2, model="offline", finish_reason="stop", usage=Usage()))
    assert (await api.get(path(order, first))).json()["reply_seq"] is None
    assert (await api.get(path(order, second))).json()["reply_seq"] == replied


async def test_any_other_entry_is_404_and_says_which_to_name(api: httpx.AsyncClient, store: Store) -> None:
    order = held(store)
    for seq, why in ((order.seq, "no model call but agent.started"), (order.seq + 1, "is not there")):
        answer = await api.get(path(order, seq))
        assert answer.status_code == 404 and why in answer.json()["detail"]
        assert f"/api/v1/orders/{order.id}/journal?kind=model.started" in answer.json()["detail"]
    assert (await api.get(f"{path(order, order.seq)}?cursor=x")).status_code == 400
    assert (await api.get(path(order, 0))).status_code == 422


async def test_what_is_not_stored_any_more_is_410(api: httpx.AsyncClient, store: Store) -> None:
    order = store.orders.place(NewOrder(prompt="Look"), by=Actor("test")).order
    claimed = HandDrone(store).claim(order.id)
    claimed.start()  # keeps no set-up
    asked = claimed.write(ASKED)
    answer = await api.get(path(claimed, asked))
    assert answer.status_code == 410 and "not stored any more" in answer.json()["detail"]
    whole = held(store)
    asked = whole.write(ASKED)
    whole.finish()
    assert (await api.get(path(whole, asked))).status_code == 200
    for _ in store.retention.clear(store.database.clock.now()):
        pass
    answer = await api.get(path(whole, asked))
    assert answer.status_code == 410 and f"/orders/{whole.id}/record" in answer.json()["detail"]


@pytest.mark.parametrize("letter", ["x", "\x1b", "\u202e"])
async def test_no_page_is_too_large_whatever_was_said(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any], letter: str
) -> None:
    long = letter * 90_000
    order = held(store, long, setup(letter * 1_000_000, parameters={"one": long * 9}))
    for number in range(12):
        order.write(ControlApplied(control_id=f"c{number}", control="steer", message=f"{number} {long}"))
    order.write(ControlApplied(control_id="last", control="steer", message="short"))
    asked = order.write(ASKED)
    page, messages = None, list[Any]()
    while page is None or page["next_cursor"] is not None:
        cursor = "" if page is None else f"?cursor={page['next_cursor']}"
        answer = await api.get(path(order, asked) + cursor)
        assert answer.status_code == 200 and len(answer.content) <= MOST_BYTES
        page = answer.json()
        check(document, answer, "/api/v1/orders/{order_id}/calls/{seq}")
        assert (page["cut"], bool(page["tools"])) == (not messages, not messages)
        messages += page["messages"]
    assert len(messages) == page["of"] == 14
    assert messages[-1]["blocks"][0]["text"] == "short"
    assert all(one["cut"] or len(one["blocks"][0]["text"]) >= 90_000 for one in messages[:-1])


async def test_a_message_of_very_many_blocks_is_cut(api: httpx.AsyncClient, store: Store) -> None:
    order = held(store)
    many = blocks_of("Many.") + tuple(blocks_of(str(number) * 30)[0] for number in range(100, 30_000))
    order.write(ModelReplied(round=1, attempt=1, model="offline", finish_reason="stop", usage=Usage(), blocks=many))
    asked = order.write(ASKED)
    answer = await api.get(path(order, asked))
    assert len(answer.content) <= MOST_BYTES
    reply = answer.json()["messages"][-1]
    assert reply["cut"] and reply["blocks"][0]["text"] == "Many."


async def test_a_conversation_that_went_on_from_what_is_gone_is_410(api: httpx.AsyncClient, store: Store) -> None:
    order = held(store)
    gone = Origin(record_id="child", parent_id=order.master.record_id, agent="helper", depth=1)
    (first,) = [entry.data for entry in store.journal.read(order.id, after=order.seq - 1, limit=1)]
    assert isinstance(first, AgentStarted)
    order.write(first.model_copy(update={"continues": "before", "continues_order": fresh_id()}), origin=gone)
    asked = order.write(ASKED, origin=gone)
    answer = await api.get(path(order, asked))
    assert answer.status_code == 410 and "went on from" in answer.json()["detail"]

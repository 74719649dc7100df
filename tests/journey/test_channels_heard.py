"""The documented channels of the real family: what a program that reads Redis sees of an order."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from mcc.contracts.entry import Entry
from mcc.contracts.wire import LARGEST_ENTRY_BYTES, STATUS_CHANNEL, order_channel
from tests.journey.conftest import ON_SQLITE, House
from tests.journey.script import HARBOUR, SURVEY

pytestmark = [pytest.mark.group("turns"), ON_SQLITE]

SECONDS = 30
MOVES = {"queued", "running", "succeeded"}
"""They may come in another order: each process tells what it has committed."""


@contextmanager
def heard(house: House) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    """Channel and message of everything that goes out from now on; ends after `SECONDS` of silence."""
    address = house.family.settings.data_dir / "run" / "redis.sock"
    with redis.Redis(unix_socket_path=str(address)) as client, client.pubsub() as all_of_it:
        all_of_it.psubscribe("mcc:*")
        assert all_of_it.get_message(timeout=SECONDS) is not None

        def messages() -> Iterator[tuple[str, dict[str, Any]]]:
            while (message := all_of_it.get_message(timeout=SECONDS)) is not None:
                channel = message["channel"].decode()
                if channel == STATUS_CHANNEL or channel.startswith(("mcc:order:", "mcc:drone:")):
                    yield channel, json.loads(message["data"])

        yield messages()


def test_the_channels_tell_every_entry_each_move_and_that_drones_are_there(house: House) -> None:
    with heard(house) as messages:
        order = house.mcc.orders.submit(SURVEY, workspace=house.workspace, model=HARBOUR)
        told: list[dict[str, Any]] = []
        moves: set[str] = set()
        beats: set[str] = set()
        for channel, message in messages:
            if channel == order_channel(order.id) and message["type"] == "entry":
                told.append(message)
            if channel == STATUS_CHANNEL and message["order_id"] == order.id:
                moves.add(message["status"])
            if channel.startswith("mcc:drone:"):
                assert channel == f"mcc:drone:{message['drone']}" and message["slots"] == 20
                beats.add(message["drone"])
            if moves == MOVES and beats == {"drone-1", "drone-2"}:
                break
        else:
            pytest.fail(f"there was silence after {moves} and {beats}")
    entries = {entry.seq: entry for entry in house.mcc.orders.watch(order.id)}
    assert sorted({message["seq"] for message in told}) == list(entries)
    for message in told:
        _assert_is(message, entries[message["seq"]])


def _assert_is(message: dict[str, Any], entry: Entry) -> None:
    whole = json.loads(entry.model_dump_json())
    if message.get("whole", True):
        assert {name: value for name, value in message.items() if name != "type"} == whole
        return
    assert len(json.dumps(whole)) > LARGEST_ENTRY_BYTES / 2
    assert {name: whole[name] for name in ("seq", "kind", "record_id", "agent")} == {
        name: message[name] for name in ("seq", "kind", "record_id", "agent")
    }

"""docs/reference/channels.md: what goes out over Redis pub/sub, with the JSON Schema of each message."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from mcc.contracts.entry import Entry
from mcc.contracts.wire import (
    LARGEST_ENTRY_BYTES,
    STATUS_CHANNEL,
    Delta,
    DroneBeat,
    EntryHead,
    Hint,
    InboxMoved,
    Progress,
    control_channel,
    drone_channel,
    order_channel,
)

MESSAGES: Mapping[str, type[BaseModel]] = {
    "head of a large entry": EntryHead,
    "delta": Delta,
    "progress of a generation": Progress,
    "hint": Hint,
    "move in the inbox": InboxMoved,
    "heartbeat": DroneBeat,
}

SUBSCRIBER = """\
import json
import sys

import redis

order_id, seen = sys.argv[1], 0
with redis.Redis.from_url("redis://127.0.0.1:6379/0") as client, client.pubsub() as channel:
    channel.subscribe(f"mcc:order:{order_id}")
    for message in channel.listen():
        if message["type"] != "message":
            continue
        told = json.loads(message["data"])
        if told["type"] == "delta":
            print(told["text"], end="", flush=True)
        elif told["type"] == "entry" and told["seq"] > seen:
            seen = told["seq"]
            whole = told.get("whole", True)
            print(seen, told["kind"], told["agent"] or "", "" if whole else "(large: see the journal)")
            if told["kind"] == "order.finished":
                break
"""


def page() -> Iterator[str]:
    yield "# Channels"
    yield ""
    yield "What is committed, and text on its way, goes out over Redis pub/sub, for programs that can reach Redis."
    yield "These messages are hints: Redis keeps none, one may be lost, come twice or come before an earlier one."
    yield "The journal has every entry under its number; [the event stream](http.md) and the Python client read it."
    yield "With another [`redis_prefix`](configuration.md), all names begin with that instead of `mcc:`."
    yield ""
    yield "| channel | carries |"
    yield "| --- | --- |"
    kilobytes = LARGEST_ENTRY_BYTES // 1024
    yield (
        f"| `{order_channel('ID')}` | of one order: each entry of its journal (`entry`; whole up to {kilobytes} KB,"
        " else its head, with `whole: false`), text on its way (`delta`), how far a generation is (`progress`), and how"
        " far its journal is (`hint`) |"
    )
    yield (
        f"| `{STATUS_CHANNEL}` | of all orders: each move (`hint` with `status`), and that an item of the inbox was"
        " asked or settled (`inbox`) |"
    )
    yield f"| `{drone_channel('NAME')}` | of one drone: that it is there, every two seconds (`heartbeat`) |"
    yield (
        f"| `{control_channel('INCARNATION')}` | to one drone process: that a control or orders"
        " wait (`wake`, `orders_wait`), and checks of models and MCP servers; for drones alone |"
    )
    yield ""
    yield "Every message is a JSON object with a `type`. An entry has the fields of [the journal](journal.md) beside"
    yield "it: `order_id`, `seq`, `at`, `kind`, `record_id`, `parent_id`, `agent`, `depth`, `data`. Text may hold any"
    yield "character; read it with a JSON parser. Hints stay beside the entries for now: do not build on them."
    yield ""
    yield "## A subscriber"
    yield ""
    yield "```python"
    yield SUBSCRIBER.rstrip("\n")
    yield "```"
    yield ""
    yield "Their JSON Schemas are in [channels.schema.json](channels.schema.json). The `data` of an entry is"
    yield "described by kind in [the journal](journal.md)."


def schemas() -> str:
    """The JSON Schema of each message, by name, as a file."""
    named: dict[str, object] = {"entry": _entry_schema()}
    parts: dict[str, object] = {}
    for name, model in MESSAGES.items():
        schema = model.model_json_schema()
        # References in a schema are relative to the file, so what they refer to stands at its top.
        parts |= schema.pop("$defs", {})
        # Every message is sent with its type, although that is the default in the code.
        named[name] = {**schema, "required": ["type", *schema["required"]]}
    return json.dumps({"$defs": {**named, **parts}}, indent=1) + "\n"


def _entry_schema() -> dict[str, Any]:
    schema = TypeAdapter(Entry).json_schema(mode="serialization")
    properties = {**schema["properties"], "type": {"const": "entry"}, "data": {"type": "object"}}
    return {"type": "object", "properties": properties, "required": ["type", *schema["required"]]}

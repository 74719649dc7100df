"""Pages that are written out of the code say what the code says."""

import ast
import json
from collections.abc import Mapping

import jsonschema
import pytest
from pydantic import BaseModel

from drone.settings import ADDRESS_SETTINGS, NOT_IN_THE_ENVIRONMENT
from drone.settings import Settings as DroneSettings
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.journal import FACTS, AgentStep
from mcc.contracts.shape import now, to_json
from mcc.contracts.wire import (
    LARGEST_ENTRY_BYTES,
    Delta,
    DroneBeat,
    GenerationProgress,
    Hint,
    InboxMoved,
    Progress,
    entry_message,
)
from mcc.settings import ServiceSettings
from scripts.reference import channels, journal, settings
from scripts.reference.__main__ import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), "run: python -m scripts.reference"


def test_every_page_of_the_reference_is_written_by_the_program() -> None:
    there = {f"reference/{path.name}" for path in (DOCS / "reference").iterdir()}
    assert there == {name for name in PAGES if name.startswith("reference/")}


def test_every_setting_and_every_kind_of_entry_is_explained_and_nothing_else() -> None:
    assert set(settings.OF_MCC) == set(ServiceSettings.model_fields) - ServiceSettings.own_tables
    assert set(settings.OF_DRONES) == {*DroneSettings.model_fields, *ADDRESS_SETTINGS} - NOT_IN_THE_ENVIRONMENT
    assert set(journal.MEANINGS) == set(FACTS)


def schema_of(name: str) -> jsonschema.Draft202012Validator:
    """A validator of this kind of message, from the file as it is shipped."""
    shipped = json.loads((DOCS / "reference/channels.schema.json").read_text("utf-8"))
    return jsonschema.Draft202012Validator({**shipped, "$ref": f"#/$defs/{name}"})


ENTRY = Draft(
    at=now(), origin=Origin(record_id="r", agent="master"), data=AgentStep(name="note", message="It looks")
).numbered("o", 3)
LARGE = ENTRY.model_copy(update={"data": AgentStep(name="note", message="x" * LARGEST_ENTRY_BYTES)})
COUNTS = {"done": 1, "running": 1, "pending": 1, "stale": 0, "failed": 0, "conflicts": 0, "output_tokens": 7}
EXAMPLES: Mapping[str, BaseModel | bytes] = {
    "entry": entry_message(ENTRY),
    "head of a large entry": entry_message(LARGE),
    "delta": Delta(order_id="o", epoch=1, record_id="r", kind="model.delta", round=1, attempt=1, offset=0, text="Hi"),
    "progress of a generation": Progress(order_id="o", epoch=1, data=GenerationProgress(document_id="d", **COUNTS)),
    "hint": Hint(order_id="o", seq=3, status="running"),
    "move in the inbox": InboxMoved(order_id="o"),
    "heartbeat": DroneBeat(drone="d", incarnation="i", at=now(), slots=2, active=1, draining=False),
}


@pytest.mark.parametrize("name", ["entry", *channels.MESSAGES])
def test_a_message_of_each_kind_is_what_the_shipped_schema_says(name: str) -> None:
    example = EXAMPLES[name]
    message = json.loads(example if isinstance(example, bytes) else to_json(example))
    schema_of(name).validate(message)
    for missing in ("type", "order_id" if "order_id" in message else "drone"):
        with pytest.raises(jsonschema.ValidationError):
            schema_of(name).validate({key: value for key, value in message.items() if key != missing})


def test_an_entry_that_is_only_matched_does_not_count_as_written() -> None:
    assert "order.finished" in journal.written()
    matched = ast.parse("match fact:\n    case OrderFinished():\n        tell()")
    assert list(journal.called(matched)) == ["tell"]

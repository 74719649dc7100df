"""Contracts keep their JSON (golden files), and their models are closed and frozen."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from mcc.contracts import journal
from mcc.contracts.entry import Entry, fact_of
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.shape import Closed, to_json
from mcc.contracts.upcast import upcast
from tests.mcc.contracts.golden import FOLDER, canonical
from tests.mcc.contracts.samples import FACTS, SAMPLES, entry


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_written_as_its_golden_file(name: str) -> None:
    assert canonical(SAMPLES[name]) == (FOLDER / f"{name}.json").read_bytes(), (
        "the shape of a contract changed; if it was meant to, run python -m tests.mcc.contracts.golden"
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_a_golden_file_is_read_back_as_its_sample(name: str) -> None:
    sample = SAMPLES[name]
    assert type(sample).model_validate(json.loads((FOLDER / f"{name}.json").read_bytes())) == sample


OLD_VERSIONS = sorted(FOLDER.glob("version-*/*.json"))


@pytest.mark.parametrize("path", OLD_VERSIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_entry_of_an_older_version_is_read_as_one_of_this(path: Path) -> None:
    old, kind = json.loads(path.read_bytes()), path.stem.removeprefix("journal-")
    sample = next(fact for fact in FACTS if fact.kind == kind)
    written = json.loads((FOLDER / path.name).read_bytes())["data"]
    read = upcast(kind, old["data"])
    assert isinstance(read, dict)
    absent = {name: type(sample).model_fields[name].default for name in written.keys() - read.keys()}
    assert fact_of(kind, old["data"]) == sample.model_copy(update=absent)


def test_there_is_a_golden_file_for_every_sample_and_no_other() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(SAMPLES)


def test_every_kind_of_journal_entry_has_a_sample() -> None:
    assert {fact.kind for fact in FACTS} == set(journal.FACTS)


def test_the_kinds_are_those_that_the_interface_promises() -> None:
    promised = (
        "order.queued, order.claimed, order.requeued, order.handed_back, order.waiting, order.resumed, "
        "order.finished, agent.started, agent.step, agent.reused, agent.delivered, agent.finished, model.started, "
        "model.replied, model.retried, model.fell_back, tool.started, tool.finished, gate.checked, verify.checked, "
        "budget.warned, control.applied, approval.requested, approval.decided, question.asked, question.answered, "
        "transcript.compacted, document.changed, workspace.checkpointed, workspace.held, workspace.committed, "
        "worktree.made, worktree.ended, delivery.started, delivery.finished"
    )
    assert set(journal.FACTS) == set(promised.split(", "))


def test_every_field_of_a_sample_is_filled_with_something_of_its_own() -> None:
    for fact in FACTS:
        assert fact.model_fields_set == set(type(fact).model_fields), fact.kind


def models() -> Iterator[type[Closed]]:
    """Every closed model of the contracts, except generic ones."""
    waiting: list[type[Closed]] = [Closed]
    while waiting:
        for model in waiting.pop().__subclasses__():
            if not model.__module__.startswith("mcc.contracts"):
                continue
            waiting.append(model)
            if "[" not in model.__name__ and not model.__pydantic_generic_metadata__["parameters"]:
                yield model


def test_every_model_of_the_contracts_is_closed_and_frozen() -> None:
    found = set(models())
    assert len(found) > 50
    for model in found:
        assert model.model_config["extra"] == "forbid", model
        assert model.model_config["frozen"] is True, model


def parts(value: object) -> Iterator[BaseModel]:
    """The models within a sample, itself included."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from parts(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from parts(item)


@pytest.mark.parametrize("name", SAMPLES)
def test_no_part_of_a_sample_can_be_changed(name: str) -> None:
    for part in parts(SAMPLES[name]):
        for field in type(part).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(part, field, None)


FREE = {"arguments", "extra", "detail", "result", "result_schema", "permission"} | {
    *("commands", "content", "fields", "metadata", "props")
}
"""Keys whose values may be any JSON."""

BY_NAME = {"provenance"}
"""Keys whose values are mappings from names to closed models."""


def closed_objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for key, item in value.items():
            if key in BY_NAME:
                yield from closed_objects(list(item.values()))
            elif key not in FREE and value.get("type") != "opaque":
                yield from closed_objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from closed_objects(item)


def sent(sample: BaseModel) -> Any:
    """The sample as JSON, without the fields computed from a reply's blocks, which are not read back."""
    document = json.loads(to_json(sample))
    if isinstance(sample, Entry) and isinstance(sample.data, ModelReplied):
        document["data"] = json.loads(to_json(sample.data.stored))
    return document


@pytest.mark.parametrize("name", SAMPLES)
def test_an_unknown_key_is_refused_wherever_it_stands(name: str) -> None:
    count = len(list(closed_objects(sent(SAMPLES[name]))))
    for index in range(count):
        document = sent(SAMPLES[name])
        list(closed_objects(document))[index]["unheard_of"] = 1
        with pytest.raises(ValidationError, match="unheard_of"):
            type(SAMPLES[name]).model_validate(document)


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no journal entry of kind 'order\.eaten'"):
        fact_of("order.eaten", {})
    document = json.loads(to_json(entry(FACTS[0]))) | {"kind": "order.eaten"}
    with pytest.raises(ValidationError, match=r"order\.eaten"):
        Entry.model_validate(document)


def test_the_data_of_one_kind_is_not_taken_for_another() -> None:
    document = json.loads(to_json(entry(FACTS[0]))) | {"kind": "model.started"}
    with pytest.raises(ValidationError):
        Entry.model_validate(document)

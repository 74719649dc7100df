"""Pages that are written out of the code say what the code says."""

import ast

import pytest

from drone.settings import ADDRESS_SETTINGS, NOT_IN_THE_ENVIRONMENT
from drone.settings import Settings as DroneSettings
from mcc.contracts.journal import FACTS
from mcc.settings import ServiceSettings
from scripts.reference import journal, settings
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


def test_an_entry_that_is_only_matched_does_not_count_as_written() -> None:
    assert "order.finished" in journal.written()
    matched = ast.parse("match fact:\n    case OrderFinished():\n        tell()")
    assert list(journal.called(matched)) == ["tell"]

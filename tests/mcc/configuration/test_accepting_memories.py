"""The table [memory]: what counts without a person, and which tables are refused."""

import pytest
from pydantic import ValidationError

from mcc.configuration.memory import MemoryChange, MemorySettings

PLAIN = MemoryChange("build", "make check", "general", tainted=False)
READ = MemoryChange("build", "make check", "general", tainted=True)


@pytest.mark.parametrize(
    ("table", "plain", "read"),
    [
        ({}, True, False),
        ({"accept": "all"}, True, True),
        ({"accept": "people"}, False, False),
        ({"accept": "rule", "when": "true"}, True, True),
        ({"accept": "rule", "when": "!tainted"}, True, False),
        ({"accept": "rule", "when": 'agent == "general" && text.contains("make") && name == "build"'}, True, True),
        ({"accept": "rule", "when": 'agent == "explore"'}, False, False),
        ({"accept": "rule", "when": "tainted ? true : size(text) / 0 > 1"}, False, True),
    ],
)
def test_what_counts_at_once(table: dict[str, str], plain: bool, read: bool) -> None:
    settings = MemorySettings.model_validate(table)
    assert (settings.accepts(PLAIN), settings.accepts(READ)) == (plain, read)


@pytest.mark.parametrize(
    "table",
    [
        {"accept": "rule"},
        {"when": "true"},
        {"accept": "all", "when": "true"},
        {"accept": "rule", "when": "taint"},
        {"accept": "rule", "when": "name +"},
        {"accept": "rule", "when": '"yes"'},
        {"accept": "nobody"},
        {"stale_days": 0},
        {"stale_days": float("nan")},
        {"stale": 3},
    ],
)
def test_tables_that_are_refused(table: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MemorySettings.model_validate(table)

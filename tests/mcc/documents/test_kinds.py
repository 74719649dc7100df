"""Types of fields: which values they accept, and the stored form."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from mcc.contracts.blueprints import FieldSpec
from mcc.documents.kinds import as_date, as_stored, check_kind

SPEC: TypeAdapter[FieldSpec] = TypeAdapter(FieldSpec)
KINDS: dict[str, dict[str, Any]] = {
    "text": {"type": "text"},
    "number": {"type": "number", "integer": True},
    "boolean": {"type": "boolean"},
    "choice": {"type": "choice", "options": ["a", "b"]},
    "date": {"type": "date"},
    "reference": {"type": "reference", "to": "lesson"},
    "list": {"type": "list", "items": {"type": "number"}},
}
VALUES: dict[str, list[object]] = {
    "text": ["", "x" * 100, "\ud800", "nul \0"],
    "number": [0, -1.5, 10**40, 1e300],
    "boolean": [True, False],
    "choice": ["a", "other"],
    "date": ["2026-02-28", "0001-01-01"],
    "reference": ["/", "/lesson-2"],
    "list": [[], [1, 2.5], (3,)],
}


def spec(kind: str) -> FieldSpec:
    return SPEC.validate_python(KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_its_kind_fits_and_null_always_does(kind: str) -> None:
    assert check_kind(spec(kind), None) is None
    assert [check_kind(spec(kind), value) for value in VALUES[kind]] == [None] * len(VALUES[kind])


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("text", 3, "This must be a text, and a number was given."),
        ("text", ["a"], "This must be a text, and a list was given."),
        ("number", "3", "This must be a number, and a text was given."),
        ("number", True, "This must be a number, and true was given."),
        ("number", float("nan"), "This must be a number, and JSON does not have nan."),
        ("number", 10**400, "This number has more than 300 digits."),
        ("boolean", 1, "This must be true or false, and a number was given."),
        ("choice", False, "This must be one of its options, a text, and false was given."),
        ("date", "2026-02-30", "This must be a date, such as 2026-01-31, and '2026-02-30' is not one."),
        ("date", "20260228", "This must be a date, such as 2026-01-31, and '20260228' is not one."),
        ("date", "2026-W01-1", "This must be a date, such as 2026-01-31, and '2026-W01-1' is not one."),
        ("date", 20260228, "This must be a date, such as 2026-01-31, and a number was given."),
        ("reference", "lesson-2", "This must be the path of a node, such as /lesson-2, and 'lesson-2' is not one."),
        ("reference", {}, "This must be the path of a node, and an object was given."),
        ("list", "ab", "This must be a list, and a text was given."),
        ("list", [1, None], "Item 2: An item of a list cannot be null."),
        ("list", [1, "2"], "Item 2: This must be a number, and a text was given."),
    ],
)
def test_another_value_is_told_what_was_needed(kind: str, value: object, why: str) -> None:
    assert check_kind(spec(kind), value) == why


def test_what_only_breaks_a_rule_is_of_the_kind() -> None:
    assert check_kind(spec("number"), 2.5) is None
    assert check_kind(spec("choice"), "none of them") is None


def test_whole_numbers_are_kept_whole_and_lists_are_lists() -> None:
    assert repr(as_stored(spec("number"), 45.0)) == "45"
    assert repr(as_stored(spec("number"), 45.5)) == "45.5"
    assert as_stored(spec("list"), (1, 2)) == [1, 2]


def test_days_beyond_the_calendar_are_none() -> None:
    assert as_date("2024-02-29") is not None
    assert as_date("2023-02-29") is None
    assert as_date("٢٠٢٤-٠٢-٢٩") is None

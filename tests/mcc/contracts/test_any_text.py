"""Contracts store any text of a provider exactly."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.contracts.entry import Entry
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import MAX_NESTING, digest, to_json
from tests.mcc.contracts.samples import AT, entry

any_text = st.text(st.characters(codec=None, categories=None), max_size=80)


def finished(content: str) -> ToolFinished:
    return ToolFinished(call_id="c", name="read_file", content=content, is_error=False)


@given(any_text)
def test_any_text_comes_back_exactly_and_never_as_a_raw_nul_or_half_a_pair(text: str) -> None:
    written = to_json(entry(finished(text)))
    written.decode("utf-8", "strict")
    assert b"\x00" not in written
    read = Entry.model_validate(json.loads(written)).data
    assert isinstance(read, ToolFinished)
    assert read.content == _as_json_reads(text)


def _as_json_reads(text: str) -> str:
    """Every JSON parser reads two adjacent surrogate halves as one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@given(st.dictionaries(any_text, any_text, max_size=4))
def test_any_text_may_stand_in_arguments_as_key_and_as_value(arguments: dict[str, str]) -> None:
    fact = ToolStarted(call_id="c", round=1, index=0, name="x", arguments=arguments, idempotent=False)
    read = Entry.model_validate(json.loads(to_json(entry(fact)))).data
    assert isinstance(read, ToolStarted)
    assert read.arguments == {_as_json_reads(key): _as_json_reads(value) for key, value in arguments.items()}


def test_numbers_that_json_has_not_become_null() -> None:
    for number in (math.inf, -math.inf, math.nan):
        assert json.loads(to_json({"a": [number], "b\ud800": number})) == {"a": [None], "b\ud800": None}


def test_what_is_nested_too_deep_is_refused_and_what_is_not_is_written() -> None:
    value: object = "\ud800"
    for _ in range(MAX_NESTING - 1):
        value = [value]
    assert json.loads(to_json(value))
    with pytest.raises(ValueError, match="nested deeper"):
        to_json([[value]])


@given(st.dictionaries(any_text, st.integers() | any_text | st.none(), max_size=5))
def test_a_digest_depends_on_the_content_and_not_on_the_order_of_keys(value: dict[str, object]) -> None:
    assert digest(value) == digest(dict(reversed(value.items())))
    assert digest({**value, "one more": 1}) != digest({**value, "one more": 2})


def test_a_time_without_a_zone_is_refused_and_one_of_another_zone_is_written_in_utc() -> None:
    with pytest.raises(ValueError, match="needs its zone"):
        NewOrder(prompt="x", not_before=AT.replace(tzinfo=None))
    eastern = datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2)))
    order = NewOrder(prompt="x", not_before=eastern)
    assert json.loads(to_json(order))["not_before"] == "2026-01-31T12:00:00Z"
    assert order.not_before == eastern.astimezone(UTC)


def test_a_time_beyond_the_last_year_in_utc_is_refused_and_does_not_break_anything() -> None:
    with pytest.raises(ValueError, match="between the years"):
        NewOrder.model_validate({"prompt": "x", "not_before": "9999-12-31T23:59:59-12:00"})

"""JSON at the edges: no lone surrogate, no number that JSON lacks, whatever the pieces in which it comes."""

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.contracts.control import metadata_problem
from mcc.contracts.shape import NotFinite, RepeatedKey, finite_json, to_json, unclear_json
from mcc.contracts.well_formed import WellFormed, well_formed

TEXTS = st.text(st.sampled_from('a\\"\n\ud800\udbff\udc00\udfff\U0001f600u\ufffd'), max_size=12)
_LONE = re.compile("[\ud800-\udfff]")


def joined(text: str) -> str:
    """As a JSON reader takes the escapes: a high and a low surrogate side by side are one character."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


@given(TEXTS, st.lists(st.integers(1, 9), max_size=40))
def test_every_lone_surrogate_is_replaced_and_nothing_else_whatever_the_pieces(text: str, sizes: list[int]) -> None:
    made = json.dumps({"k": text, text: 1}).encode()
    whole = well_formed(made)
    expected = _LONE.sub("\ufffd", joined(text))
    assert json.loads(whole) == {"k": expected, expected: 1} and len(whole) == len(made)
    pieces, stream, rest = [], WellFormed(), made
    for size in sizes:
        pieces.append(stream.feed(rest[:size]))
        rest = rest[size:]
    assert b"".join(pieces) + stream.feed(rest, last=True) == whole


def test_what_ends_with_no_escape_is_not_held_back() -> None:
    assert WellFormed().feed(b'data: {"a": "b"}\n\n') == b'data: {"a": "b"}\n\n'


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1E999"])
def test_a_number_that_json_lacks_is_found_anywhere(number: str) -> None:
    for text in (number, f"[[{number}]]", f'{{"a": {{"b": [1, {number}]}}}}'):
        assert isinstance(unclear_json(text), NotFinite) and isinstance(unclear_json(text.encode()), NotFinite)
    assert unclear_json(f'"{number}"') is None


def test_numbers_that_json_has_are_taken() -> None:
    for text in ("1e308", "-0.0", "1e-400", "123456789012345678901234567890", '{"a": null}', "{", "no json"):
        assert unclear_json(text) is None
    assert isinstance(unclear_json('{"a": 1, "a": 2}'), RepeatedKey)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_does_not_silently_become_null(number: float) -> None:
    with pytest.raises(NotFinite):
        finite_json({"a": [None, {"b": number}]})
    assert metadata_problem({"a": {"b": number}}) is not None
    value = {"a": None, "b": "null \ud800", "c": 1.5}
    assert finite_json(value) == to_json(value) and metadata_problem(value) is None

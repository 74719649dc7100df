"""Large texts are cut out of entries, and put back exactly."""

import json
from typing import Any

import pytest

from mcc.contracts.shape import to_json
from mcc.store.rows.texts import ENTRY_BYTES, STRING_BYTES, cut, digests, text_digest, whole


def back(value: object) -> tuple[Any, str, str | None, dict[str, str]]:
    blobs: dict[str, str] = {}
    document, places = cut(to_json(value), blobs)
    assert digests([places]) == set(blobs)
    return whole(document, places, blobs), document, places, blobs


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": "x" * STRING_BYTES},
        {"a": "x" * (STRING_BYTES + 1)},
        {"a": "é" * (STRING_BYTES // 2 + 1), "b": ["\ud800" * STRING_BYTES, {"c\x00": "\x00" * STRING_BYTES}]},
        {"a": {"$blob": "not ours"}, "b": "x" * 40_000},
        {str(number): "y" * 20_000 for number in range(10)},
        {"numbers": list(range(50_000))},
        {"k" * 70_000: "x"},
    ],
)
def test_what_was_cut_comes_back(value: object) -> None:
    again, document, _, blobs = back(value)
    assert again == value
    assert len(document.encode()) <= ENTRY_BYTES
    assert all(text_digest(text) == digest for digest, text in blobs.items())


def test_what_is_short_is_left_alone() -> None:
    _, document, places, blobs = back({"a": "x" * 1_000})
    assert json.loads(document) == {"a": "x" * 1_000} and places is None and not blobs


def test_a_preview_stays_where_the_text_was() -> None:
    _, document, places, _ = back({"a": ["b", "x" * 100_000]})
    assert json.loads(document) == {"a": ["b", "x" * 1_000]}
    assert json.loads(places or "") == [[["a", 1], text_digest("x" * 100_000)]]

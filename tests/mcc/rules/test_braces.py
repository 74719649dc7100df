"""Texts with CEL in braces: what is filled in, what stays as it is, and what is refused with its place."""

from typing import Any

import pytest

from mcc.rules.braces import MOST_CEL, MOST_EXPRESSIONS, Braces, Unfilled
from mcc.rules.kinds import JSON_VALUE, Shape, object_shape, text_shape

SHAPES: dict[str, Shape] = {
    "date": text_shape(),
    "previous": object_shape({"status": text_shape(nullable=True)}),
    "payload": JSON_VALUE,
}
PAYLOAD = {"ids": [1, 2], "text": "a } and a {", "ok": True}


def filled(value: Any, place: str = "prompt") -> Any:
    return Braces(SHAPES, {"date": "2027-01-31", "previous": {"status": None}, "payload": PAYLOAD}).filled(value, place)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Report for {date}", "Report for 2027-01-31"),
        ("{date}{date}", "2027-01-312027-01-31"),
        # One pair alone keeps the kind.
        ("{payload.ids}", [1, 2]),
        ("{size(payload.ids)}", 2),
        ("{payload.ok}", True),
        ("{previous.status}", None),
        ("{payload.ids} {payload.ok} {1.5} {previous.status}|", "[1,2] true 1.5 |"),
        # Braces that are none of ours.
        ('{{"day": "{date}"}', '{"day": "2027-01-31"}'),
        ("}} a } b", "}} a } b"),
        ("", ""),
        # Braces within an expression.
        ("{ {'a': {'b': 1}}.a.b }", 1),
        ("{'}'}{\"}\"}{r'\\'}{'''}'''}", "}}\\}"),
        ("{'\\'}'}", "'}"),
        ("{date // }\n}", "2027-01-31"),
        # What is filled in is not looked at again.
        ("{payload.text}", "a } and a {"),
        ("{string(timestamp('2027-01-01T00:00:00Z'))}", "2027-01-01T00:00:00Z"),
        ("{timestamp('2027-01-01T00:00:00Z')}", "2027-01-01T00:00:00Z"),
    ],
)
def test_a_text_is_filled_in(text: str, expected: Any) -> None:
    assert filled(text) == expected


def test_all_texts_within_a_value_are_filled_in_but_for_keys() -> None:
    value = {"labels": ["day {date}", 7], "{date}": {"ids": "{payload.ids}"}}
    assert filled(value) == {"labels": ["day 2027-01-31", 7], "{date}": {"ids": [1, 2]}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{dat}", "did you mean 'date'"),
        ("{previous.stats}", "did you mean 'status'"),
        ("{payload.idz}", "did you mean 'ids'"),
        ("{date + 1}", "never fits"),
        ("{}", "empty"),
        ("on {date", "write {{ for a brace"),
        ("{'}", "in {'}"),
        ("{date} " * (MOST_EXPRESSIONS + 1), "more than 50 expressions"),
        (f"{{'{'a' * MOST_CEL}'}}", "20,000 characters"),
        ("{payload.ids.map(x, payload.ids.map(y, payload.ids.map(z, payload.ids.map(w, w))))}", "may nest"),
    ],
)
def test_an_expression_that_cannot_be_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(Unfilled) as refused:
        filled({"a": ["", text]}, "metadata")
    assert refused.value.place == "metadata.a[1]"
    assert sentence in str(refused.value)


def test_what_all_texts_make_together_is_bounded() -> None:
    long = Braces({"text": text_shape()}, {"text": "x" * 300_000})
    with pytest.raises(Unfilled, match="more than 1,000,000 characters"):
        long.filled(["{text}"] * 4, "labels")


def test_the_steps_of_all_expressions_together_are_bounded() -> None:
    many = Braces({"items": JSON_VALUE}, {"items": list(range(120))})
    text = "{size(items.filter(x, items.exists(y, x + y < 0)))}"
    assert many.filled(text, "prompt") == 0
    with pytest.raises(Unfilled, match="more steps than one order may"):
        many.filled([text] * 10, "labels")

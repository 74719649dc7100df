"""YAML 1.2 with the core schema."""

from typing import Any

import pytest

from mcc.definitions.front_matter import YamlProblem
from mcc.definitions.yaml_text import MAX_NESTING, parse


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *[
            (word, word)
            for word in ("on", "off", "yes", "no", "y", "n", "On", "NO", "1_000", "12:30", "2026-01-31", "=")
        ],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, None) for word in ("null", "~", "Null", "")],
        ("010", 10),
        ("0o17", 15),
        ("0xff", 255),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("0b1", "0b1"),
        ("tRUE", "tRUE"),
    ],
)
def test_a_plain_scalar_is_what_version_1_2_says(written: str, value: Any) -> None:
    found = parse(f"key: {written}").value["key"]
    assert found == value
    assert type(found) is type(value)


def test_no_and_off_are_keys_like_any_other() -> None:
    assert parse("no: 1\noff: 2\n<<: {a: 3}").value == {"no": 1, "off": 2, "<<": {"a": 3}}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\nb: 2\na: 3", 3, "a second time"),
        ("a:\n  b: 1\n  b: 2", 3, "a second time"),
        ("a: {b: 1, b: 2}", 1, "a second time"),
        ("a: 1\n2: 3", 2, "a key must be text"),
        ("? [a]\n: b", 1, "a key must be text"),
        ("a: 1\nb: &x [1]", 2, "anchor"),
        ("a: 1\nb: *x", 2, "alias"),
        ("a: !!python/object:os.system x", 1, "leave it out"),
        ("a: !!binary aGk=", 1, "leave it out"),
        ("a: !!set {x}", 1, "leave it out"),
        ("a: !!map [x]", 1, "leave it out"),
        ("a: !!int x", 1, "cannot be read as int"),
        ("a: .inf", 1, "cannot be read as float"),
        ("a: 1e999", 1, "cannot be read as float"),
        ("a: " + "9" * 5_000, 1, "cannot be read as int"),
        ("a: 0x" + "f" * 5_000, 1, "cannot be read as int"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        ("a: b: c", 1, 'must be quoted: a: "b: c"'),
        ("a: @b", 1, "quote the value"),
    ],
)
def test_what_is_refused_is_told_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(YamlProblem) as caught:
        parse(text)
    assert caught.value.line == line
    assert said in caught.value.sentence


def test_aliases_cannot_multiply_a_small_file_into_a_large_one() -> None:
    bomb = "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\n"
    with pytest.raises(YamlProblem, match="anchor"):
        parse(bomb)


def test_nesting_ends_before_the_readers_stack_does() -> None:
    deepest = "a: " + "[" * (MAX_NESTING - 1) + "]" * (MAX_NESTING - 1)
    assert parse(deepest).value["a"]
    for text in ("a: " + "[" * 100_000, "a: " + "{b: " * 5_000, "- " * 5_000):
        with pytest.raises(YamlProblem, match="deeper than"):
            parse(text)


def test_the_place_of_every_part_is_known() -> None:
    lines = parse("a: 1\nb:\n  - x\n  - y: z\n").lines
    assert (lines[("a",)], lines[("b",)], lines[("b", 0)], lines[("b", 1, "y")]) == (1, 2, 3, 4)

"""No form of a secret survives in a text, however it is cut and whatever surrounds it; all else stays unchanged."""

import base64
import json
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcc.contracts.journal import AgentStep, ToolFinished
from mcc.redaction import MARK, Redactor

TOKEN = "mGq3_xZ-41vbR0aTeyKcPWd82LsHnQfU6oJiXtN5yEk"
LONG = "eyJhbGciOiJIUzI1NiJ9." + "".join(chr(97 + n * 7 % 26) + str(n * 13 % 10) for n in range(90))
ODD = 'pa"ss\\w/örd 2☃'

HIDDEN = Redactor([TOKEN, LONG, ODD])


def in_percents(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def in_some_percents(text: str) -> str:
    return "".join(f"%{ord(one):02X}" if at % 3 else quote(one) for at, one in enumerate(text))


def in_wrapped_base64(text: str) -> str:
    return base64.encodebytes(b"a line before: " * 4 + text.encode() + b" and after").decode()


def in_an_indented_block(text: str) -> str:
    return in_wrapped_base64(text).replace("\n", "\n    ")


def in_escaped_lines(text: str) -> str:
    return in_wrapped_base64(text).replace("\n", "\\r\\n")


def in_lines(text: str) -> str:
    return "\n".join(text[at : at + 20] for at in range(0, len(text), 20))


def in_an_indented_list(text: str) -> str:
    return in_lines(text).replace("\n", "\r\n    ")


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in lines": in_lines,
    "in an indented list": in_an_indented_list,
    "in escaped lines": lambda text: json.dumps(in_lines(text))[1:-1] if "\\" not in text else text,
    "with spaces of no width": "\u200b".join,
    "with a hyphen that is not seen": lambda text: f"{text[:9]}\u00ad{text[9:]}",
    "base64 with marks of no width": lambda text: "\ufeff".join(base64.b64encode(text.encode()).decode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 in lines": in_wrapped_base64,
    "base64 in an indented block": in_an_indented_block,
    "base64 in escaped lines": in_escaped_lines,
    "base64 after one byte": lambda text: base64.b64encode(b"x" + text.encode() + b"yz").decode(),
    "base64 after two bytes": lambda text: base64.b64encode(b"xy" + text.encode() + b"z").decode(),
    "percent": in_percents,
    "percent in capitals": lambda text: in_percents(text).upper().replace("%", "%"),
    "percent, then again": lambda text: quote(in_percents(text)),
    "query": lambda text: quote(text, safe=""),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "hex with spaces": lambda text: text.encode().hex(" "),
    "backwards": lambda text: text[::-1],
    "backwards in lines": lambda text: in_lines(text[::-1]),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "Python": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()) if text.isascii() else text,
}


EDGES = {
    "base64 without padding": 1,
    "base64 with marks of no width": 5,
    "base64 after one byte": 8,
    "base64 after two bytes": 8,
    "base64 in lines": 100,
    "base64 in an indented block": 110,
    "base64 in escaped lines": 110,
}
"""Characters that encode what surrounds the secret, some of them with a few bits of it."""


@pytest.mark.parametrize("secret", [TOKEN, LONG, ODD], ids=["token", "long", "odd"])
@pytest.mark.parametrize("name", FORMS)
def test_a_secret_is_found_in_every_form(name: str, secret: str) -> None:
    said = HIDDEN.text(f"the key: {FORMS[name](secret)}; that is all")
    assert said.startswith("the key: ") and said.endswith("; that is all")
    left = said.removeprefix("the key: ").removesuffix("; that is all").split(MARK)
    assert len(left) == 2 or secret is LONG, "a long secret may leave a digit where its pieces meet"
    assert all(len(one.strip(" \r\n\ufeff").removesuffix("\\n")) <= 1 for one in left[1:-1])
    assert len(left[0]) + len(left[-1]) <= EDGES.get(name, 0)


@given(before=st.binary(max_size=9), after=st.binary(max_size=9), url=st.booleans())
def test_base64_of_a_longer_text_has_it_no_more(before: bytes, after: bytes, url: bool) -> None:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    said = HIDDEN.text(encode(before + TOKEN.encode() + after).decode())
    assert MARK in said
    assert len(said) <= len(MARK) + (len(before) + len(after) + 8) * 4 // 3 + 4


@given(
    pieces=st.lists(
        st.one_of(
            st.text(max_size=20),
            st.tuples(st.sampled_from([TOKEN, LONG, ODD]), st.sampled_from(sorted(FORMS))).map(
                lambda chosen: FORMS[chosen[1]](chosen[0])
            ),
        ),
        max_size=5,
    ),
    data=st.data(),
)
def test_a_text_in_pieces_is_told_as_the_whole_would_be(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    stream = HIDDEN.stream()
    told = [stream.feed(text[start:end]) for start, end in pairwise([0, *cuts, len(text)])]
    assert "".join(told) + stream.end() == HIDDEN.text(text)
    assert not any(secret in HIDDEN.text(text) for secret in (TOKEN, LONG, ODD))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_no_cut_lets_a_secret_through(form: Callable[[str], str]) -> None:
    text = f"a {form(TOKEN)} b"
    whole = HIDDEN.text(text)
    for cut in range(len(text) + 1):
        stream = HIDDEN.stream()
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.end() == whole, cut
    stream = HIDDEN.stream()
    assert "".join(map(stream.feed, text)) + stream.end() == whole


@given(st.text())
def test_other_texts_are_the_very_same(text: str) -> None:
    assert HIDDEN.text(text) is text


def test_of_ordinary_prose_hardly_anything_is_held_back() -> None:
    prose = "The operator's token is kept in a file, which nobody else may read; ask for it with care. " * 40
    stream, told = HIDDEN.stream(), 0
    for at in range(0, len(prose), 4):
        told += len(stream.feed(prose[at : at + 4]))
        assert at + 4 - told <= 8


def test_what_only_begins_like_a_secret_is_told_as_soon_as_that_is_known() -> None:
    stream = HIDDEN.stream()
    assert stream.feed(f"it is {TOKEN[:-1]}") == "it is "
    assert stream.feed("? no") == f"{TOKEN[:-1]}? no"


def test_a_secret_within_another_leaves_nothing_of_the_longer_one() -> None:
    both = Redactor(["abcdefgh1234", "abcdefgh1234-and-more", "1234-and"])
    assert both.text("<abcdefgh1234-and-more> <abcdefgh1234-an>") == f"<{MARK}> <{MARK}-an>"
    stream = both.stream()
    assert "".join(map(stream.feed, "<abcdefgh1234-and-more>")) + stream.end() == f"<{MARK}>"


def test_of_two_that_begin_together_the_longer_counts_however_many_there_are() -> None:
    many = Redactor(["aaaaaaaa1", "aaaaaaaa2", "aaaaaaaa3", "abcdefgh1234", "abcdefgh1234-and-more"])
    assert many.text("<abcdefgh1234-and-more>") == f"<{MARK}>"


def test_secrets_side_by_side_are_one_mark() -> None:
    """So the number of pieces does not reveal the length of a secret."""
    assert HIDDEN.text(f"<{LONG}{TOKEN}>") == f"<{MARK}>"
    stream = HIDDEN.stream()
    assert "".join(map(stream.feed, f"<{LONG}{TOKEN}>")) + stream.end() == f"<{MARK}>"


def test_a_secret_that_begins_like_the_middle_of_another_lets_nothing_of_that_through() -> None:
    both = Redactor(["abcdefgh-ijklmnop", "h-ijklZZZZZZ"])
    stream = both.stream()
    assert "".join(map(stream.feed, "abcdefgh-ijklmnop h-ijklZZZZZZ")) + stream.end() == f"{MARK} {MARK}"


WORDS = st.text("ab6", min_size=8, max_size=11)
"""Secrets of so few letters that they overlap and resemble each other's encodings."""


@settings(max_examples=60, deadline=None)
@given(secrets=st.lists(WORDS, min_size=1, max_size=5), text=st.text("ab6%16 ", max_size=60), data=st.data())
def test_secrets_that_overlap_are_told_alike_in_pieces_and_whole(
    secrets: list[str], text: str, data: st.DataObject
) -> None:
    redactor = Redactor(secrets)
    whole = text + data.draw(st.sampled_from(secrets)) + text[:9]
    stream, size = redactor.stream(), data.draw(st.integers(1, 9))
    told = [stream.feed(whole[at : at + size]) for at in range(0, len(whole), size)]
    assert "".join(told) + stream.end() == redactor.text(whole)
    assert MARK in redactor.text(whole)


def test_words_too_short_to_be_secrets_are_left_alone() -> None:
    assert Redactor(["open"]).text("the password is open") == "the password is open"


def test_many_copies_cost_no_more_than_their_length() -> None:
    """The other values are searched for once, not again after every match."""
    many = Redactor([TOKEN, *(f"{number:03}-{TOKEN[::-1]}" for number in range(7))])
    assert many.text(f"{TOKEN} " * 4_000) == f"{MARK} " * 4_000


def test_texts_that_utf_8_cannot_carry_keep_what_they_have() -> None:
    assert HIDDEN.text(f"\ud800 {TOKEN} \udfff") == f"\ud800 {MARK} \udfff"
    assert HIDDEN.data(b"\xff " + TOKEN.encode()) == b"\xff " + MARK.encode()


def test_json_values_and_models_are_redacted_throughout() -> None:
    assert HIDDEN.value({TOKEN: [{"a": (TOKEN, 1, None)}]}) == {MARK: [{"a": (MARK, 1, None)}]}
    fact = ToolFinished(call_id="c", name="read_file", content=f"1\t{TOKEN}", is_error=False)
    assert HIDDEN.model(fact) == fact.model_copy(update={"content": f"1\t{MARK}"})
    other = AgentStep(name="note", message="nothing")
    assert HIDDEN.model(other) is other

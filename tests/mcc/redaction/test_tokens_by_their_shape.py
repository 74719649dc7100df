"""Tokens of people and services are found in texts without anybody knowing them."""

import pytest

from mcc.contracts.token_text import new_token
from mcc.redaction import MARK, Redactor


@pytest.mark.parametrize("kind", ["personal", "service"])
@pytest.mark.parametrize("around", ["{}", "a {} b", "MCC_TOKEN={}\n", '{{"token": "{}"}}', "mcc mccp_{}"])
def test_a_token_is_redacted_wherever_it_stands(kind: str, around: str) -> None:
    token = new_token(kind)  # type: ignore[arg-type]
    text = around.format(token)
    assert Redactor().text(text) == text.replace(token, MARK)
    assert Redactor(["another secret"]).value({token: [text]}) == {MARK: [text.replace(token, MARK)]}


def test_a_token_that_arrives_in_pieces_is_redacted_wherever_it_is_cut() -> None:
    text = f"before {new_token('personal')} after mcc"
    for cut in range(len(text) + 1):
        for second in (cut, min(cut + 3, len(text))):
            stream = Redactor().stream()
            pieces = [stream.feed(text[:cut]), stream.feed(text[cut:second]), stream.feed(text[second:]), stream.end()]
            assert "".join(pieces) == f"before {MARK} after mcc", (cut, second)


def test_what_cannot_become_a_token_is_passed_on_at_once() -> None:
    stream = Redactor().stream()
    assert stream.feed("mccp_short and more, mccq") == "mccp_short and more, mccq"
    assert stream.feed("the command mcc") == "the command "
    assert stream.feed(" up") == "mcc up" and stream.end() == ""


def test_a_text_without_tokens_stays_the_same_object() -> None:
    text = "mcc up, mccp_, " * 100
    assert Redactor().text(text) is text

"""Tokens are known by their spelling."""

import pytest

from mcc.contracts.token_text import DIGITS, TOKEN_CHARACTERS, is_token, new_token


@pytest.mark.parametrize(("kind", "prefix"), [("personal", "mccp_"), ("service", "mccs_")])
def test_a_new_token_is_one(kind: str, prefix: str) -> None:
    made = {new_token(kind) for _ in range(50)}  # type: ignore[arg-type]
    assert len(made) == 50 and all(token.startswith(prefix) and len(token) == TOKEN_CHARACTERS for token in made)
    assert all(is_token(token) for token in made)


def test_a_token_with_any_character_mistyped_is_none() -> None:
    token = new_token("personal")
    for place in range(len(token)):
        other = next(digit for digit in DIGITS if digit != token[place])
        assert not is_token(token[:place] + other + token[place + 1 :]), place


@pytest.mark.parametrize("text", ["", "mccp_", "mccx_" + "0" * 49, "mccp_" + "\xe4" * 49, "mccp_" + "0" * 49])
def test_what_only_looks_like_a_token_is_none(text: str) -> None:
    assert not is_token(text) and not is_token(new_token("service") + "0")

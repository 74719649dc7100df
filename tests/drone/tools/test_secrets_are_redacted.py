"""Known secrets never leave a tool set, neither in results nor in errors."""

import base64
from collections.abc import Sequence
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drone.agent.turns.toolset import Output, StartedCall
from drone.tools.frame.wrappers import Redacted
from mcc.contracts.entry import Origin
from mcc.redaction import MARK, Redactor
from mcc.transcript.messages import ToolSpec

SECRET = "sk-live/öne+two=three 4"


class Saying:
    """One tool that says what it was made with."""

    def __init__(self, content: str) -> None:
        self._content = content

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("say", "Says it.", {}),)

    async def call(self, call: StartedCall) -> Output:
        return Output(self._content, subagent_ids=("child",))


async def said(content: str, *secrets: str) -> str:
    output = await Redacted(Saying(content), Redactor(secrets)).call(StartedCall("1", "say", {}, Origin()))
    assert output.subagent_ids == ("child",)
    return output.content


@pytest.mark.parametrize(
    "form",
    [SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()],
    ids=["plain", "url", "base64"],
)
async def test_a_secret_is_replaced_in_every_form(form: str) -> None:
    assert await said(f"key={form};", SECRET) == f"key={MARK};"


async def test_text_without_a_secret_is_as_it_was() -> None:
    assert await said("nothing to hide", SECRET) == "nothing to hide"


async def test_a_word_too_short_to_be_a_secret_is_left_alone() -> None:
    assert await said("the password is open", "open") == "the password is open"


async def test_of_two_secrets_the_longer_goes_first() -> None:
    assert await said("abcdefgh12345678", "abcdefgh", "abcdefgh12345678") == MARK


@given(before=st.binary(max_size=9), after=st.binary(max_size=9))
async def test_a_secret_within_a_longer_base64_text_is_found(before: bytes, after: bytes) -> None:
    content = base64.b64encode(before + SECRET.encode() + after).decode()
    assert MARK in await said(content, SECRET)


class Breaking(Saying):
    """One tool that raises instead."""

    async def call(self, call: StartedCall) -> Output:
        raise RuntimeError((await super().call(call)).content)


async def test_what_a_tool_raises_has_no_secret_either() -> None:
    output = await Redacted(Breaking(f"no such key {SECRET}"), Redactor([SECRET])).call(
        StartedCall("1", "say", {}, Origin())
    )
    assert output.is_error and output.content == f"The tool say broke: RuntimeError: no such key {MARK}"


async def test_an_error_without_a_secret_is_left_to_whoever_calls() -> None:
    with pytest.raises(RuntimeError, match="nothing to hide"):
        await Redacted(Breaking("nothing to hide"), Redactor([SECRET])).call(StartedCall("1", "say", {}, Origin()))

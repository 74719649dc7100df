"""Previews of calls pass through every wrapper of a tool set."""

import asyncio

import pytest

from drone.agent.turns.toolset import Output, Preview, StartedCall, preview_of
from drone.tools.environment import Detected, EnvironmentGate
from drone.tools.frame.schema import ToolDeclarationError
from drone.tools.frame.tool import FunctionTools, Joined, ToolContext, ToolFailed, tool
from drone.tools.frame.wrappers import Only, Redacted, Timed
from mcc.contracts.entry import ORDER
from mcc.contracts.journal import Outcome
from mcc.redaction import Redactor


def _would(path: str, context: ToolContext) -> Preview:
    if path == "nowhere":
        raise ToolFailed("There is no file nowhere.")
    return Preview("text", f"drop {path} in {context.call_id}")


class Deleting:
    """A tool as a method, whose preview is one as well."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    async def _would(self, path: str) -> Preview:
        await asyncio.sleep(0)
        return Preview("diff", f"-{path} of {len(self.dropped)}")

    @tool(effects="write", preview=_would)
    async def remove(self, path: str) -> str:
        """Remove a file."""
        self.dropped.append(path)
        return "removed"


@tool(effects="write", preview=_would)
def drop(path: str, context: ToolContext) -> str:
    """Drop a file."""
    raise AssertionError("a preview runs nothing")


@tool
def plain(path: str) -> str:
    """Say nothing beforehand."""
    return path


def _call(name: str, **arguments: object) -> StartedCall:
    return StartedCall("c1", name, arguments, ORDER)


async def test_a_preview_passes_every_tool_set_and_loses_its_secrets() -> None:
    tools = EnvironmentGate(FunctionTools([drop, plain]), Detected(already=True))
    around = Redacted(Timed(Only(Joined(tools), ["drop", "plain"]), 10), Redactor(["hush-hush-secret"]))
    said = await preview_of(around, _call("drop", path="hush-hush-secret"))
    assert isinstance(said, Preview)
    assert said.kind == "text"
    assert said.text.startswith("drop ") and said.text.endswith(" in c1") and "hush" not in said.text
    assert await preview_of(around, _call("plain", path="a")) is None
    assert await preview_of(Only(tools, ["plain"]), _call("drop", path="a")) is None


async def test_a_call_that_cannot_be_done_is_answered_in_place_of_its_preview() -> None:
    tools = FunctionTools([drop, plain])
    said = await preview_of(tools, _call("drop", path="nowhere"))
    assert isinstance(said, Output) and said.is_error and said.content == "There is no file nowhere."
    wrong = await preview_of(tools, _call("plain", way="a"))
    assert isinstance(wrong, Output) and "`way` is not an argument" in wrong.content


async def test_a_method_says_it_by_a_method_of_the_same_object() -> None:
    deleting = Deleting()
    tools = FunctionTools([deleting.remove])
    assert await preview_of(tools, _call("remove", path="a")) == Preview("diff", "-a of 0")
    assert deleting.dropped == []
    await tools.call(_call("remove", path="a"))
    assert await preview_of(tools, _call("remove", path="b")) == Preview("diff", "-b of 1")


async def test_a_preview_that_takes_too_long_is_given_up() -> None:
    async def _long(path: str) -> Preview | None:
        await asyncio.Event().wait()
        return None

    @tool(preview=_long)
    async def slow(path: str) -> str:
        """Be slow."""
        return path

    said = await preview_of(Timed(FunctionTools([slow]), 0.02), _call("slow", path="a"))
    assert isinstance(said, Output) and said.outcome is Outcome.TIMEOUT and "was not run" in said.content


def test_a_preview_of_other_parameters_is_refused_where_it_is_declared() -> None:
    def _other(way: str) -> Preview | None:
        return None

    @tool(preview=_other)
    def strange(path: str) -> str:
        """Be strange."""
        return path

    with pytest.raises(ToolDeclarationError, match="must take the same parameters: path"):
        FunctionTools([strange])

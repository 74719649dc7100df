"""Wrappers of tool sets: allow-lists and time limits."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from drone.agent.turns.toolset import Output, StartedCall
from drone.tools.frame.tool import FunctionTools, tool
from drone.tools.frame.wrappers import Only, Timed
from mcc.contracts.journal import Outcome
from mcc.transcript.messages import ToolSpec

Use = Callable[..., Coroutine[Any, Any, Output]]


class Recording:
    """A tool set that notes what was called and never ends a call named `wait`."""

    def __init__(self, content: str = "done", seconds: float | None = None) -> None:
        self.called: list[str] = []
        self.cancelled: list[str] = []
        self._output = Output(content, subagent_ids=("child",))
        self._seconds = seconds

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(ToolSpec(name, "", {}, seconds=self._seconds) for name in ("read", "write", "wait"))

    async def call(self, call: StartedCall) -> Output:
        self.called.append(call.name)
        if call.name == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(call.name)
        return self._output


async def test_only_filters_what_is_shown_and_what_is_called(use: Use) -> None:
    inner = Recording()
    only = Only(inner, ["read", "nowhere"])
    assert [spec.name for spec in only.specs()] == ["read"]
    assert (await use(only, "read")).content == "done"
    denied = await use(only, "write")
    assert (denied.is_error, denied.outcome) == (True, Outcome.DENIED)
    assert "You have: read." in denied.content
    assert inner.called == ["read"]


async def test_only_tells_a_tool_that_exists_nowhere_from_one_that_is_not_allowed(use: Use) -> None:
    only = Only(Recording(), ["read"])
    assert (await use(only, "reed")).outcome is Outcome.ERROR
    assert "Did you mean read?" in (await use(only, "reed")).content


async def test_only_within_only_shrinks_further(use: Use) -> None:
    inner = Recording()
    narrow = Only(Only(inner, ["read"]), ["read", "write"])
    assert [spec.name for spec in narrow.specs()] == ["read"]
    assert (await use(narrow, "write")).is_error
    assert inner.called == []


@pytest.mark.parametrize(("own", "default"), [(None, 0.02), (0.02, 60.0)])
async def test_a_call_that_takes_too_long_is_ended_and_told(use: Use, own: float | None, default: float) -> None:
    inner = Recording(seconds=own)
    output = await use(Timed(inner, default), "wait")
    assert (output.is_error, output.outcome) == (True, Outcome.TIMEOUT)
    assert "within 0.02 s" in output.content
    assert inner.cancelled == ["wait"]


async def test_a_call_in_time_and_its_spec_pass_unchanged(use: Use) -> None:
    inner = Recording()
    timed = Timed(inner, 60)
    assert timed.specs() == inner.specs()
    assert await use(timed, "read") == Output("done", subagent_ids=("child",))


async def test_cancelling_a_timed_call_is_no_timeout(use: Use) -> None:
    waiting = asyncio.create_task(use(Timed(Recording(), 60), "wait"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_tools_own_timeout_error_is_not_taken_for_the_limit(use: Use) -> None:
    @tool
    async def slow() -> str:
        """Slow."""
        raise TimeoutError("the other side was slow")

    output = await use(Timed(FunctionTools([slow]), 60), "slow")
    assert output.outcome is Outcome.ERROR and "the other side was slow" in output.content


async def test_a_call_that_does_not_stop_when_it_is_told_to_is_left_behind(use: Use) -> None:
    told, let_go = list[str](), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Never stops."""
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                told.append("stop")
        return "late"

    output = await use(Timed(FunctionTools([stubborn]), 0.01, grace_seconds=0.01), "stubborn")
    let_go.set()
    assert output.outcome is Outcome.TIMEOUT and told == ["stop"]


async def test_who_cancels_a_call_does_not_wait_for_ever_for_one_that_does_not_stop(use: Use) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Never stops."""
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                begun.set()
                await let_go.wait()
        return "late"

    waiting = asyncio.create_task(use(Timed(FunctionTools([stubborn]), 60, grace_seconds=0.01), "stubborn"))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    let_go.set()


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
async def test_what_a_timed_call_raises_reaches_whoever_called_and_nobody_else(error: BaseException, use: Use) -> None:
    class Raising(Recording):
        async def call(self, call: StartedCall) -> Output:
            raise error

    with pytest.raises(type(error)):
        await use(Timed(Raising(), 60), "read")

"""Tools that run programs are refused until an environment detection has succeeded."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from drone.agent.turns.toolset import Output, StartedCall
from drone.tools.environment import DETECTION, GATED, Detected, EnvironmentGate
from drone.tools.frame.wrappers import Only
from mcc.contracts.journal import Outcome
from mcc.transcript.messages import ToolSpec

Use = Callable[..., Coroutine[Any, Any, Output]]


class Inner:
    """`environment_detect` waits for `go`, and answers what it is told to."""

    def __init__(self, *answers: Output) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.called: list[str] = []
        self._answers = list(answers)

    def specs(self) -> Sequence[ToolSpec]:
        gated = [ToolSpec(f"tool_{group}", "", {}, group=group) for group in sorted(GATED)]
        return (ToolSpec(DETECTION, "", {}, group="environment_read"), ToolSpec("read_file", "", {}), *gated)

    async def call(self, call: StartedCall) -> Output:
        self.called.append(call.name)
        if call.name == DETECTION:
            await self.go.wait()
            return self._answers.pop(0) if self._answers else Output("{}")
        return Output("done")


@pytest.mark.parametrize("group", sorted(GATED))
async def test_programs_wait_for_a_detection_and_other_tools_do_not(use: Use, group: str) -> None:
    inner = Inner()
    gate = EnvironmentGate(inner, Detected())
    refused = await use(gate, f"tool_{group}")
    assert (refused.is_error, refused.outcome) == (True, Outcome.DENIED)
    assert "Call environment_detect first" in refused.content
    assert not (await use(gate, "read_file")).is_error
    await use(gate, DETECTION)
    assert (await use(gate, f"tool_{group}")).content == "done"
    assert inner.called == ["read_file", DETECTION, f"tool_{group}"]


async def test_a_failed_detection_opens_nothing(use: Use) -> None:
    gate = EnvironmentGate(Inner(Output("no", is_error=True)), Detected())
    await use(gate, DETECTION)
    assert (await use(gate, "tool_git_read")).is_error
    await use(gate, DETECTION)
    assert not (await use(gate, "tool_git_read")).is_error


async def test_what_one_agent_detected_holds_for_all_of_its_tree(use: Use) -> None:
    gate = EnvironmentGate(Inner(), Detected())
    scout, reviewer = Only(gate, [DETECTION]), Only(gate, ["tool_diff_read"])
    assert (await use(reviewer, "tool_diff_read")).is_error
    await use(scout, DETECTION)
    assert not (await use(reviewer, "tool_diff_read")).is_error


async def test_a_call_beside_the_detection_waits_for_it(use: Use) -> None:
    inner = Inner()
    inner.go.clear()
    gate = EnvironmentGate(inner, Detected())
    both = asyncio.gather(use(gate, DETECTION), use(gate, "tool_git_read"))
    await asyncio.sleep(0)
    assert inner.called == [DETECTION]
    inner.go.set()
    assert [output.is_error for output in await both] == [False, False]


async def test_a_detection_that_is_cancelled_leaves_nobody_waiting(use: Use) -> None:
    inner = Inner()
    inner.go.clear()
    gate = EnvironmentGate(inner, Detected())
    detecting = asyncio.create_task(use(gate, DETECTION))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(use(gate, "tool_git_read"))
    await asyncio.sleep(0)
    detecting.cancel()
    assert (await waiting).is_error
    assert detecting.cancelled()


async def test_a_resumed_order_that_knows_it_need_not_look_again(use: Use) -> None:
    assert not (await use(EnvironmentGate(Inner(), Detected(already=True)), "tool_git_read")).is_error

"""Tools that never stop take threads from their own order, and from nobody else's tools, gates and claims."""

import asyncio
from collections.abc import Iterator
from threading import Event

import pytest

from drone.agent.gates.gate import Evidence
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Turn
from drone.threads import Pools
from drone.tools.frame.tool import FunctionTools, tool
from drone.tools.frame.wrappers import Timed
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome
from mcc.contracts.limits import Limits
from mcc.contracts.usage import Usage

AT_ONCE = 40
"""Calls that hang: more than asyncio's own executor has threads on any machine that this is tested on."""


@pytest.fixture
def for_ever() -> Iterator[Event]:
    event = Event()
    yield event
    event.set()


class Drone:
    """The tools of several orders in one process."""

    def __init__(self, for_ever: Event) -> None:
        self.pools = Pools()
        self.for_ever = for_ever

    def called(self, order_id: str, name: str, seconds: float = 0.05) -> "asyncio.Task[Output]":
        turn = Turn.begun(MemoryJournal(order_id), Budget(Limits()), threads=self.pools.of(order_id))
        tools = Timed(FunctionTools([self.deaf, self.quick]), seconds, grace_seconds=0.0)
        call = StartedCall(f"{order_id} {name}", name, {}, Origin(record_id="r"), turn)
        return asyncio.ensure_future(tools.call(call))

    @tool
    def deaf(self) -> str:
        """Never looks up."""
        self.for_ever.wait()
        return "woken"

    @tool
    def quick(self) -> str:
        """Answers."""
        return "here"


async def test_an_order_whose_tools_never_stop_does_not_keep_its_neighbour_waiting(for_ever: Event) -> None:
    drone = Drone(for_ever)
    hanging = [drone.called("hostile", "deaf", 60.0) for _ in range(AT_ONCE)]
    try:
        async with asyncio.timeout(20.0):
            answer = await drone.called("neighbour", "quick", 60.0)
            evidence = Evidence("", (), (), Usage(), threads=drone.pools.of("neighbour"))
            verdict = await ReportGate({"type": "object"}).check({"a": 1}, evidence)
            seen = await drone.pools.of("neighbour").claim(lambda: "seen")
        assert answer.content == "here" and verdict.ok and seen == "seen"
    finally:
        for_ever.set()
        await asyncio.wait(hanging)


async def test_threads_that_are_left_behind_are_told_to_the_model_of_their_own_order_alone(for_ever: Event) -> None:
    drone = Drone(for_ever)
    drone.pools = Pools(tools=type(drone.pools.tools)(per_order=2, in_all=8, grace_seconds=0.0))
    given_up = [await drone.called("hostile", "deaf") for _ in range(2)]
    assert [one.outcome for one in given_up] == [Outcome.TIMEOUT] * 2
    refused = await drone.called("hostile", "quick", 60.0)
    assert refused.is_error
    assert "2 earlier calls of this order were given up and still run" in refused.content
    assert (await drone.called("neighbour", "quick", 60.0)).content == "here"

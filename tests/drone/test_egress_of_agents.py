"""An order, and each agent below it, can only reduce the hosts that the operator allows."""

from dataclasses import replace
from typing import Any

import pytest

import drone
from drone.agent.subagents.children import Wanted
from drone.hiring import Parent, Place
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, ToolContext, tool
from mcc.contracts.agents import AgentDefinition
from mcc.definitions.rights import narrowed
from tests.drone.test_hiring import file, hiring

ORDER = ("o.test", "a.test")
LEAD = file("lead", "tools: [web_read, delegation]", "spawns: [reader]", "egress: [a.test, b.test]", "result: text")
READER = file("reader", "tools: [web_read]", "egress: ['*.a.test']", "result: text")
OPEN = file("open", "tools: [web_read]", "result: text")


async def test_every_list_on_the_way_down_is_in_force() -> None:
    seen = []

    @tool(name="web_fetch", group="web_read", effects="network", untrusted=False)
    def fetch(context: ToolContext) -> str:
        """The hosts that the agent may reach."""
        seen.append(tuple(context.egress))
        return "read"

    hires = call("subagent", agent_type="reader", prompt="Read it")
    fetches = Line(calls=(call("web_fetch"),))
    model = ScriptedModel([fetches, Line(calls=(hires,)), fetches, "Read.", "Done."])
    here = replace(hiring(LEAD, READER), place=Place(egress=(ORDER,)))
    parent = Parent(model, FunctionTools([fetch]), egress=here.place.egress)
    assert (await here.child(Wanted("lead", 1), parent).run("go", here.turn)).completed
    assert seen == [(ORDER, ("a.test", "b.test")), (ORDER, ("a.test", "b.test"), ("*.a.test",))]


async def test_the_lists_of_an_agent_hold_for_the_agents_among_its_tools() -> None:
    seen = []

    @tool()
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(tuple(context.egress))
        return "seen"

    def agent(name: str, hosts: tuple[str, ...] | None, tools: list[Any], *uses: str) -> drone.Agent:
        lines = [Line(calls=(call(name, **({"input": "go"} if name != "look" else {})),)) for name in uses]
        definition = AgentDefinition(name=name, prompt="Go.", result="text", egress=hosts)
        return drone.Agent(definition, model=ScriptedModel([*lines, "Done."]), tools=[look, *tools])

    lowest = agent("lowest", ("c.test",), [], "look")
    middle = agent("middle", None, [drone.SubAgent(lowest)], "look", "lowest")
    top = agent("top", ("a.test",), [drone.SubAgent(middle)], "middle", "look")
    assert (await top.run("go")).completed
    assert seen == [(("a.test",),), (("a.test",), ("c.test",)), (("a.test",),)]


def test_who_says_nothing_has_the_lists_of_those_above() -> None:
    here = replace(hiring(OPEN), place=Place(egress=(ORDER,)))
    parent = Parent(ScriptedModel(["x"]), FunctionTools([]), egress=here.place.egress)
    assert here.child(Wanted("open", 1), parent).hired.egress == (ORDER,)


@pytest.mark.parametrize(
    ("wanted", "allowed", "left"),
    [
        (None, None, None),
        (("a.test",), None, ("a.test",)),
        (None, ("a.test",), ("a.test",)),
        (("b.test", "a.test"), ("a.test",), ("a.test",)),
        (("b.test",), ("a.test",), ()),
    ],
)
def test_a_file_of_a_workspace_adds_no_host(
    wanted: tuple[str, ...] | None, allowed: tuple[str, ...] | None, left: tuple[str, ...] | None
) -> None:
    own, ceiling = AgentDefinition(name="a", egress=wanted), AgentDefinition(name="a", egress=allowed)
    assert narrowed(own, ceiling).egress == left

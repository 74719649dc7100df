"""Tools as drones register them, and the merged view of a tool that several drones have."""

from dataclasses import replace
from pathlib import Path

import pytest

from drone.tools.catalog import Toolbox
from drone.tools.frame.capabilities import capability
from mcc.api.fleet import offers
from mcc.contracts.drones import Capability, Registration
from mcc.transcript.messages import ToolSpec

SPEC = ToolSpec("look", "Looks.\n\nMore of it.", {"type": "object"}, group="workspace_read", effects="read")


@pytest.mark.parametrize(
    "changed",
    [{"description": "Looks away."}, {"parameters": {"type": "object", "properties": {}}}, {"effects": "write"}],
    ids=lambda change: next(iter(change)),
)
def test_the_digest_is_that_of_the_whole_definition(changed: dict[str, object]) -> None:
    assert capability(SPEC).digest == capability(replace(SPEC)).digest
    assert capability(SPEC).digest != capability(replace(SPEC, **changed)).digest  # type: ignore[arg-type]


def test_a_tool_says_its_group_effects_and_price(tmp_path: Path) -> None:
    tools = Toolbox.found().capabilities()
    assert all(tool.group and tool.digest and tool.tokens > 10 for tool in tools)
    assert {tool.state for tool in tools} <= {"usable", "broken"}
    assert all((tool.state == "broken") == (tool.problem is not None) for tool in tools)
    read_file = next(tool for tool in tools if tool.name == "read_file")
    assert (read_file.group, read_file.effects, read_file.server) == ("workspace_read", "read", None)


def test_the_effects_of_a_tool_that_does_not_say_are_those_of_its_group() -> None:
    told = {group: capability(replace(SPEC, group=group, effects=None)).effects for group in ("delegation", "mcp", "x")}
    assert told == {"delegation": "none", "mcp": "irreversible", "x": "execute"}


def test_what_a_tool_is_comes_from_a_drone_that_can_use_it() -> None:
    def drone(name: str, tool: Capability) -> Registration:
        shape = {"incarnation": name, "name": name, "pid": 1, "host": "h", "version": "1", "queues": (), "slots": 1}
        return Registration(**shape, tools=(tool,))  # type: ignore[arg-type]

    broken, whole = capability(SPEC, "no sandbox"), capability(replace(SPEC, effects="network"))
    (both,) = offers([drone("a", broken), drone("b", whole)], lambda one: one.tools)
    assert (both.state, both.effects, both.digest, both.problem) == ("usable", "network", whole.digest, None)
    (alone,) = offers([drone("a", broken)], lambda one: one.tools)
    assert (alone.state, alone.problem, alone.digest) == ("broken", "no sandbox", broken.digest)

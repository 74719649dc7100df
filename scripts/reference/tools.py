"""This room is for the page on tools: what agents are given, with arguments, and the groups that name them."""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from drone.agent.agent import Agent
from drone.agent.budget import Budget
from drone.agent.definitions import MASTER, Definitions
from drone.agent.delegation import Delegation
from drone.agent.memory import MemoryJournal
from drone.agent.messages import ToolSpec
from drone.agent.turn import Turn
from drone.tools.catalog import workspace_tools
from mcc.contracts.limits import Limits
from mcc.definitions.groups import TOOL_GROUPS
from scripts.reference.markdown import code, properties, table


def specs() -> tuple[ToolSpec, ...]:
    """Every tool of this version, as the shipped master is shown it."""
    definitions = Definitions.load()
    offered = {name: definitions.get(name).description for name in definitions.get(MASTER).spawns}
    delegation = Delegation(Turn(MemoryJournal("reference"), Budget(Limits())), offered, _hire, depth=0)
    return (*workspace_tools(Path(__file__).parents[2]).specs(), *delegation.specs())


def _hire(agent_type: str, depth: int) -> Agent:
    raise LookupError(f"{agent_type} is described, not hired")


def page() -> Iterator[str]:
    there = specs()
    yield from ("# Tools", "")
    yield "What agents can do in this version. An agent file names tools, or the groups they belong to, under `tools`"
    yield "and `disallowed_tools`. An order without a workspace has none of the tools that look at one."
    yield ""
    for spec in there:
        yield from _section(spec)
    yield from ("## Groups", "", "Every group that an agent file may name, and which of its tools are there.", "")
    names = {spec.name for spec in there}
    rows = ((code(group), _those(tools, names)) for group, tools in TOOL_GROUPS.items())
    yield from table(("group", "tools in this version"), rows)


def _those(tools: Iterable[str], names: Container[str]) -> str:
    return ", ".join(code(name) for name in tools if name in names) or "–"


def _section(spec: ToolSpec) -> Iterator[str]:
    harmless = "Running it twice does no harm." if spec.idempotent else "Not to be run twice."
    limit = f"At most {spec.seconds:g} s." if spec.seconds is not None else "Its time is the turn's."
    yield from (f"## {spec.name}", "", f"Group {code(spec.group)}. {harmless} {limit}", "", spec.description, "")
    schema = spec.parameters
    described = schema["properties"]
    assert isinstance(described, dict)
    rows = [
        (name, what, default, str(inside.get("description", "")))
        for (name, what, default), inside in zip(properties(schema), described.values(), strict=True)
    ]
    if rows:
        yield from table(("argument", "value", "default", "meaning"), rows)
    else:
        yield from ("No arguments.", "")

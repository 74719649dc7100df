"""The page on tools: what agents are given, with arguments, and the groups that name them."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.subagents.children import Wanted
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.turn import Turn
from drone.definitions import MASTER, Definitions
from drone.tools.artifacts import ArtifactTools
from drone.tools.catalog import Toolbox
from drone.tools.git.program import Git
from drone.tools.web.reading import NO_WEB
from mcc.configuration.network import Web, WebSearch
from mcc.contracts.limits import Limits
from mcc.definitions.rights import TOOL_GROUPS
from mcc.transcript.messages import ToolSpec
from scripts.reference.markdown import code, properties, table


def specs() -> tuple[ToolSpec, ...]:
    """Every tool of this version, as the shipped master is shown it where everything works."""
    definitions = Definitions.load()
    offered = {name: definitions.get(name).description for name in definitions.spawns(MASTER)}
    delegation = Delegation(Turn.begun(MemoryJournal("reference"), Budget(Limits())), offered, _hire, depth=0)
    web = replace(NO_WEB, web=Web(hosts=("*",), search=WebSearch(backend="searxng", url="https://searx.test")))
    workspace = replace(Toolbox.found(), git=Git(None), web=web).tools(Path(__file__).parents[2]).specs()
    return (*workspace, *ArtifactTools().specs(), *delegation.specs(), *ReportGate().specs())


def _hire(wanted: Wanted) -> AgentRuntime:
    raise LookupError(f"{wanted.agent_type} is described, not hired")


def page() -> Iterator[str]:
    there = specs()
    yield from ("# Tools", "")
    yield "What agents can do in this version. An agent file names tools, or the groups they belong to, under `tools`"
    yield "and `disallowed_tools`. An order without a workspace has none of the tools that look at one, and a drone"
    yield "without bubblewrap or git has no git tools. `web_fetch` and `web_search` are there where the operator named"
    yield "[hosts or a search engine](../how-to/reach-the-network.md)."
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
    if rows := list(_arguments(spec.parameters)):
        yield from table(("argument", "value", "default", "meaning"), rows)
    else:
        yield from ("No arguments.", "")


def _arguments(schema: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, str, str, str]]:
    """A row for each argument, and below a list of objects one for each of their keys."""
    described = schema["properties"]
    for (name, one), (_, what, default) in zip(described.items(), properties(schema), strict=True):
        yield code(inside + name), what, default, str(one.get("description", ""))
        items = one.get("items", {})
        if "properties" in items:
            yield from _arguments(items, f"{inside}{name}[].")

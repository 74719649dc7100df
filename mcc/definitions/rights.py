"""Tool names and groups in agent files, and the narrowing of an agent's rights to those of another."""

from collections.abc import Collection, Iterable, Iterator

from mcc.contracts.agents import INHERIT, AgentDefinition
from mcc.contracts.limits import AgentLimits
from mcc.contracts.order import Verification
from mcc.contracts.tool_groups import TOOL_GROUPS as TOOL_GROUPS
from mcc.contracts.tool_groups import GroupTable as GroupTable
from mcc.contracts.tool_groups import group_of as group_of
from mcc.rules.patterns import matches_glob
from mcc.rules.report import TEXT_NAME


def expanded(names: Iterable[str], groups: GroupTable = TOOL_GROUPS) -> frozenset[str]:
    """`names` with each group replaced by its tools."""
    return frozenset(tool for name in names for tool in groups.get(name, (name,)))


def stand_for(names: Collection[str], tool: str, group: str, groups: GroupTable = TOOL_GROUPS) -> bool:
    """Whether `names` (groups, tool names, globs over MCP servers' tools) include the tool."""
    if group in names or tool in expanded(names, groups):
        return True
    return any(matches_glob(tool, name) for name in names if of_server(name))


def tools_of(
    agent: AgentDefinition, there: Iterable[tuple[str, str]], groups: GroupTable = TOOL_GROUPS
) -> tuple[str, ...] | None:
    """The tools among `there` (names with their groups) that the agent's file names; None = the parent's tools."""
    wanted, refused = agent.tools, agent.disallowed_tools
    if wanted is None:
        return None
    return tuple(
        tool
        for tool, group in there
        if stand_for(wanted, tool, group, groups) and not stand_for(refused, tool, group, groups)
    )


def known_names(groups: GroupTable) -> frozenset[str]:
    """All groups and tools of the table."""
    return frozenset(groups) | {tool for tools in groups.values() for tool in tools}


SERVER_TOOL = "__"
"""Separates server and tool in the names of MCP tools; the tool's part may be a glob with `*` and `?`."""


def of_server(name: str) -> bool:
    """Whether the name has the form of an MCP server's tool, or of a glob over such names."""
    server, separator, tool = name.partition(SERVER_TOOL)
    return bool(server and separator and tool) and not any(mark in server for mark in "*?")


def is_known(name: str, groups: GroupTable) -> bool:
    """Whether an agent file may use the name: a group, a tool, or tools of a registered MCP server."""
    if name in known_names(groups):
        return True
    servers = {tool.partition(SERVER_TOOL)[0] for tool in groups.get("mcp", ()) if of_server(tool)}
    return of_server(name) and name.partition(SERVER_TOOL)[0] in servers


def allowed_to(
    wanted: AgentDefinition, ceiling: AgentDefinition, groups: GroupTable = TOOL_GROUPS
) -> tuple[AgentDefinition, tuple[str, ...]]:
    """A workspace's agent limited to an operator's agent, with one sentence for each thing that it asks for in vain.

    Beyond `narrowed`: the operator's model, result and verifier, where set, take precedence; another model can only be
    an alias of the configuration.
    """
    kept = narrowed(wanted, ceiling, groups).model_copy(
        update={
            # A name with a slash is a provider's own, which could spend on a model that the operator never listed.
            "model": (INHERIT if "/" in wanted.model else wanted.model) if ceiling.model == INHERIT else ceiling.model,
            "result": wanted.result if ceiling.result == TEXT_NAME else ceiling.result,
            "verify": ceiling.verify or _verification(wanted, ceiling),
        }
    )
    return kept, tuple(_lost(wanted, kept, groups))


def _verification(wanted: AgentDefinition, ceiling: AgentDefinition) -> Verification | None:
    """A workspace's agent may be verified by a rubric, or by an agent that it may also delegate to."""
    terms = wanted.verify
    return terms if terms is None or terms.agent is None or terms.agent in ceiling.spawns else None


def narrowed(wanted: AgentDefinition, allowed: AgentDefinition, groups: GroupTable = TOOL_GROUPS) -> AgentDefinition:
    """`wanted` without tools, spawns or limits beyond those of `allowed`; prompt, model and permission are its own.

    Rules and disallowed tools of `allowed` are added to those of `wanted`. The permission of `allowed` is not merged,
    as it applies as another layer.
    """
    return wanted.model_copy(
        update={
            "tools": _tools(wanted, allowed, groups),
            "passes_on": _both(wanted.passes_on, allowed, groups),
            "disallowed_tools": tuple(sorted({*wanted.disallowed_tools, *allowed.disallowed_tools})),
            "spawns": tuple(name for name in wanted.spawns if name in allowed.spawns),
            "limits": _limits(wanted.limits, allowed.limits),
            "egress": _egress(wanted.egress, allowed.egress),
            "rules": (*allowed.rules, *(rule for rule in wanted.rules if rule not in allowed.rules)),
        }
    )


def _tools(wanted: AgentDefinition, allowed: AgentDefinition, groups: GroupTable) -> tuple[str, ...] | None:
    if allowed.tools is None:
        return wanted.tools
    return _both(allowed.tools if wanted.tools is None else wanted.tools, allowed, groups)


def _both(asked: Collection[str], allowed: AgentDefinition, groups: GroupTable) -> tuple[str, ...]:
    """The names and groups of `asked` that `allowed` has or may pass on."""
    if allowed.tools is None:
        return tuple(asked)
    given_names = {*allowed.tools, *allowed.passes_on}
    wanted_tools, allowed_tools = expanded(asked, groups), expanded(given_names, groups)
    both = {name for name in wanted_tools if any(matches_glob(name, glob) for glob in allowed_tools)}
    # Either side may be the glob: of `tracker__*` and `tracker__find`, both ways round, `tracker__find` is what is in
    # both.
    narrower = {name for name in allowed_tools if any(matches_glob(name, glob) for glob in wanted_tools)}
    return tuple(sorted(both | narrower | (set(asked) & given_names)))


def _egress(wanted: tuple[str, ...] | None, allowed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The hosts in both; where one of them is None (no restriction of its own), the other."""
    if wanted is None or allowed is None:
        return allowed if wanted is None else wanted
    return tuple(name for name in wanted if name in allowed)


def _limits(wanted: AgentLimits, allowed: AgentLimits) -> AgentLimits:
    smaller = {}
    for name in AgentLimits.model_fields:
        values = [value for value in (getattr(wanted, name), getattr(allowed, name)) if value is not None]
        smaller[name] = min(values, default=None)
    return AgentLimits(**smaller)


def _lost(wanted: AgentDefinition, kept: AgentDefinition, groups: GroupTable) -> Iterator[str]:
    tools_kept = expanded(kept.tools or (), groups)
    tools = {
        name
        for name in expanded(wanted.tools or (), groups)
        if not any(matches_glob(name, glob) for glob in tools_kept)
    }
    for what, names in (("tools", tools), ("spawns", set(wanted.spawns) - set(kept.spawns))):
        if names:
            yield f"{what} beyond what the operator allows are left out: {', '.join(sorted(names))}"
    if wanted.model not in (INHERIT, kept.model):
        why = "the operator's stays" if kept.model != INHERIT else "a workspace names models by their alias only"
        yield f"model {wanted.model!r} is not used: {why}"
    stays = "the operator's stays"
    if wanted.result is not None and wanted.result != kept.result:
        yield f"result is not used: {stays}"
    if wanted.verify is not None and wanted.verify != kept.verify:
        yield f"verify is not used: {'the operator allows no such agent' if kept.verify is None else stays}"
    for name in type(wanted.limits).model_fields:
        asked, got = getattr(wanted.limits, name), getattr(kept.limits, name)
        if asked is not None and asked != got:
            yield f"limits.{name} {asked:g} is lowered to the operator's {got:g}"

"""The runtime as a library: `drone.Agent` with functions as tools, and `load_agent`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias, cast

from drone.agent import agent
from drone.agent.budget import Share
from drone.agent.gate import Gate
from drone.agent.model import Model
from drone.agent.report_gate import gate_for
from drone.agent.subagents.runner import DelegationTools, SubagentRunner
from drone.agent.subagents.subagent import SubAgent, SubAgentTool
from drone.agent.toolset import ToolSet
from drone.tools.tool import FunctionTools, Joined
from drone.tools.wrappers import Timed
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.limits import Limits
from mcc.definitions.agents import parse_agent
from mcc.definitions.front_matter import FILE_BYTES, decoded

Tool: TypeAlias = "Callable[..., object] | ToolSet | SubAgent"
"""A function (with `@drone.tool` or without), a tool set, or an agent."""


class Agent(agent.Agent):
    """An agent whose tools are a tool set, or any mixture of functions, tool sets and `SubAgent`s.

    `gate` None: the gate that the definition's `result` and `rules` require. The limits bound the time of each tool
    call. `subagent_runner`: runs the agents that the definition's `spawns` names; None: its only subagents are the
    `SubAgent`s among its tools. Raises TypeError for something that cannot be a tool, `ToolDeclarationError` for two
    tools of the same name, ValueError for a runner when `spawns` is empty.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        *,
        model: Model,
        tools: ToolSet | Iterable[Tool] | None = None,
        limits: Limits | None = None,
        gate: Gate | None = None,
        subagent_runner: SubagentRunner | None = None,
    ) -> None:
        limits = limits or Limits()
        own: ToolSet = Timed(toolset(tools), Share.of(limits, definition.limits, 0).tool_seconds)
        if subagent_runner is not None:
            if not definition.spawns:
                raise ValueError(f"{definition.name} has a runner and nobody to run: name agents in its spawns.")
            own = Joined(own, DelegationTools(subagent_runner, dict.fromkeys(definition.spawns, ""), limits=limits))
        super().__init__(
            definition,
            model=model,
            tools=own,
            limits=limits,
            gate=gate or gate_for(definition, is_subagent=False),
        )


def toolset(tools: ToolSet | Iterable[Tool] | None) -> ToolSet:
    """Combine tools into one tool set, in their order. Raises TypeError, `ToolDeclarationError`."""
    if tools is None:
        return FunctionTools([])
    if _is_toolset(tools):
        return cast(ToolSet, tools)
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools must be a tool set or a list of tools; {tools!r} is neither")
    return Joined(*map(_single, tools))


def load_agent(path: Path | str) -> AgentDefinition:
    """Read an agent file. Raises `DefinitionError` with file and line, OSError when it cannot be read."""
    with Path(path).open("rb") as file:
        content = file.read(FILE_BYTES + 1)
    return parse_agent(decoded(content, str(path)), str(path))


def _single(tool: Tool) -> ToolSet:
    if isinstance(tool, SubAgent):
        return SubAgentTool(tool)
    if _is_toolset(tool):
        return cast(ToolSet, tool)
    if callable(tool):
        return FunctionTools([tool])
    raise TypeError(f"a tool is a function, a tool set or a SubAgent; {tool!r} is none of them")


def _is_toolset(tool: object) -> bool:
    return not isinstance(tool, type) and all(callable(getattr(tool, name, None)) for name in ("specs", "call"))

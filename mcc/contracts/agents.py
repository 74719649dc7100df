"""This room is for the agent definition: what front matter and prompt of an agent file say."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from mcc.contracts.limits import Positive
from mcc.contracts.order import ModelName, Name, Rule
from mcc.contracts.shape import Closed, JsonAny, Text

ToolPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_*?.-]{1,100}$")]


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class AgentLimits(Closed):
    """Limits that a definition sets for its own agent; None leaves the order's, which they can only lower.

    `wall_seconds` of a subagent is looked at between its rounds.
    """

    rounds: Positive | None = None
    output_tokens: Positive | None = None
    tool_calls: Positive | None = None
    tool_seconds: Annotated[float, Field(gt=0)] | None = None
    model_call_seconds: Annotated[float, Field(gt=0)] | None = None
    wall_seconds: Annotated[float, Field(gt=0)] | None = None


class AgentDefinition(Closed):
    """One agent. `tools` None = the parent's, empty = none; `result` "text" = a reply without tool calls ends it."""

    name: Name
    description: Text = ""
    tools: Names | None = None
    disallowed_tools: Names = ()
    spawns: Names = ()
    model: ModelName = "inherit"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    thinking: Literal["off", "low", "medium", "high", "max", "inherit"] = "inherit"
    limits: AgentLimits = AgentLimits()
    isolation: Literal["none", "worktree"] = "none"
    permission: Mapping[ToolPattern, Literal["allow", "ask", "deny"]] = {}
    result: JsonAny = None
    rules: Annotated[tuple[Rule, ...], BeforeValidator(_listed)] = ()
    guidelines: Names = ()
    prompt: Text = ""

"""The agent definition: what front matter and prompt of an agent file say."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from mcc.contracts.limits import AgentLimits
from mcc.contracts.order import Hosts, ModelName, Name, OutputTokens, Rule, Temperature, Thinking, Verification
from mcc.contracts.permission import Permission
from mcc.contracts.shape import Closed, JsonAny, Text

INHERIT = "inherit"
"""`model` of an agent that takes its parent's."""


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class DefinitionOrigin(Closed):
    """Whose definition an agent has; `path` is its file's, relative to the prompts, the configuration or the workspace
    that it lies in.

    `library`: a program handed it over; `order`: it came with the order itself.
    """

    scope: Literal["shipped", "operator", "user", "workspace", "library", "order"]
    path: Text | None = None


class AgentDefinition(Closed):
    """One agent. `tools` None = the parent's, empty = none; `result` "text" = a reply without tool calls ends it.

    `passes_on`: tools and groups that agents which it hires may have beside its own; its model is not shown them.
    """

    name: Name
    description: Text = ""
    tools: Names | None = None
    disallowed_tools: Names = ()
    passes_on: Names = ()
    spawns: Names = ()
    model: ModelName = INHERIT
    temperature: Temperature | None = None
    thinking: Thinking = "inherit"
    max_output_tokens: OutputTokens | None = None
    limits: AgentLimits = AgentLimits()
    egress: Annotated[Hosts | None, BeforeValidator(_listed)] = None
    isolation: Literal["none", "worktree"] = "none"
    permission: Permission = Field(default_factory=dict)
    result: JsonAny = None
    rules: Annotated[tuple[Rule, ...], BeforeValidator(_listed), Field(max_length=50)] = ()
    verify: Verification | None = None
    guidelines: Names = ()
    prompt: Text = ""

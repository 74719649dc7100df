"""The agent definition: the front matter and prompt of an agent file."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, PlainSerializer

from mcc.contracts.compaction import Compaction
from mcc.contracts.limits import AgentLimits
from mcc.contracts.order import Hosts, ModelName, OutputTokens, Rule, Temperature, Thinking, Verification
from mcc.contracts.permission import Permission
from mcc.contracts.shape import LIST_AS_TUPLE, Closed, JsonAny, Name, Text, digest

INHERIT = "inherit"
"""As `model`: use the parent's model."""


Names = Annotated[tuple[str, ...], LIST_AS_TUPLE]


ResultForm = Annotated[
    JsonAny,
    PlainSerializer(
        lambda form: form.model_json_schema() if isinstance(form, type) and issubclass(form, BaseModel) else form
    ),
]
"""A JSON Schema, the name of a shipped one, or, in a program, a pydantic class, which is written as its schema."""


class DefinitionOrigin(Closed):
    """Where an agent's definition comes from. `path` is its file, relative to the prompts, configuration or workspace
    directory that contains it.

    `library`: a program passed the definition; `order`: it came with the order.
    """

    scope: Literal["shipped", "operator", "user", "workspace", "library", "order"]
    path: Text | None = None


class AgentDefinition(Closed):
    """One agent. `tools` None = the parent's, empty = none. `result`: a JSON Schema, a pydantic class,
    "report", or "text": a reply without tool calls ends the run.

    `passes_on`: tools and groups that the agent's subagents may have in addition to its own; the agent's own model does
    not see them.
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
    compaction: Compaction | None = None
    egress: Annotated[Hosts | None, LIST_AS_TUPLE] = None
    isolation: Literal["none", "worktree"] = "none"
    permission: Permission = Field(default_factory=dict)
    result: ResultForm = None
    rules: Annotated[tuple[Rule, ...], LIST_AS_TUPLE, Field(max_length=50)] = ()
    verify: Verification | None = None
    guidelines: Names = ()
    prompt: Text = ""


def definition_digest(definition: AgentDefinition) -> str:
    """`sha256:` and the digest of the whole definition, as registrations, journals and records have it."""
    return f"sha256:{digest(definition)}"

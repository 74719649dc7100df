"""Trials of MCP servers: what the operator wants to be tried, and what that showed; approvals of definitions."""

from typing import Annotated

from pydantic import Field

from mcc.contracts.shape import Closed, JsonObject, Text

ServerNamed = Annotated[str, Field(min_length=1, max_length=64)]
ToolNamed = Annotated[str, Field(min_length=1, max_length=256)]


class ToolTest(Closed):
    """Speak with a server, and call one of its tools when it is named, by its own name or that which agents use."""

    server: ServerNamed
    tool: ToolNamed | None = None
    arguments: JsonObject = Field(default_factory=dict)


class ToolTested(Closed):
    """`problem` says why it cannot be used, None = it can. `revision`: of the protocol, as was agreed upon.

    `tools`: how many it offers, `tokens`: what a model is asked to read of them. `content` and `is_error` are what the
    call brought, None where none was made.
    """

    server: str
    drone: str = ""
    problem: Text | None = None
    revision: str | None = None
    tools: int = 0
    tokens: int = 0
    content: Text | None = None
    is_error: bool = False
    seconds: float | None = None


class ToolsToApprove(Closed):
    """The definitions that count from now on: those that were seen last, of one tool or of all of the server."""

    server: ServerNamed
    tool: ToolNamed | None = None


class ToolsApproved(Closed):
    """The server's own names of the tools whose definitions count from now on and did not before."""

    server: str
    tools: tuple[Text, ...]

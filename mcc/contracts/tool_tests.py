"""Trials of MCP servers with their outcome, and approvals of tool definitions."""

from typing import Annotated

from pydantic import Field

from mcc.contracts.shape import Closed, JsonObject, Text

ServerNamed = Annotated[str, Field(min_length=1, max_length=64)]
ToolNamed = Annotated[str, Field(min_length=1, max_length=256)]


class ToolTest(Closed):
    """Connect to a server and, if `tool` is given (by its own name or the name that agents use), call that tool."""

    server: ServerNamed
    tool: ToolNamed | None = None
    arguments: JsonObject = Field(default_factory=dict)


class ToolTested(Closed):
    """The outcome of a trial. `problem` says why the server cannot be used, None = it can. `revision`: the negotiated
    protocol revision.

    `tools`: how many the server offers; `tokens`: how many tokens their definitions cost a model. `content` and
    `is_error` are the result of the call; `content` is None when no call was made.
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
    """Approve the definitions last seen, of one tool or of all tools of the server."""

    server: ServerNamed
    tool: ToolNamed | None = None


class ToolsApproved(Closed):
    """The tools whose definitions were newly approved, by the server's own names."""

    server: str
    tools: tuple[Text, ...]

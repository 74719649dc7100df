"""The tool that reads artifacts: a long text of this turn, piece by piece."""

from typing import Annotated

from pydantic import Field

from drone.agent.artifacts import handle_of
from drone.tools.display_text import pictured
from drone.tools.tool import FunctionTools, ToolContext, ToolFailed, tool
from mcc.contracts.shape import Text

READ = 20_000
"""Characters that are answered when the call does not say how many."""

MOST_READ = 100_000
"""Characters that are answered at most."""


class ArtifactTools(FunctionTools):
    """`read_artifact` for every agent of every turn: the texts are those of the turn that a call comes from."""

    def __init__(self) -> None:
        super().__init__([read_artifact])


@tool(group="workspace_read", idempotent=True, effects="read")
async def read_artifact(
    context: ToolContext,
    id: Text,
    start: Annotated[int, Field(ge=0)] = 0,
    length: Annotated[int, Field(ge=1)] = READ,
) -> str:
    """Read a piece of a text that was too long to be told at once, such as a tool's output or a subagent's report.

    The first line of the result says which characters of how many follow and where the next piece starts; from the
    second line on it is the text itself, control characters shown as pictures such as ␛. At most 100,000 characters
    come at once.

    Args:
        id: The handle that stands where the text was cut.
        start: The first character to read, counted from 0.
        length: How many characters to read.
    """
    text = await context.artifacts.read(id) if context.artifacts else None
    if text is None:
        shown = ascii(handle_of(id))
        raise ToolFailed(f"There is no artifact {shown} in this turn; the handles stand where a text was cut.")
    if start >= len(text):
        raise ToolFailed(f"The text has {len(text):,} characters, counted from 0: start must be below {len(text)}.")
    piece = text[start : start + min(length, MOST_READ)]
    end = start + len(piece)
    more = f"go on with start {end}" if end < len(text) else "this is the end"
    return f"characters {start} to {end} of {len(text)}; {more}\n{pictured(piece)[0]}"

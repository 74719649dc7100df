"""The tool that reads on in a text which was too long to be told at once."""

from typing import Annotated

from pydantic import Field

from drone.agent.artifacts import handle_of
from drone.tools.display_text import pictured
from drone.tools.tool import FunctionTools, ToolContext, ToolFailed, tool
from mcc.contracts.shape import Text

READ = 20_000
"""Characters that are answered when the call does not say how many."""

MOST_READ = 60_000
"""Characters that are answered at most."""


class ArtifactTools(FunctionTools):
    """`read_artifact` for every agent of every turn: the texts are those of the turn that a call comes from."""

    def __init__(self) -> None:
        super().__init__([read_artifact])


@tool(idempotent=True, effects="read")
async def read_artifact(
    context: ToolContext,
    id: Text,
    start: Annotated[int, Field(ge=0)] = 0,
    length: Annotated[int, Field(ge=1)] = READ,
) -> str:
    """Read a piece of a text that was too long to be told at once.

    The first line says where the next piece starts; 60,000 characters at most.

    Args:
        id: The handle that stands where the text was cut.
        start: First character, from 0.
        length: Characters to read.
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

"""The tool `read_artifact`, which reads further in a long text that a model was shown cut."""

from typing import Annotated

from pydantic import Field

from drone.agent.turns.toolset import Output
from drone.tools.frame.display_text import one_line, show_controls
from drone.tools.frame.tool import FunctionTools, ToolContext, ToolFailed, tool
from mcc.contracts.shape import Text
from mcc.transcript.previews import handle_of

DEFAULT_LENGTH = 20_000
"""Characters returned when the call names no length."""

MAX_LENGTH = 60_000
_NAME = 200
"""The most characters that one call returns."""


class ArtifactTools(FunctionTools):
    """`read_artifact` for all agents of all turns: each call reads the artifacts of the turn it comes from."""

    def __init__(self) -> None:
        super().__init__([read_artifact])


@tool(idempotent=True, effects="read")
async def read_artifact(
    context: ToolContext,
    id: Text,
    start: Annotated[int, Field(ge=0)] = 0,
    length: Annotated[int, Field(ge=1)] = DEFAULT_LENGTH,
) -> Output:
    """Read a piece of a text that was cut, or see a picture again.

    The first line says where the next piece starts; 60,000 characters at most.

    Args:
        id: The handle that stands there.
        start: First character, from 0.
        length: Characters to read.
    """
    return await read_piece(context, id, start, length)


async def read_piece(context: ToolContext, handle: str, start: int, length: int) -> Output:
    """A piece of the text with this handle, or the picture. Raises `ToolFailed`."""
    if context.artifacts and (picture := context.artifacts.picture(handle)) is not None:
        return Output(f"{one_line(picture.name, _NAME)}, {picture.media_type}\n", images=(picture,))
    text = await context.artifacts.read(handle) if context.artifacts else None
    if text is None:
        shown = ascii(handle_of(handle))
        raise ToolFailed(f"There is no artifact {shown} in this turn; the handles stand where a text was cut.")
    if start >= len(text):
        raise ToolFailed(f"The text has {len(text):,} characters, counted from 0: start must be below {len(text)}.")
    piece = text[start : start + min(length, MAX_LENGTH)]
    end = start + len(piece)
    more = f"go on with start {end}" if end < len(text) else "this is the end"
    return Output(f"characters {start} to {end} of {len(text)}; {more}\n{show_controls(piece)[0]}")

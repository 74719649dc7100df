"""This room is for a tool set whose results have a largest size."""

from collections.abc import Sequence
from dataclasses import replace

from drone.agent.messages import ToolSpec
from drone.agent.ports import Call, Output, ToolSet
from drone.tools.terminal_text import MAX_BYTES, clipped


class Capped:
    """Longer results keep head and tail, and say how many bytes are left out between them."""

    def __init__(self, toolset: ToolSet, max_bytes: int = MAX_BYTES) -> None:
        self._toolset = toolset
        self._max_bytes = max_bytes

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        output = await self._toolset.call(call)
        content = clipped(output.content, self._max_bytes)
        return output if content is output.content else replace(output, content=content)

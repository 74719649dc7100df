"""This room is for a tool set of which only some tools may be used: in the catalogue, and where a call runs."""

from collections.abc import Iterable, Sequence

from drone.agent.messages import ToolSpec
from drone.agent.ports import Call, Output, ToolSet
from drone.tools.tool import unknown_tool
from mcc.contracts.journal import Outcome


class Only:
    """`names` are tool names; those that the inner set lacks count for nothing."""

    def __init__(self, toolset: ToolSet, names: Iterable[str]) -> None:
        self._toolset = toolset
        self._names = frozenset(names)

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(spec for spec in self._toolset.specs() if spec.name in self._names)

    async def call(self, call: Call) -> Output:
        if call.name in self._names:
            return await self._toolset.call(call)
        exists = any(spec.name == call.name for spec in self._toolset.specs())
        allowed = [spec.name for spec in self.specs()]
        return unknown_tool(call.name, allowed, Outcome.DENIED if exists else Outcome.ERROR)

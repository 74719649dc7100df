"""A tool set around a tool set whose results never carry a known secret to a model, a record or a viewer."""

from collections.abc import Sequence
from dataclasses import replace

from drone.agent.messages import ToolSpec
from drone.agent.mishap import mishap_of_tool
from drone.agent.ports import Call, Output, ToolSet
from mcc.contracts.journal import Outcome
from mcc.redaction import Redactor


class Redacted:
    """Says what the tools say, without secrets: in their results, and in what they raise."""

    def __init__(self, toolset: ToolSet, redactor: Redactor) -> None:
        self._toolset = toolset
        self._redactor = redactor

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        try:
            output = await self._toolset.call(call)
        except BaseException as error:
            said = mishap_of_tool(error)
            if (clean := self._redactor.text(said)) == said:
                raise
            return Output(f"The tool {call.name} broke: {clean}", is_error=True, outcome=Outcome.ERROR)
        content = self._redactor.text(output.content)
        return output if content is output.content else replace(output, content=content)

"""Tool sets around a tool set: only some of its tools, calls that end in time, results without known secrets."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from drone.agent.messages import ToolSpec
from drone.agent.report import mishap_of_tool
from drone.agent.toolset import Call, Output, ToolSet
from drone.tools.tool import failure, unknown_tool
from mcc.contracts.journal import Outcome
from mcc.redaction import Redactor

GRACE_SECONDS = 5.0
"""For a call that was told to stop. One that does not is left behind: nobody waits for it any longer."""


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


class Timed:
    """A call may take its tool's own `seconds`, or `default_seconds` when the tool names none."""

    def __init__(self, toolset: ToolSet, default_seconds: float, grace_seconds: float = GRACE_SECONDS) -> None:
        self._toolset = toolset
        self._default_seconds = default_seconds
        self._grace_seconds = grace_seconds

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        own = next((spec.seconds for spec in self._toolset.specs() if spec.name == call.name), None)
        seconds = self._default_seconds if own is None else own
        work = asyncio.create_task(self._worked(call))
        try:
            await asyncio.wait((work,), timeout=seconds)
        finally:
            in_time = work.done()
            if not in_time:
                work.cancel()
                await asyncio.wait((work,), timeout=self._grace_seconds)
        if in_time or (work.done() and not work.cancelled()):
            brought = work.result()
            if isinstance(brought, Output):
                return brought
            raise brought
        return failure(
            f"{call.name} did not finish within {seconds:g} s and was given up; whether it had an effect is not known. "
            "Ask for less at once, or go another way.",
            Outcome.TIMEOUT,
        )

    async def _worked(self, call: Call) -> Output | BaseException:
        """What the call brought or raised: it never ends the loop, also when nobody waits any more."""
        try:
            return await self._toolset.call(call)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return error


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

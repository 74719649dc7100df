"""Tool sets around a tool set: only some of its tools, calls that end in time, results without known secrets."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from drone.agent.messages import ToolSpec
from drone.agent.remembered import Remembered
from drone.agent.report import mishap_of_tool
from drone.agent.toolset import Call, Output, Preview, ToolSet, preview_of
from drone.tools.tool import failure, unknown_tool
from mcc.contracts.journal import Outcome
from mcc.redaction import Redactor

T = TypeVar("T")

GRACE_SECONDS = 5.0
"""For a call that was told to stop. One that does not is left behind: nobody waits for it any longer."""


class Only:
    """`names` are tool names; those that the inner set lacks count for nothing."""

    def __init__(self, toolset: ToolSet, names: Iterable[str]) -> None:
        self._toolset = toolset
        self._names = frozenset(names)
        self._of = Remembered(self._chosen, most=1)

    def specs(self) -> Sequence[ToolSpec]:
        return self._of(self._toolset.specs())

    def _chosen(self, there: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        return tuple(spec for spec in there if spec.name in self._names)

    async def call(self, call: Call) -> Output:
        if call.name in self._names:
            return await self._toolset.call(call)
        exists = any(spec.name == call.name for spec in self._toolset.specs())
        allowed = [spec.name for spec in self.specs()]
        return unknown_tool(call.name, allowed, Outcome.DENIED if exists else Outcome.ERROR)

    async def preview(self, call: Call) -> Preview | Output | None:
        return await preview_of(self._toolset, call) if call.name in self._names else None


class OnlyReading:
    """Who has tools by this set changes no workspace by those that can do without (`ToolSpec.reads_as`)."""

    def __init__(self, toolset: ToolSet) -> None:
        self._toolset = toolset
        self._of = Remembered(_lowered, most=1)

    def specs(self) -> Sequence[ToolSpec]:
        return self._of(self._toolset.specs())

    async def call(self, call: Call) -> Output:
        return await self._toolset.call(replace(call, read_only=True))

    async def preview(self, call: Call) -> Preview | Output | None:
        return await preview_of(self._toolset, replace(call, read_only=True))


def only_reading(spec: ToolSpec) -> ToolSpec:
    """The tool as it is had by those who may not write; the same object for the same tool, since a spec remembers how
    it is encoded."""
    return _without_writing(spec) if spec.reads_as else spec


@Remembered
def _without_writing(spec: ToolSpec) -> ToolSpec:
    description = f"{spec.description} It cannot change files there."
    return replace(spec, group=spec.reads_as, reads_as="", description=description, encoded={})


def _lowered(there: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    return tuple(map(only_reading, there))


class Timed:
    """A call may take its tool's own `seconds`, or `default_seconds` when the tool names none."""

    def __init__(self, toolset: ToolSet, default_seconds: float, grace_seconds: float = GRACE_SECONDS) -> None:
        self._toolset = toolset
        self._default_seconds = default_seconds
        self._grace_seconds = grace_seconds

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        return await self._in_time(lambda: self._toolset.call(call), call.name, _GIVEN_UP)

    async def preview(self, call: Call) -> Preview | Output | None:
        return await self._in_time(lambda: preview_of(self._toolset, call), call.name, _NOT_SAID)

    async def _in_time(self, asked: Callable[[], Awaitable[T]], name: str, late: str) -> T | Output:
        own = next((spec.seconds for spec in self._toolset.specs() if spec.name == name), None)
        seconds = self._default_seconds if own is None else own
        work = asyncio.create_task(_worked(asked))
        try:
            await asyncio.wait((work,), timeout=seconds)
        finally:
            in_time = work.done()
            if not in_time:
                work.cancel()
                await asyncio.wait((work,), timeout=self._grace_seconds)
        if in_time or (work.done() and not work.cancelled()):
            brought = work.result()
            if isinstance(brought, BaseException):
                raise brought
            return brought
        return failure(late.format(name=name, seconds=seconds), Outcome.TIMEOUT)


_GIVEN_UP = (
    "{name} did not finish within {seconds:g} s and was given up; whether it had an effect is not known. "
    "Ask for less at once, or go another way."
)
_NOT_SAID = "{name} could not say within {seconds:g} s what it would do, and was not run. Ask for less at once."


async def _worked(asked: Callable[[], Awaitable[T]]) -> T | BaseException:
    """What it brought or raised: it never ends the loop, also when nobody waits any more."""
    try:
        return await asked()
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
        output = await self._clean(self._toolset.call(call), call.name)
        content = self._redactor.text(output.content)
        return output if content is output.content else replace(output, content=content)

    async def preview(self, call: Call) -> Preview | Output | None:
        said = await self._clean(preview_of(self._toolset, call), call.name)
        match said:
            case Preview():
                return replace(said, text=self._redactor.text(said.text))
            case Output():
                return replace(said, content=self._redactor.text(said.content))
            case None:
                return None

    async def _clean(self, asked: Awaitable[T], name: str) -> T | Output:
        try:
            return await asked
        except BaseException as error:
            said = mishap_of_tool(error)
            if (clean := self._redactor.text(said)) == said:
                raise
            return Output(f"The tool {name} broke: {clean}", is_error=True, outcome=Outcome.ERROR)

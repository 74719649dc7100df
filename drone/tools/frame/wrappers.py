"""Wrappers around a tool set: an allow-list, read-only use, time limits, redaction of known secrets."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from drone.agent.ports.identity_cache import IdentityCache
from drone.agent.ports.report import describe_tool_error_or_raise
from drone.agent.turns.toolset import Output, Preview, StartedCall, ToolSet, preview_of
from drone.tools.frame.tool import failure, unknown_tool
from mcc.contracts.journal import Outcome
from mcc.contracts.similar import hints_keywords
from mcc.redaction import Redactor
from mcc.transcript.messages import ToolSpec

T = TypeVar("T")

GRACE_SECONDS = 5.0
"""How long a cancelled call may take to end; after that it is abandoned, still running."""


class Only:
    """Only the named tools of the inner set; names that the inner set lacks are ignored."""

    def __init__(self, toolset: ToolSet, names: Iterable[str]) -> None:
        self._toolset = toolset
        self._names = frozenset(names)
        self._allowed = IdentityCache(self._filtered, most=1)

    def specs(self) -> Sequence[ToolSpec]:
        return self._allowed(self._toolset.specs())

    def _filtered(self, specs: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        return tuple(spec for spec in specs if spec.name in self._names)

    async def call(self, call: StartedCall) -> Output:
        if call.name in self._names:
            return await self._toolset.call(call)
        exists = any(spec.name == call.name for spec in self._toolset.specs())
        allowed = [spec.name for spec in self.specs()]
        return unknown_tool(call.name, allowed, Outcome.DENIED if exists else Outcome.ERROR)

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        return await preview_of(self._toolset, call) if call.name in self._names else None


class OnlyReading:
    """Tools that can work without changing the workspace (`ToolSpec.reads_as`) are restricted to doing so."""

    def __init__(self, toolset: ToolSet) -> None:
        self._toolset = toolset
        self._restricted = IdentityCache[[Sequence[ToolSpec]], Sequence[ToolSpec]](
            lambda specs: tuple(map(only_reading, specs)), most=1
        )

    def specs(self) -> Sequence[ToolSpec]:
        return self._restricted(self._toolset.specs())

    async def call(self, call: StartedCall) -> Output:
        return await self._toolset.call(replace(call, read_only=True))

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        return await preview_of(self._toolset, replace(call, read_only=True))


def only_reading(spec: ToolSpec) -> ToolSpec:
    """The tool's spec for agents that may not write.

    The same tool gives the same object each time, because a spec caches its encodings.
    """
    return _without_writing(spec) if spec.reads_as else spec


@IdentityCache
def _without_writing(spec: ToolSpec) -> ToolSpec:
    description = f"{spec.description} It cannot change files there."
    return replace(spec, group=spec.reads_as, reads_as="", description=description, encoded={})


class Timed:
    """A time limit for each call: its tool's own `seconds`, or `default_seconds` when the tool names none."""

    def __init__(self, toolset: ToolSet, default_seconds: float, grace_seconds: float = GRACE_SECONDS) -> None:
        self._toolset = toolset
        self._default_seconds = default_seconds
        self._grace_seconds = grace_seconds

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: StartedCall) -> Output:
        return await self._in_time(lambda: self._toolset.call(call), call.name, _GIVEN_UP)

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        return await self._in_time(lambda: preview_of(self._toolset, call), call.name, _NOT_SAID)

    async def _in_time(self, action: Callable[[], Awaitable[T]], name: str, late: str) -> T | Output:
        own = next((spec.seconds for spec in self._toolset.specs() if spec.name == name), None)
        seconds = self._default_seconds if own is None else own
        # A task of its own, so that a call which ignores its cancellation can be left behind.
        work = asyncio.create_task(_value_or_error(action))
        try:
            await asyncio.wait((work,), timeout=seconds)
        finally:
            in_time = work.done()
            if not in_time:
                work.cancel()
                await asyncio.wait((work,), timeout=self._grace_seconds)
        if in_time or (work.done() and not work.cancelled()):
            result = work.result()
            if isinstance(result, BaseException):
                raise result
            return result
        return failure(late.format(name=name, seconds=seconds), Outcome.TIMEOUT)


_GIVEN_UP = (
    "{name} did not finish within {seconds:g} s and was given up; whether it had an effect is not known. "
    "Ask for less at once, or go another way."
)
_NOT_SAID = "{name} could not say within {seconds:g} s what it would do, and was not run. Ask for less at once."


async def _value_or_error(action: Callable[[], Awaitable[T]]) -> T | BaseException:
    """The action's value, or the exception it raised: a task that raised `SystemExit` would end the event loop."""
    try:
        return await action()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error


@hints_keywords
class Redacted:
    """Removes known secrets from the tools' results, previews and exceptions."""

    def __init__(self, toolset: ToolSet, redactor: Redactor) -> None:
        self._toolset = toolset
        self._redactor = redactor

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: StartedCall) -> Output:
        output = await self._clean(self._toolset.call(call), call.name)
        content = self._redactor.text(output.content)
        return output if content is output.content else replace(output, content=content)

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        preview = await self._clean(preview_of(self._toolset, call), call.name)
        match preview:
            case Preview():
                return replace(preview, text=self._redactor.text(preview.text))
            case Output():
                return replace(preview, content=self._redactor.text(preview.content))
            case None:
                return None

    async def _clean(self, action: Awaitable[T], name: str) -> T | Output:
        """The result of `action`, or an error result without secrets where its exception holds one."""
        try:
            return await action
        except BaseException as error:
            message = describe_tool_error_or_raise(error)
            if (clean := self._redactor.text(message)) == message:
                raise
            return Output(f"The tool {name} broke: {clean}", is_error=True, outcome=Outcome.ERROR)

"""What follows the effect of a call: bookkeeping whose failure takes neither outcome nor content from its result."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from threading import Event
from typing import TypeVar

from drone.agent.ports.artifacts import NOT_RECORDED
from drone.agent.ports.journal import JournalError
from drone.agent.ports.report import describe_tool_error_or_raise
from drone.agent.turns.toolset import Output
from drone.agent.turns.turn import Turn
from drone.checkpoints.scan import ScanStopped
from drone.checkpoints.store import StoreBroken
from drone.sandbox.places.paths import PathError
from drone.threads import NoThread
from drone.tools.frame.display_text import one_line
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import to_json

T = TypeVar("T")

RECORD_SECONDS = 240.0
"""How long one piece of bookkeeping may take. It ends before the time limit of a call whose command took all of its
own."""

_REASON = 300
_SENTENCES = (StoreBroken, PathError, NoThread, OSError)
"""Errors whose message alone says what is wrong."""


def output_of(value: object) -> Output:
    """What a function returned, as a result. A value that is no JSON does not hide that the function ran to its end."""
    if isinstance(value, Output):
        return value
    try:
        return Output(value if isinstance(value, str) else to_json(value).decode())
    except Exception as error:
        why = f"{type(error).__name__}: {one_line(str(error), _REASON)}"
        return Output(f"It ran to its end, but what it returned cannot be told: {why}", True, Outcome.ERROR)


class Aftermath:
    """The bookkeeping after one call's effect. Once something could not be recorded, the call's result says so in a
    line, and the order is parked before its next call. Use on one event loop."""

    def __init__(self, turn: Turn | None, stop: Event | None = None, *, seconds: float = RECORD_SECONDS) -> None:
        """`stop` ends a scan that takes longer than `seconds`."""
        self._turn = turn
        self._stop = stop
        self._seconds = seconds
        self._problems: list[str] = []

    async def recorded(self, work: Awaitable[T], otherwise: T) -> T:
        """The value of this work, or `otherwise` where it fails. Raises `JournalError`: nothing can be told then."""
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await work
        except (JournalError, asyncio.CancelledError):
            raise
        except TimeoutError as error:
            if self._stop is not None:
                self._stop.set()
            self.add(
                f"it took longer than {self._seconds:g} s" if limit.expired() else describe_tool_error_or_raise(error)
            )
        except ScanStopped:
            self.add("it was stopped")
        except Exception as error:
            self.add(str(error) if isinstance(error, _SENTENCES) else describe_tool_error_or_raise(error))
        return otherwise

    def add(self, why: str) -> None:
        """Something could not be recorded, for this reason."""
        said = one_line(why, _REASON).rstrip(".")
        if said not in self._problems:
            self._problems.append(said)
            if self._turn is not None:
                self._turn.hold_up(said)

    @property
    def line(self) -> str:
        """The line for the call's result; empty where all was recorded."""
        return f"{NOT_RECORDED}: {'; '.join(self._problems)}." if self._problems else ""

    def told(self, output: Output) -> Output:
        """The call's result, with the line."""
        return replace(output, content=f"{output.content}\n{self.line}") if self._problems else output

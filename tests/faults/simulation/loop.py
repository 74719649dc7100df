"""Simulated time and simulated processes: one event loop whose every step can be withheld.

No step waits for the real clock: when nothing is ready, time leaps to the next timer. A process is whatever was begun
in its context; frozen, its steps are put aside as a stopped process' are; killed, they stay there.
"""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from mcc.testing import FakeClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PROCESS: ContextVar["Process | None"] = ContextVar("process", default=None)
"""Which process the present step belongs to; None: the world outside of all of them."""


class Stalled(RuntimeError):
    """Nothing is ready and no timer is set: whoever waits, waits for ever."""


class State(Enum):
    RUNNING = auto()
    FROZEN = auto()
    DEAD = auto()


@dataclass(slots=True, eq=False)
class Process:
    """Everything that one process does. `before` is called ahead of each step and may freeze or kill it there."""

    name: str
    state: State = State.RUNNING
    steps: int = 0
    before: Callable[["Process"], None] | None = None
    _aside: list["_Step"] = field(default_factory=list)

    def kill(self) -> None:
        """It does nothing more; `unwind` alone lets what it had begun come apart."""
        self.state = State.DEAD

    def freeze(self) -> None:
        if self.state is State.RUNNING:
            self.state = State.FROZEN

    def thaw(self, loop: "SimulatedLoop") -> None:
        """Do what would have been done meanwhile, in its order."""
        if self.state is State.FROZEN:
            self.unwind(loop)

    def unwind(self, loop: "SimulatedLoop") -> None:
        """Go on, dead or not: for the end of a simulation, when nothing that it does reaches anybody."""
        self.state = State.RUNNING
        aside, self._aside = self._aside, []
        for step in aside:
            loop.again(step)

    def takes(self, step: "_Step") -> bool:
        """Whether the step is to be done now."""
        if self.state is State.RUNNING:
            self.steps += 1
            if self.before is not None:
                self.before(self)
        if self.state is not State.RUNNING:
            self._aside.append(step)
        return self.state is State.RUNNING


class _Step:
    """A callback of a process; its handle tells whether it was cancelled while it lay aside."""

    __slots__ = ("args", "callback", "context", "handle", "process")

    def __init__(self, process: Process, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if (self.handle is None or not self.handle.cancelled()) and self.process.takes(self):
            self.callback(*self.args)


class _Leap(selectors.SelectSelector):
    """Instead of waiting, lets the time pass."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stalled("nothing is ready, and nothing ever will be")
        if timeout > 0:
            self._clock.advance(timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs on `clock`. What is called in a thread runs between two steps, and its answer may come later, by `dice`."""

    def __init__(self, clock: FakeClock, dice: Random) -> None:
        super().__init__(_Leap(clock))
        self._simulated = clock
        self._dice = dice
        self.slow = 0.15
        """How many of the calls in a thread take time."""

    def time(self) -> float:
        return self._simulated.uptime()

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        step = _Step(process, callback, args, context)
        step.handle = super().call_soon(step, context=context)
        return step.handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        step = _Step(process, callback, args, context)
        handle = super().call_at(when, step, context=context)
        step.handle = handle
        return handle

    def again(self, step: _Step) -> None:
        """Do a step that was put aside."""
        super().call_soon(step, context=step.context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        answered: asyncio.Future[T] = self.create_future()

        def answer(set_it: Callable[[], None]) -> None:
            if not answered.done():
                set_it()

        def work() -> None:
            if answered.cancelled():
                return
            try:
                set_it = partial(answered.set_result, func(*args))
            except Exception as problem:
                set_it = partial(answered.set_exception, problem)
            self._in_a_while(lambda: answer(set_it))

        self._in_a_while(work)
        return answered

    def _in_a_while(self, act: Callable[[], None]) -> None:
        if self._dice.random() < self.slow:
            self.call_later(self._dice.random() ** 3 * 0.5, act)
        else:
            self.call_soon(act)

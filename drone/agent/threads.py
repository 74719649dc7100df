"""Threads for work that blocks, with a bound for each order; tasks side by side, ended by the first that fails."""

import asyncio
import time
from _thread import start_new_thread
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import get_native_id
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

Part: TypeAlias = Callable[[], Awaitable[None]]


@asynccontextmanager
async def side_by_side() -> AsyncIterator[Callable[[Part], asyncio.Task[None]]]:
    """Start parts inside; at the end all of them are over. Raises what the first failed part raised, in no group.

    In a bare `TaskGroup` a part that fails cancels the task that waits, and Python before 3.13 may not take that back:
    every time limit around it would then be a cancellation.
    """
    tasks: list[asyncio.Task[None]] = []
    failures: list[Exception] = []

    async def guarded(part: Part) -> None:
        try:
            await part()
        except Exception as failure:
            failures.append(failure)
            for task in tasks:
                if task is not asyncio.current_task():
                    task.cancel()

    async with asyncio.TaskGroup() as group:

        def start(part: Part) -> asyncio.Task[None]:
            tasks.append(group.create_task(guarded(part)))
            return tasks[-1]

        yield start
    if failures:
        raise failures[0]


P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS = 5.0
"""A thread that nobody waits for any more has so long to end before it counts as left behind."""


Witness = Callable[[int, str | None], None]
"""Is told in the thread itself, by the system's number, which order it works for; None: for none any more."""


def _nobody(thread: int, order_id: str | None) -> None:
    """Nobody wants to know."""


class NoThread(Exception):
    """All threads that an order may have are taken by work of its own that does not end; the sentence says so."""


@dataclass(slots=True, eq=False)
class _Work(Generic[T]):
    """One piece of work from when it is asked for until its thread ends. `owner`: whose bound it counts against."""

    owner: str
    order_id: str
    function: Callable[[], T]
    result: "asyncio.Future[T]"
    admitted: bool = False
    begun: bool = False
    abandoned_at: float | None = None

    def begin(self, witness: Witness) -> T:
        """In the thread."""
        self.begun = True
        thread = get_native_id()
        witness(thread, self.order_id)
        try:
            return self.function()
        finally:
            witness(thread, None)


IDLE_SECONDS = 10.0
SPARE = 8
"""Threads of a pool of a process that wait for more work once theirs is done, each for `IDLE_SECONDS`."""

Given: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"


class _Unjoined(Executor):
    """Threads whose start nobody waits for and which do not keep the interpreter from ending.

    A thread that is done waits a while for more: starting one costs several times what telling one does.
    """

    def __init__(self, spare: int) -> None:
        self._spare = spare
        self._idle: list[SimpleQueue[Given]] = []
        """Of the threads that wait, the last to be done last."""

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        given: Given = (future, partial(function, *arguments, **named))
        try:
            self._idle.pop().put(given)
        except IndexError:
            start_new_thread(self._live, (given,))
        return future

    def _live(self, given: Given) -> None:
        own: SimpleQueue[Given] = SimpleQueue()
        while True:
            _worked(*given)
            del given  # Nothing of it is kept for as long as this thread waits.
            if len(self._idle) >= self._spare:
                return
            self._idle.append(own)
            try:
                given = own.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(own)
                    return
                except ValueError:
                    given = own.get()  # Work was given to it just now.


def _worked(future: "Future[T]", function: Callable[[], T]) -> None:
    try:
        answer = function()
    except StopIteration as error:
        # No future can carry StopIteration: whoever awaited it would take it for an end of its own.
        future.set_exception(RuntimeError(f"it raised {error!r}"))
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(answer)


class Threads:
    """Runs blocking functions in threads that never keep the process from ending. Use on one event loop only.

    An order has one thread for certain, and up to `per_order` while fewer than `in_all` are at work; further work of it
    waits its turn. Work that nobody waits for any longer keeps its place in its order's bound until it really ends.
    """

    def __init__(
        self,
        per_order: int,
        in_all: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        grace_seconds: float = GRACE_SECONDS,
        spare: int = 0,
    ) -> None:
        """`spare`: so many threads at most are kept for a while when there is nothing to do."""
        self._per_order = per_order
        self._in_all = in_all
        self._clock = clock
        self._grace_seconds = grace_seconds
        self.witness: Witness = _nobody
        self._unjoined = _Unjoined(spare)
        self._waiting: list[_Work[Any]] = []
        self._running: set[_Work[Any]] = set()
        self._taken: Counter[str] = Counter()
        self.ended = 0
        """How much work has ended so far."""

    async def run(self, order_id: str, function: Callable[..., T], *arguments: Any) -> T:
        """What the function answers or raises. When cancelled, the thread goes on by itself.

        Raises `NoThread`, and RuntimeError where the system has no thread left.
        """
        return await self.run_for(order_id, order_id, function, *arguments)

    async def run_for(self, owner: str, order_id: str, function: Callable[..., T], *arguments: Any) -> T:
        """The same for work of an order that counts against the bound of `owner`, which many orders may share."""
        if self.is_exhausted(owner):
            raise NoThread(self._why(owner))
        context = copy_context()
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        work = _Work(owner, order_id, lambda: context.run(function, *arguments), result)
        self._waiting.append(work)
        self._admit()
        try:
            return await result
        finally:
            self._let_go(work)

    def left_behind(self) -> Counter[str]:
        """How many threads of each owner go on although nobody has waited for them for a while."""
        return Counter(work.owner for work in self._running if self._is_left_behind(work))

    def is_exhausted(self, owner: str) -> bool:
        """Whether every thread that this owner may have is left behind."""
        return self._taken[owner] >= self._per_order <= self.left_behind()[owner]

    def keeps_waiting(self) -> bool:
        """Whether some work has not begun that its own owner does not hold up."""
        if any(not work.begun for work in self._running):
            return True
        return any(self._taken[work.owner] < self._per_order for work in self._waiting)

    def _is_left_behind(self, work: _Work[Any]) -> bool:
        return work.abandoned_at is not None and self._clock() - work.abandoned_at >= self._grace_seconds

    def _admit(self) -> None:
        for work in list(self._waiting):
            taken = self._taken[work.owner]
            if taken == 0 or (taken < self._per_order and len(self._running) < self._in_all):
                self._waiting.remove(work)
                self._begin(work)

    def _begin(self, work: _Work[Any]) -> None:
        work.admitted = True
        self._running.add(work)
        self._taken[work.owner] += 1
        try:
            ending = asyncio.get_running_loop().run_in_executor(self._unjoined, work.begin, self.witness)
        except RuntimeError as problem:
            ending = asyncio.get_running_loop().create_future()
            ending.set_exception(problem)
        ending.add_done_callback(partial(self._over, work))

    def _over(self, work: _Work[Any], ending: "asyncio.Future[Any]") -> None:
        self._running.discard(work)
        self._taken[work.owner] -= 1
        if not self._taken[work.owner]:
            del self._taken[work.owner]
        self.ended += 1
        problem = None if ending.cancelled() else ending.exception()
        if not work.result.done():
            if problem is None:
                work.result.set_result(ending.result())
            else:
                work.result.set_exception(problem)
        self._admit()

    def _let_go(self, work: _Work[Any]) -> None:
        """Nobody waits for it any more."""
        if not work.admitted:
            with suppress(ValueError):
                self._waiting.remove(work)
        elif work in self._running:
            work.abandoned_at = self._clock()
            asyncio.get_running_loop().call_later(self._grace_seconds, self._refuse, work.owner)

    def _refuse(self, owner: str) -> None:
        """What waits for a thread of this owner waits in vain, once all of them are left behind."""
        if not self.is_exhausted(owner):
            return
        for work in [one for one in self._waiting if one.owner == owner]:
            self._waiting.remove(work)
            if not work.result.done():
                work.result.set_exception(NoThread(self._why(owner)))

    def _why(self, order_id: str) -> str:
        return (
            f"{self._taken[order_id]} earlier calls of this order were given up and still run, and an order has no "
            "more threads than these: nothing that needs one can be called any more. Finish with what you have."
        )


@dataclass(frozen=True, slots=True)
class Pools:
    """The threads of a process, by what they are for: what blocks in one of them holds up nothing in another.

    `looks` are those at workspaces, bounded by the root that they look under: a file system that does not answer holds
    up this many of them for all orders there, and no process is better off than this one.
    """

    tools: Threads = field(default_factory=lambda: Threads(per_order=8, in_all=64, spare=SPARE))
    gates: Threads = field(default_factory=lambda: Threads(per_order=2, in_all=16, spare=SPARE))
    claims: Threads = field(default_factory=lambda: Threads(per_order=1, in_all=16, spare=SPARE))
    looks: Threads = field(default_factory=lambda: Threads(per_order=3, in_all=16, spare=SPARE))

    @property
    def every(self) -> tuple[Threads, ...]:
        return (self.tools, self.gates, self.claims, self.looks)

    def tell(self, witness: Witness) -> None:
        """Have whoever wants to know told which thread works for which order."""
        for one in self.every:
            one.witness = witness

    def left_behind(self) -> int:
        """How many threads go on in vain that another process would be free of."""
        return sum(one.left_behind().total() for one in self.every if one is not self.looks)

    def exhausted_by(self, order_id: str) -> bool:
        """Whether this order has left all threads behind that it may have of one kind."""
        return any(one.is_exhausted(order_id) for one in self.every)

    def keep_waiting(self) -> bool:
        """Whether some work has not begun that its own order does not hold up."""
        return any(one.keeps_waiting() for one in self.every)

    @property
    def ended(self) -> int:
        """How much work of any kind has ended so far."""
        return sum(one.ended for one in self.every)

    def of(self, order_id: str) -> "OwnThreads":
        return OwnThreads(self, order_id)


@dataclass(frozen=True, slots=True)
class OwnThreads:
    """The threads of one order. All of it raises `NoThread`."""

    pools: Pools = field(default_factory=Pools)
    order_id: str = ""

    async def tool(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.pools.tools.run(self.order_id, function, *arguments)

    async def gate(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.pools.gates.run(self.order_id, function, *arguments)

    async def claim(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.pools.claims.run(self.order_id, function, *arguments)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What the function answers or raises, from a thread of its own."""
    return await Threads(1, 1).run("", function, *arguments)

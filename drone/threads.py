"""Thread pools for blocking work, with a bound per order; concurrent tasks that end when the first of them fails."""

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
    """Yields a function that starts a part; on exit waits for all parts. Raises the first failed part's error itself,
    not an exception group; a failure cancels the other parts.

    In a plain `TaskGroup` a failing part cancels the waiting task, and Python before 3.13 may not undo that: a time
    limit around it would then become a cancellation.
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
"""A thread whose caller was cancelled counts as left behind when it has not ended after this time."""


Witness = Callable[[int, str | None], None]
"""Called in the thread itself with its native id and the order it now works for; None: it has finished."""


def _no_witness(thread: int, order_id: str | None) -> None:
    """The witness where none is set."""


class NoThread(Exception):
    """All threads that an order may have are taken by work of its own that does not end; the message says so."""


@dataclass(slots=True, eq=False)
class _Work(Generic[T]):
    """One piece of work, from its request until its thread ends. `owner`: whose bound it counts against."""

    owner: str
    order_id: str
    function: Callable[[], T]
    result: "asyncio.Future[T]"
    admitted: bool = False
    begun: bool = False
    abandoned_at: float | None = None

    def begin(self, witness: Witness) -> T:
        """Run the function; called in the thread."""
        self.begun = True
        thread = get_native_id()
        witness(thread, self.order_id)
        try:
            return self.function()
        finally:
            witness(thread, None)


IDLE_SECONDS = 10.0
SPARE = 8
"""Most idle threads that each pool of a process keeps for `IDLE_SECONDS`."""

Given: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"


class _DaemonExecutor(Executor):
    """An executor whose threads do not keep the interpreter alive, and whose `submit` does not wait for their start.

    Idle threads wait a while for more work: starting a thread costs several times as much as handing work to one.
    """

    def __init__(self, spare: int) -> None:
        self._spare = spare
        self._idle: list[SimpleQueue[Given]] = []
        """Queues of the idle threads, the most recently used one last."""

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        given: Given = (future, partial(function, *arguments, **named))
        try:
            self._idle.pop().put(given)
        except IndexError:
            start_new_thread(self._loop, (given,))
        return future

    def _loop(self, given: Given) -> None:
        own: SimpleQueue[Given] = SimpleQueue()
        while True:
            _complete(*given)
            del given  # so that an idle thread does not keep finished work in memory
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
                    given = own.get()  # `submit` has just taken this queue, so work is coming


def _complete(future: "Future[T]", function: Callable[[], T]) -> None:
    try:
        answer = function()
    except StopIteration as error:
        # A future cannot carry StopIteration: in the awaiting coroutine it would mean that coroutine's own return.
        future.set_exception(RuntimeError(f"it raised {error!r}"))
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(answer)


class Threads:
    """Runs blocking functions in threads that never keep the process alive. Use on one event loop only.

    Each order always gets one thread, and up to `per_order` while fewer than `in_all` run; further work is queued. Work
    whose caller was cancelled still counts against its order's bound until it really ends.
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
        """`spare`: most idle threads kept for a while."""
        self._per_order = per_order
        self._in_all = in_all
        self._clock = clock
        self._grace_seconds = grace_seconds
        self.witness: Witness = _no_witness
        self._executor = _DaemonExecutor(spare)
        self._waiting: list[_Work[Any]] = []
        self._running: set[_Work[Any]] = set()
        self._taken: Counter[str] = Counter()
        self.ended = 0
        """Pieces of work ended so far."""

    async def run(self, order_id: str, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function in a thread; returns or raises what it does. When cancelled, the thread continues.

        Raises `NoThread`, and RuntimeError when the system cannot create a thread.
        """
        return await self.run_for(order_id, order_id, function, *arguments)

    async def run_for(self, owner: str, order_id: str, function: Callable[..., T], *arguments: Any) -> T:
        """The same for work of an order that counts against `owner`'s bound, which several orders may share."""
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
            self._abandon(work)

    def left_behind(self) -> Counter[str]:
        """The number of threads left behind, by owner (see `GRACE_SECONDS`)."""
        now, grace = self._clock(), self._grace_seconds
        abandoned = ((work.owner, work.abandoned_at) for work in self._running)
        return Counter(owner for owner, at in abandoned if at is not None and now - at >= grace)

    def is_exhausted(self, owner: str) -> bool:
        """Whether every thread that this owner may have is left behind."""
        return self._taken[owner] >= self._per_order <= self.left_behind()[owner]

    def keeps_waiting(self) -> bool:
        """Whether any work waits for a thread although its owner is within its bound."""
        if any(not work.begun for work in self._running):
            return True
        return any(self._taken[work.owner] < self._per_order for work in self._waiting)

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
            ending = asyncio.get_running_loop().run_in_executor(self._executor, work.begin, self.witness)
        except RuntimeError as problem:
            ending = asyncio.get_running_loop().create_future()
            ending.set_exception(problem)
        ending.add_done_callback(partial(self._ended, work))

    def _ended(self, work: _Work[Any], ending: "asyncio.Future[Any]") -> None:
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

    def _abandon(self, work: _Work[Any]) -> None:
        """Handle the end of the caller's wait: drop queued work, and mark running work as abandoned."""
        if not work.admitted:
            with suppress(ValueError):
                self._waiting.remove(work)
        elif work in self._running:
            work.abandoned_at = self._clock()
            asyncio.get_running_loop().call_later(self._grace_seconds, self._fail_waiting, work.owner)

    def _fail_waiting(self, owner: str) -> None:
        """Fail the owner's queued work once all of its threads are left behind."""
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
    """The thread pools of a process by purpose, so that work blocking one of them does not delay the others.

    `looks`: checks of workspaces, bounded per workspace root: a hanging file system blocks at most this many threads
    for all orders below it. Restarting the process would not help against those.
    """

    tools: Threads = field(default_factory=lambda: Threads(per_order=8, in_all=64, spare=SPARE))
    gates: Threads = field(default_factory=lambda: Threads(per_order=2, in_all=16, spare=SPARE))
    claims: Threads = field(default_factory=lambda: Threads(per_order=1, in_all=16, spare=SPARE))
    looks: Threads = field(default_factory=lambda: Threads(per_order=3, in_all=16, spare=SPARE))

    @property
    def every(self) -> tuple[Threads, ...]:
        return (self.tools, self.gates, self.claims, self.looks)

    def tell(self, witness: Witness) -> None:
        """Call `witness` from now on when a thread of any pool starts or ends work."""
        for one in self.every:
            one.witness = witness

    def left_behind(self) -> int:
        """The number of threads left behind that a restart of the process would get rid of."""
        return sum(one.left_behind().total() for one in self.every if one is not self.looks)

    def exhausted_by(self, order_id: str) -> bool:
        """Whether all threads that this order may have in one of the pools are left behind."""
        return any(one.is_exhausted(order_id) for one in self.every)

    def keep_waiting(self) -> bool:
        """Whether work in any pool waits for a thread although its order is within its bound."""
        return any(one.keeps_waiting() for one in self.every)

    @property
    def ended(self) -> int:
        """Pieces of work ended so far in all pools."""
        return sum(one.ended for one in self.every)

    def of(self, order_id: str) -> "OwnThreads":
        return OwnThreads(self, order_id)


@dataclass(frozen=True, slots=True)
class OwnThreads:
    """The thread pools as one order uses them. All methods raise `NoThread`."""

    pools: Pools = field(default_factory=Pools)
    order_id: str = ""

    async def tool(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.pools.tools.run(self.order_id, function, *arguments)

    async def gate(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.pools.gates.run(self.order_id, function, *arguments)

    async def claim(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.pools.claims.run(self.order_id, function, *arguments)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run the function in a thread of its own; returns or raises what it does."""
    return await Threads(1, 1).run("", function, *arguments)

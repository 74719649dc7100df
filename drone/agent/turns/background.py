"""The subagents that one agent runs in the background: their tasks, how they ended, and whether it has their reports.

The queue of what is to be delivered is the journal: what it names as left running and not as delivered. This holds what
no journal can: the tasks under this drone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from drone.agent.ports.report import Report
from mcc.contracts.record import AgentEnd, RecordStatus

OnEnd = Literal["wait", "cancel"]
"""What becomes of a subagent in the background whose parent has its answer: the answer waits, or the subagent is
cancelled."""


@dataclass(slots=True, eq=False)
class BackgroundChild:
    """One of them. `outcome`: its report, or a sentence why it never began; None until it has ended."""

    child_id: str
    agent: str
    title: str
    on_end: OnEnd
    outcome: Report | str | None = None
    began: float | None = None
    """Seconds that the turn had worked when it began here; None while it is queued."""
    taken: bool = False
    """A call of its parent brings the report."""
    task: "asyncio.Task[None] | None" = None
    """None where it ended under an earlier drone."""

    @property
    def status(self) -> AgentEnd:
        return self.outcome.status if isinstance(self.outcome, Report) else RecordStatus.FAILED


@dataclass(slots=True)
class Background:
    """Those of one agent. `cancel` ends a running agent, given its record id and why, and answers whether there is one;
    `broken` is called with an error that ends the whole tree. Use on one event loop only."""

    cancel: Callable[[str, str], bool]
    broken: Callable[[BaseException], None]
    error: BaseException | None = None
    """The first such error."""
    _children: dict[str, BackgroundChild] = field(default_factory=dict)
    _ended: list[BackgroundChild] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ids(self) -> Sequence[str]:
        return list(self._children)

    def __iter__(self) -> Iterator[BackgroundChild]:
        return iter(list(self._children.values()))

    def find(self, child_id: str) -> BackgroundChild | None:
        return self._children.get(child_id)

    @property
    def ready(self) -> Sequence[BackgroundChild]:
        """Those that have ended and whose reports nobody has taken, in the order of their ends."""
        return [child for child in self._ended if not child.taken]

    @property
    def owed(self) -> Sequence[BackgroundChild]:
        """Those that an answer of their parent waits for."""
        return [child for child in self if child.on_end == "wait" and not child.taken]

    def add(self, child: BackgroundChild) -> None:
        """Add one that has ended."""
        self._children[child.child_id] = child
        self._ended.append(child)

    def start(self, child: BackgroundChild, run: Callable[[], Awaitable[Report | str]]) -> None:
        """Run one in a task of its own, until its end or `end`."""
        self._children[child.child_id] = child
        child.task = asyncio.create_task(self._run(child, run), name=f"background {child.child_id}")

    async def _run(self, child: BackgroundChild, run: Callable[[], Awaitable[Report | str]]) -> None:
        try:
            child.outcome = await run()
        except asyncio.CancelledError:
            child.outcome = "It was called off before it had begun."
        except BaseException as error:
            # Not raised here, where nobody waits: it is the parent that must not go on.
            self.error = self.error or error
            self.broken(error)
            return
        self._ended.append(child)
        self.wake()

    def forget(self, child: BackgroundChild) -> None:
        """Drop one that never began, as the call that wanted it says why."""
        self._children.pop(child.child_id, None)
        if child in self._ended:
            self._ended.remove(child)

    def wake(self) -> None:
        """Let those who wait look again."""
        self._changed.set()

    async def until(self, true: Callable[[], bool], seconds: float | None) -> None:
        """Wait until this holds, at most so long (None: for ever). It is looked at after each end and `wake`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not true():
                    self._changed = changed = asyncio.Event() if self._changed.is_set() else self._changed
                    await changed.wait()

    def stop(self, child: BackgroundChild, why: str) -> None:
        """Cancel one, with all that it runs, if it has not ended. It ends by itself soon after."""
        # One that waits for its slot, or for its worktree, has no run that could be ended.
        if child.task is not None and child.outcome is None and not self.cancel(child.child_id, why):
            child.task.cancel()

    async def end(self, why: str, *, at_once: bool) -> None:
        """Cancel all that have not ended, and wait until they have. `at_once`: nothing can be written any more."""
        tasks = [child.task for child in self if child.task is not None and not child.task.done()]
        for child in self:
            if at_once and child.task is not None:
                child.task.cancel()
            else:
                self.stop(child, why)
        try:
            if tasks:
                await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

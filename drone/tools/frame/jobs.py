"""Background jobs: commands of one order that outlive the calls that started them and end with the order."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from drone.checkpoints.recording import NOTHING_CHANGED, CallChanges
from drone.sandbox.bubblewrap import Running
from drone.sandbox.child import EndedProgram
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.terminal import Overwriting

MOST = 4
"""The default limit on the jobs of one order that run at the same time."""

LOOK_SECONDS = 1.0
"""How often a job's watch checks whether the job is still wanted."""

_NAME = "job-"


class JobState(StrEnum):
    RUNNING = "running"
    EXITED = "exited"  # by itself, or at its time limit
    STOPPED = "stopped"  # killed: by a call, because its agent was cancelled, or because the order ended
    LOST = "lost"  # its drone is gone or handed the order back: how the job ended is unknown


class TooManyJobs(Exception):
    """The order already runs as many jobs as it may."""


@dataclass(slots=True, eq=False)
class BackgroundJob:
    """One background command.

    Once it is `over`, `ended` says how it ended and `changed` what it changed of its `workspace`, as `changes`
    finds it; `not_recorded` is a line that says why not all could be found. `unwanted` answers whether the
    job should be stopped because no agent needs it any more. `refused` returns the result fields about hosts that the
    job was refused.
    """

    handle: str
    command: str
    profile: str
    output: Overwriting
    running: Running
    workspace: Workspace
    unwanted: Callable[[], bool]
    changes: Callable[[EndedProgram | None], Awaitable[tuple[CallChanges, str]]]
    began: float = field(default_factory=time.monotonic)
    state: JobState = JobState.RUNNING
    ended: EndedProgram | None = None
    over: bool = False
    changed: CallChanges = NOTHING_CHANGED
    not_recorded: str = ""
    artifact: str | None = None
    refused: Callable[[], Mapping[str, object]] = dict
    _seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the job has run, or ran."""
        return self._seconds if self.over else time.monotonic() - self.began

    async def watch(self) -> None:
        """Wait for the end of the job, and stop the job when it becomes unwanted."""
        ending = asyncio.ensure_future(self.running.wait())
        while not ending.done():
            await asyncio.wait((ending,), timeout=LOOK_SECONDS)
            if not ending.done() and self.unwanted():
                await self.stop()
        self._seconds, self.over = self.seconds, True
        try:
            self.ended = ending.result()
        except Exception:
            self.state = JobState.LOST
        if self.state is JobState.RUNNING:
            self.state = JobState.EXITED
        # Only the journal's end gets here, after which nothing is told.
        with suppress(Exception):
            self.changed, self.not_recorded = await self.changes(self.ended)

    async def stop(self) -> None:
        """Kill the job's processes; `watch` then records the end."""
        if not self.over:
            self.state = JobState.STOPPED
            await self.running.kill()


class Jobs:
    """The jobs of one order on this drone; leaving this context ends them. Use on one event loop.

    `known` are the handles of jobs that the order started on other drones; these jobs are lost.
    """

    def __init__(self, known: Collection[str] = (), most: int = MOST) -> None:
        self.most = most
        self.lost = tuple(known)
        self._jobs: dict[str, BackgroundJob] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._starting = 0
        numbers = [int(name.removeprefix(_NAME)) for name in known if name.removeprefix(_NAME).isdecimal()]
        self._last = max(numbers, default=0)

    @property
    def all(self) -> tuple[BackgroundJob, ...]:
        return tuple(self._jobs.values())

    def get(self, handle: str) -> BackgroundJob | None:
        """The job with this handle, if this drone started it."""
        return self._jobs.get(handle)

    async def begin(self, make: Callable[[str], Awaitable[BackgroundJob]]) -> BackgroundJob:
        """Start a job: `make` receives its handle and returns the running job. Raises `TooManyJobs`."""
        running = sum(not job.over for job in self.all) + self._starting
        if running >= self.most:
            raise TooManyJobs
        self._last += 1
        # Counted while it starts, which takes time: another call may start a job meanwhile.
        self._starting += 1
        try:
            job = await make(f"{_NAME}{self._last}")
        finally:
            self._starting -= 1
        self._jobs[job.handle] = job
        self._watches[job.handle] = asyncio.create_task(job.watch(), name=job.handle)
        return job

    async def wait(self, handles: Collection[str], seconds: float) -> None:
        """Return when one of these jobs has ended, or after `seconds`."""
        watches = [self._watches[handle] for handle in handles if handle in self._watches]
        if watches and seconds > 0:
            await asyncio.wait(watches, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def __aenter__(self) -> "Jobs":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self, workspace: Workspace | None = None) -> None:
        """Stop all jobs, or those in `workspace`, and return when they are gone, even if cancelled meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        jobs = [job for job in self.all if workspace is None or job.workspace is workspace]
        ending = {asyncio.create_task(job.stop()) for job in jobs}
        ending.update(self._watches[job.handle] for job in jobs)
        while any(not task.done() for task in ending):
            try:
                await asyncio.wait(ending)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

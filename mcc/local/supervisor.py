"""The supervisor of a family's children: starts them in stages, stops them in reverse order, keeps their logs small."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from mcc.local.child import Backoff, Child, ChildCommand, LogFile, Notify
from mcc.local.errors import StartFailed

LOOK_SECONDS = 0.05
HOUSEKEEPING_SECONDS = 5.0
FAILED_STARTS = 3
"""After this many ends in a row, waiting for a child is given up."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Children that start together, and stop together within `grace_seconds`."""

    children: tuple[Child, ...]
    grace_seconds: float


class Supervisor:
    """All children of one family; leaving the context stops them, the last stage first."""

    def __init__(self, logs: Path, notify: Notify, backoff: Backoff | None = None) -> None:
        self._logs = logs
        self._notify = notify
        self._backoff = backoff or Backoff()
        self._stages: list[Stage] = []
        self._housekeeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Supervisor":
        self._housekeeping = asyncio.create_task(self._bound_logs())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        # In reverse: Redis goes last, so that drones can hand their orders back and say so.
        for stage in reversed(self._stages):
            await asyncio.gather(*(child.stop(stage.grace_seconds) for child in stage.children))

    @property
    def children(self) -> tuple[Child, ...]:
        return tuple(child for stage in self._stages for child in stage.children)

    def start(self, commands: Mapping[str, Callable[[], ChildCommand]], grace_seconds: float) -> tuple[Child, ...]:
        """Start a stage of programs, by name. The log of an earlier program of the same name is rotated away."""
        logs = {name: LogFile(self._logs / f"{name}.log") for name in commands}
        children = tuple(
            Child(name, command, logs[name], self._notify, self._backoff) for name, command in commands.items()
        )
        self._stages.append(Stage(children, grace_seconds))
        for child in children:
            child.log.rotate()
            child.start()
        return children

    def kill(self) -> None:
        """Kill every child now."""
        for child in self.children:
            child.kill()

    async def until(self, condition: Callable[[], Awaitable[object]], needed: Iterable[Child], seconds: float) -> None:
        """Wait until `condition` answers true. Raises `StartFailed` when one of `needed` does not stay up, or after
        `seconds`."""
        needed, end = tuple(needed), time.monotonic() + seconds
        while not await condition():
            for child in needed:
                if child.failures >= FAILED_STARTS:
                    raise StartFailed(f"{child.name} does not stay up. {_end_of_log(child)}")
            if time.monotonic() > end:
                logs = "\n".join(_end_of_log(child) for child in needed)
                raise StartFailed(f"Not ready after {seconds:g} s.\n{logs}")
            await asyncio.sleep(LOOK_SECONDS)

    async def _bound_logs(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            for file in await asyncio.to_thread(lambda: sorted(self._logs.glob("*.log"))):
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(LogFile(file).bound)


def _end_of_log(child: Child) -> str:
    lines = child.log.tail()
    return f"The end of {child.log.path}:\n{lines}" if lines else f"{child.log.path} is empty."

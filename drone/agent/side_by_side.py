"""Work side by side: the first part that fails ends the others, and is what the caller hears."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

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

"""This room is for mishaps: whatever a model or tool of somebody else raises, as words for those who must know."""

import asyncio

from drone.agent.ports import JournalError

SAID = 500
"""Characters of an error's own words that are passed on."""


def mishap(error: BaseException) -> str:
    """What went wrong; raises `error` again when it is about the run itself: a cancellation of it, or its journal.

    `SystemExit` is a mishap like others: it speaks for one call, never for the process with all its orders.
    """
    if isinstance(error, asyncio.CancelledError):
        if _is_cancelled():
            raise error
        return "it was cancelled from within"
    if isinstance(error, JournalError) or not isinstance(error, Exception | SystemExit):
        raise error
    return f"{type(error).__name__}: {str(error)[:SAID]}"


def _is_cancelled() -> bool:
    """Whether somebody asked this task to stop, rather than some task that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0

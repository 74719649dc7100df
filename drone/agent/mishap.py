"""Mishaps: whatever a model or tool of somebody else raises, as words for those who must know."""

import asyncio

from drone.agent.journal import JournalError
from mcc.contracts.shape import repeated_key
from mcc.rules.report import cut

NO_THREAD = "can't start new thread"
"""What Python says when the system has no thread for it."""

SAID = 500
"""Characters of an error's own words that are passed on."""


class Exhausted(Exception):
    """This process has no memory, or no thread, to go on with: it is no order's fault, and none may end by it."""


def mishap(error: BaseException) -> str:
    """What went wrong; raises `error` again when it is about the run itself: its cancellation or its journal.

    Raises `Exhausted` when it is about the process. `SystemExit` is a mishap like others: it speaks for one call, never
    for the process with all its orders.
    """
    if isinstance(error, asyncio.CancelledError):
        if _is_cancelled():
            raise error
        return "it was cancelled from within"
    if isinstance(error, JournalError | Exhausted) or not isinstance(error, Exception | SystemExit):
        raise error
    if is_exhausted(error):
        raise Exhausted(_said(error)) from error
    return _said(error)


def mishap_of_tool(error: BaseException) -> str:
    """The same for a tool's own code, which may have asked for more memory than there is."""
    return _said(error) if isinstance(error, MemoryError) else mishap(error)


def no_object(name: str, sent: str) -> str:
    """Why what a model sent as the arguments of a tool is not taken as such, for the model."""
    if (found := repeated_key(sent)) is not None:
        return f"The arguments of {name} are not taken: {found}. Send each key once."
    return f"The arguments of {name} must be one JSON object; what was sent is not: {cut(sent, 200) or 'nothing'}"


def is_exhausted(error: BaseException) -> bool:
    """Whether this says that the process is at its end."""
    no_thread = isinstance(error, RuntimeError) and NO_THREAD in str(error)
    return no_thread or isinstance(error, MemoryError | Exhausted)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:SAID]}"


def _is_cancelled() -> bool:
    """Whether somebody asked this task to stop, rather than some task that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0

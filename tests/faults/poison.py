"""Tools that harm the process which runs them, and the orders that call them: what stands in their prompt is done.

prompt = bad_prompt("frozen")       # a name in POISON, see `tests.faults.bad_calls`
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence

from drone import tool
from tests.faults.commands import HARMS
from tests.faults.script import Wanted

AGENT, COMMANDER = "poisonous", "commander"
HOLD, DEAF, GLANCE = "hold_interpreter", "never_stop", "glance"
ROUNDS = 12
"""Calls of a neighbour, one after the other."""

MARK = "a6f1d0e2b3c4"
"""In the environment of all that a long command starts."""

LONG = "long"


def _run(command: str, seconds: float) -> tuple[Wanted, ...]:
    return (Wanted("run_shell", {"command": command, "timeout_seconds": seconds}),)


POISON: Mapping[str, Sequence[Wanted]] = {
    **{name.replace(" ", "_"): _run(harm.command, harm.seconds) for name, harm in HARMS.items()},
    LONG: _run(f"export MARK={MARK}; (setsid sleep 600 &); sleep 600", 600.0),
    "frozen": (Wanted(HOLD, {}),),
    "deaf": tuple(Wanted(DEAF, {"mark": str(number)}) for number in range(8)),
    "ignored": tuple(Wanted("list_files", {"depth": depth}) for depth in range(1, 7)),
    "neighbour": tuple(Wanted(GLANCE, {"mark": str(number)}) for number in range(ROUNDS)),
}


def poison_tools() -> Sequence[Callable[..., object]]:
    """`glance` is none: it is what the others must not hold up, a call that takes no time in a thread."""

    @tool(name=HOLD, idempotent=True, effects="none")
    def hold_interpreter() -> str:
        """Let nothing else run in this process, for ever."""
        return str(re.match("(a*)*b", "a" * 60))

    @tool(name=DEAF, idempotent=True, effects="none")
    def never_stop(mark: str) -> str:
        """Never end, whatever anybody says.

        Args:
            mark: Which call this is.
        """
        threading.Event().wait()
        return mark

    @tool(name=GLANCE, idempotent=True, effects="none")
    def glance(mark: str) -> str:
        """Answer at once.

        Args:
            mark: Which call this is.
        """
        return mark

    return (hold_interpreter, never_stop, glance)

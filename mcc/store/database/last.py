"""What a transaction does last, after all that it locks: work handed over while it runs, done before it commits."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection

LastWork: TypeAlias = Callable[[Connection, Sequence[Any]], None]

_HANDED_OVER = "mcc.last"


def at_last(connection: Connection, work: LastWork, item: Any) -> None:
    """Let the transaction call `work` before it commits, once, with all items that were handed over for it."""
    connection.info.setdefault(_HANDED_OVER, {}).setdefault(work, []).append(item)


def take_last(connection: Connection, work: LastWork) -> Sequence[Any]:
    """The items that were handed over for it so far: whoever takes them does it, or it is not done."""
    items: Sequence[Any] = connection.info.get(_HANDED_OVER, {}).pop(work, ())
    return items


def forget_last(connection: Connection) -> None:
    """Forget what an attempt handed over that was undone."""
    connection.info.pop(_HANDED_OVER, None)


def do_last(connection: Connection) -> None:
    for work, items in connection.info.pop(_HANDED_OVER, {}).items():
        work(connection, items)

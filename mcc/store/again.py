"""This room is for orders that are made of other ones: what a retry and a fork ask for, and what they begin with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import JOURNAL_VERSION, READABLE_VERSIONS, Entry, Forked
from mcc.contracts.order import NewFork, NewOrder, OrderOrigin, WhenBusy, WorkOrder
from mcc.contracts.shape import JsonObject
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.entries import title_of
from mcc.store.errors import CannotFork, OrderIsUnfinished
from mcc.store.forking import Beginning, begun_with, cut, forked, note_of

FirstEntries = Callable[[int], Sequence[Entry]]
"""Answers so many of a journal's first entries."""

SAID_AT_ONCE = 2
"""Entries that may follow what a fork took over before any drone claims it, and one more."""

ROLLED_BACK = "order.rolled_back"
"""Kind of the audit note about a turn that was left out of its session's context."""

LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Made:
    """A new order out of another one.

    `asked` is the request, which its idempotency key stands for; `title` is that of the session that it opens.
    """

    new: NewOrder
    origin: OrderOrigin
    asked: JsonObject
    beginning: Beginning | None = None
    title: str | None = None

    @property
    def retry_of(self) -> str | None:
        return self.origin.order_id if self.origin.kind == "retry" else None

    @property
    def forked(self) -> Forked | None:
        return self.beginning.forked if self.beginning else None


def asked_again(source: WorkOrder, at: datetime) -> NewOrder:
    """The same input. It may begin at once, and expires as long after now as the source did after it was placed."""
    new = NewOrder.model_construct(**{name: getattr(source, name) for name in NewOrder.model_fields})
    expires_at = None
    if source.expires_at is not None:
        expires_at = at + min(max(source.expires_at - source.created_at, timedelta(seconds=1)), LAST - at)
    return new.model_copy(update={"not_before": None, "expires_at": expires_at, "when_busy": WhenBusy.ENQUEUE})


def retry_of(source: WorkOrder, journal_version: int, first: FirstEntries, at: datetime) -> Made:
    """The next turn of the same session. A fork is retried from where it began.

    Raises `OrderIsUnfinished`, and `CannotFork` for a fork whose journal cannot be read.
    """
    if source.status not in FINAL:
        raise OrderIsUnfinished(
            f"order {source.id} is {source.status.value}: a retry is for an order that has ended; "
            "cancel it first, or fork it"
        )
    new = asked_again(source, at).model_copy(update={"session_id": source.session_id})
    origin = OrderOrigin(kind="retry", order_id=source.id)
    made = Made(new, origin, {"retry": source.id})
    if source.origin is None:
        return made
    _check_version(source, journal_version)
    begun = first(1)[0].data
    until = getattr(getattr(begun, "forked", None), "until", None)
    entries = first(until + SAID_AT_ONCE + 1) if until is not None else ()
    place = begun_with(entries) if entries else None
    if place is None:
        return made
    return Made(new, origin, {"retry": source.id}, forked(entries, place, fresh_id(), at))


def fork_of(source: WorkOrder, journal_version: int, first: FirstEntries, asked: NewFork, at: datetime) -> Made:
    """A new session that begins with what the source had done by entry `asked.after`. Raises `CannotFork`."""
    _check_version(source, journal_version)
    if asked.after > source.last_seq:
        so_far = "" if source.status in FINAL else " so far"
        raise CannotFork(
            f"order {source.id} has entries 1 to {source.last_seq}{so_far}: there is no entry {asked.after} to fork "
            "after; choose one of those"
        )
    entries = first(asked.after + 1)
    place = cut(entries, asked.after)
    beginning = forked(entries, place, fresh_id(), at, asked.prompt)
    began = beginning.began
    new = asked_again(source, at).model_copy(update={"session_id": None})
    if not began and asked.prompt is not None:
        new = new.model_copy(update={"prompt": asked.prompt})
    note = note_of(place, source.id, began=began, workspace=source.workspace is not None)
    return Made(
        new=new,
        origin=OrderOrigin(kind="fork", order_id=source.id, after=place.after, note=note),
        asked={"fork": source.id, "after": asked.after, "prompt": asked.prompt},
        beginning=beginning,
        title=f"Fork: {title_of(asked.prompt or source.prompt)}",
    )


def unfinished_sentence(order_id: str, status: OrderStatus) -> str:
    """Why a turn cannot be rolled back yet."""
    return f"order {order_id} is {status.value}: only a turn that has ended can be rolled back; cancel it first"


def _check_version(source: WorkOrder, journal_version: int) -> None:
    if journal_version not in READABLE_VERSIONS:
        raise CannotFork(
            f"the journal of order {source.id} has version {journal_version}, and this service reads up to "
            f"{JOURNAL_VERSION}: use the version of the service that wrote it"
        )

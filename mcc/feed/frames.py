"""This room is for server-sent events as bytes: entries with their number, everything else without."""

from collections.abc import Sequence
from dataclasses import dataclass

from mcc.contracts.journal import Entry, OrderClaimed, OrderFinished
from mcc.contracts.shape import to_json

PING = b"event: ping\ndata: {}\n\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """One entry ready to send. `final`: nothing follows it. `epoch`: of the claim that it tells of, if it does."""

    seq: int
    data: bytes
    final: bool = False
    epoch: int | None = None


def entry_frame(entry: Entry) -> Frame:
    fact = entry.data
    return Frame(
        seq=entry.seq,
        data=b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.seq, entry.kind.encode(), to_json(entry)),
        final=isinstance(fact, OrderFinished),
        epoch=fact.epoch if isinstance(fact, OrderClaimed) else None,
    )


def entry_frames(entries: Sequence[Entry]) -> list[Frame]:
    return [entry_frame(entry) for entry in entries]


def plain_frame(event: str, value: object) -> bytes:
    """An event that is not an entry: without an id, so that a viewer's place in the journal stays what it is."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), to_json(value))


def retry_frame(milliseconds: int) -> bytes:
    """How long a viewer waits before it connects again."""
    return b"retry: %d\n\n" % milliseconds

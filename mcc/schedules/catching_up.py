"""What a schedule does next: which of the instants that are due is run, and which are told as missed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from mcc.contracts.schedules import LATE_SECONDS, MOST_CAUGHT_UP, CatchUp, Missed
from mcc.schedules.timing import Timing

LOOKED_AT = 5_000
"""Instants that are told as missed in one step, which is one transaction."""


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """`missed`: instants that are passed over. `instant`: the one that is run then; None: none in this step. `last`: up
    to here the schedule has been dealt with afterwards."""

    missed: Missed | None
    instant: datetime | None
    last: datetime


def next_step(
    timing: Timing, schedule_id: str, catch_up: CatchUp, last: datetime, now: datetime
) -> ScheduleStep | None:
    """None: nothing is due. Several instants that are due take several steps: call it again with the new `last`.

    Those that are late are run as `catch_up` says; of `one`, the newest that is due is run, late or not.
    """

    def is_due(instant: datetime) -> bool:
        return timing.due(schedule_id, instant) <= now

    pending = list(islice(takewhile(is_due, timing.after(last)), LOOKED_AT + MOST_CAUGHT_UP))
    if not pending:
        return None
    if len(pending) == LOOKED_AT + MOST_CAUGHT_UP:
        # However many there are after these, at most `MOST_CAUGHT_UP` are kept, and those are the newest.
        return ScheduleStep(_missed(pending[:LOOKED_AT]), None, pending[LOOKED_AT - 1])
    late = timedelta(seconds=LATE_SECONDS)
    on_time = [instant for instant in pending if now - timing.due(schedule_id, instant) <= late]
    before = pending[: len(pending) - len(on_time)]
    match catch_up.policy:
        case "skip":
            kept = on_time
        case "one":
            kept = on_time or before[-1:]
        case "all":
            kept = before[-catch_up.most :] + on_time
    passed_over = pending[: len(pending) - len(kept)]
    instant = kept[0] if kept else None
    return ScheduleStep(_missed(passed_over), instant, instant or pending[-1])


def _missed(instants: Sequence[datetime]) -> Missed | None:
    return Missed(count=len(instants), since=instants[0], until=instants[-1]) if instants else None

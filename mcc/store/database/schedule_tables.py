"""Tables of schedules and of what happened at their instants."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import HALF_FILLED, Row, partial_index


class ScheduleRow(Row, table=True):
    """A schedule. `spec_json`: as it was saved, but for `name` and `paused`. `token_id`: the token that saved it last.

    `last_instant`: the last one that was dealt with, at first the beginning; `next_instant`, `due_at`: the one after it
    and when its run begins, none while it is paused and after its end. `zone_data`: the version of the zones' tables by
    which these were found. `session_id`: of orders that are all turns of one session, once there is one.
    """

    __tablename__ = "schedules"
    __table_args__ = (
        sa.Index("schedules_by_name", "name", unique=True),
        partial_index("due_schedules", "due_at", where="due_at IS NOT NULL"),
        HALF_FILLED,
    )

    id: str = Field(primary_key=True)
    name: str
    spec_json: str
    principal: str
    token_id: str | None = None
    version: int
    paused: bool
    created_at: int = Field(sa_type=sa.BigInteger)
    last_instant: int = Field(sa_type=sa.BigInteger)
    next_instant: int | None = Field(default=None, sa_type=sa.BigInteger)
    due_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    zone_data: str
    session_id: str | None = None


class ScheduleRunRow(Row, table=True):
    """What happened at an instant. `is_open`: its order may be unfinished. `count`, `since`: of one that was missed, of
    how many instants it is the last, and the first of them."""

    __tablename__ = "schedule_runs"
    __table_args__ = (
        partial_index("open_schedule_runs", "schedule_id", "instant", where="is_open"),
        partial_index("held_schedule_runs", "schedule_id", "instant", where="outcome = 'held'"),
        partial_index("missed_schedule_runs", "instant", where="outcome = 'missed'"),
    )

    schedule_id: str = Field(primary_key=True, foreign_key="schedules.id")
    instant: int = Field(primary_key=True, sa_type=sa.BigInteger)
    outcome: str
    order_id: str | None = None
    why_json: str | None = None
    count: int | None = None
    since: int | None = Field(default=None, sa_type=sa.BigInteger)
    is_open: bool = False


SCHEDULES, SCHEDULE_RUNS = (Row.metadata.tables[name] for name in ("schedules", "schedule_runs"))

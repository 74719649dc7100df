"""This room is for the assembly: all parts of the SQL store around one database."""

from dataclasses import dataclass

from mcc.store.bound import QueueBound
from mcc.store.clock import Clock
from mcc.store.sql.audit import SqlAudit
from mcc.store.sql.claims import SqlClaims
from mcc.store.sql.controls import SqlControls
from mcc.store.sql.engine import PATIENCE_SECONDS, Database
from mcc.store.sql.examine import SqlExaminer, SqlMender
from mcc.store.sql.journal import SqlJournal
from mcc.store.sql.leases import SqlLeases
from mcc.store.sql.orders import SqlOrders
from mcc.store.sql.schema import problem_of, upgrade_with
from mcc.store.sql.sessions import SqlSessions
from mcc.store.sql.sweep import SqlSweeper
from mcc.store.sql.texts import SqlTexts

BEAT_SECONDS = 4.0
"""A heartbeat that is not answered by then is tried on another connection."""


@dataclass(frozen=True)
class SqlStore:
    """`mcc.store.ports.Store` on SQLite or PostgreSQL. `beats` has connections of its own, for leases alone."""

    database: Database
    beats: Database
    orders: SqlOrders
    claims: SqlClaims
    journal: SqlJournal
    texts: SqlTexts
    leases: SqlLeases
    sweeper: SqlSweeper
    controls: SqlControls
    sessions: SqlSessions
    audit: SqlAudit
    examiner: SqlExaminer
    mender: SqlMender

    def schema_problem(self) -> str | None:
        return problem_of(self.database)

    def close(self) -> None:
        self.database.close()
        self.beats.close()


def open_store(
    database_url: str,
    *,
    clock: Clock | None = None,
    connections: int = 8,
    patience_seconds: float = PATIENCE_SECONDS,
    max_queued: int | None = None,
) -> SqlStore:
    """A store on `sqlite:///PATH` or `postgresql://…`; ValueError for another address. Nothing is created or changed,
    except that `sqlite://` (in memory, empty every time) gets its schema here. A lock is waited for `patience_seconds`,
    then `StoreUnavailable` is raised. `max_queued`: so many orders may be queued. Close it after use.
    """
    database = Database(database_url, clock=clock, connections=connections, patience_seconds=patience_seconds)
    in_memory = database.dialect == "sqlite" and database.url.database in (None, "", ":memory:")
    beats = database
    if not in_memory:
        beats = Database(
            database_url, clock=clock, connections=2, patience_seconds=patience_seconds, silence_seconds=BEAT_SECONDS
        )
    if in_memory:
        database.write(upgrade_with)
    return SqlStore(
        database=database,
        beats=beats,
        orders=SqlOrders(database, QueueBound(max_queued, database.clock)),
        claims=SqlClaims(database),
        journal=SqlJournal(database),
        texts=SqlTexts(database),
        leases=SqlLeases(beats),
        sweeper=SqlSweeper(database, beats),
        controls=SqlControls(database),
        sessions=SqlSessions(database),
        audit=SqlAudit(database),
        examiner=SqlExaminer(database),
        mender=SqlMender(database),
    )

"""Databases of many orders: a few made by the store itself, and copies of their rows made by bulk SQL.

As in a real backlog, finished orders are the oldest, waiting orders come next, and queued orders are the newest. Copies
have their own ids, times, sessions, labels, records and texts, with the content of their originals.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.blocks import blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import ORDER, Draft
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.ids import call_id, fresh_id
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder, OrderOutcome
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.permission import Why
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage
from mcc.store.database.columns import Row
from mcc.store.database.connections import unwatched
from mcc.store.rows.values import Ending, Parking
from mcc.store.store import Store, open_store
from mcc.testing.hand_drone import HandDrone, HeldOrder

DAYS = 29
"""The age of the oldest order; nothing is due for removal yet."""

RUNNING = 20
SHARES = {"finished": 0.62, "waiting": 0.03, "queued": 0.35}
PATTERNS: dict[str, Sequence[Sequence[str]]] = {
    # Each inner list is a session, and names its turns in order.
    "finished": [*[["short"]] * 11, ["short"] * 5, ["long"], ["failed"], ["failed"], ["cancelled"]],
    "waiting": [["approval"], ["later"], ["approval"]],
    "queued": [*[["queued"]] * 20],
}
BEHIND = "behind"
TEXT = "What the tool has read is this line, and it is as long as lines are. " * 6


@dataclass
class Originals:
    """The orders that are copied: their ids by name."""

    store: Store
    ids: dict[str, str] = field(default_factory=dict)

    def make(self) -> "Originals":
        drone = HandDrone(self.store, name="drone-of-the-past")
        for name, rounds in (("short", 3), ("long", 9)):
            held = self._claimed(drone, name)
            held.write(*(fact for number in range(1, rounds + 1) for fact in _round(held, number)))
            held.finish("The answer is in the second line.")
        self._fail(self._claimed(drone, "failed"))
        cancelled = self._placed("cancelled", "nightly")
        self.store.controls.request(cancelled, ControlKind.CANCEL, NewControl(), by=Actor("operator"))
        asking = self._claimed(drone, "approval")
        asking.write(*_round(asking, 1), _approval_request())
        self._park(asking)
        self._placed("later", not_before=now() + timedelta(days=30))
        self._placed("queued", "nightly")
        self._placed(BEHIND)
        return self

    def _placed(self, name: str, *labels: str, **more: object) -> str:
        new = NewOrder.model_validate({"prompt": f"Do what has to be done: {name}.", "labels": labels, **more})
        self.ids[name] = self.store.orders.place(new, by=Actor("operator")).order.id
        return self.ids[name]

    def _claimed(self, drone: HandDrone, name: str) -> HeldOrder:
        held = drone.claim(self._placed(name, "nightly"))
        held.start(setup="{}")
        return held

    def _fail(self, held: HeldOrder) -> None:
        why: dict[str, Any] = {"status": OrderStatus.FAILED, "reason": FailureReason.MODEL_ERROR}
        fold = Fold.of(held.id, self.store.journal.read(held.id))
        drafts = fold.closing(now(), RecordStatus.FAILED, "the model is away")
        last = Draft(at=now(), origin=ORDER, data=OrderFinished(usage=fold.spent, **why))
        for seq, draft in enumerate(drafts, start=held.seq + 1):
            fold.add(draft.numbered(held.id, seq))
        outcome, record = OrderOutcome(usage=fold.spent, **why), fold.record()
        ending = Ending(held.id, held.claim.epoch, held.seq, 0, [*drafts, last], outcome, record)
        self.store.claims.finish(ending)

    def _park(self, held: HeldOrder) -> None:
        self.store.claims.park(
            Parking(held.id, held.claim.epoch, held.seq, 0, WaitingReason.APPROVAL, "a call waits for an approval")
        )


def _round(held: HeldOrder, number: int) -> Sequence[Fact]:
    call = call_id(str(held.master.record_id), number, 0)
    round_fields = {"round": number, "attempt": 1, "model": "offline"}
    usage = Usage(input_tokens=900, output_tokens=120, model_calls=1, cost_usd=0.001)
    return (
        ModelStarted(**round_fields),
        ModelReplied(blocks=blocks_of(text=TEXT[:300]), finish_reason="tool_calls", usage=usage, **round_fields),
        ToolStarted(call_id=call, round=number, index=0, name="read_file", arguments={"path": "a"}, idempotent=True),
        ToolFinished(call_id=call, name="read_file", content=TEXT, is_error=False),
    )


def _approval_request() -> ApprovalRequested:
    return ApprovalRequested(
        approval_id=fresh_id(),
        call_id="call-1",
        tool="git_commit",
        arguments={"message": "Mend it"},
        effects="write",
        digest="sha256:0",
        why=Why(layer="operator", key="git_commit"),
    )


class Dialect:
    """SQL that differs between the two databases."""

    def __init__(self, name: str) -> None:
        self.is_sqlite = name == "sqlite"

    def hexadecimal(self, number: str, digits: int) -> str:
        shown = f"lower(printf('%0{digits}x', {number}))"
        return shown if self.is_sqlite else f"lpad(to_hex(({number})::bigint), {digits}, '0')"

    def numbers(self, count: int) -> str:
        if self.is_sqlite:
            more = f"SELECT k + 1 FROM n WHERE k < {count - 1}"
            return f"(WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL {more}) SELECT k FROM n)"
        return f"(SELECT generate_series(0, {count - 1})::bigint AS k) AS series"

    def order_id(self, number: str, milliseconds: str) -> str:
        """SQL for a UUIDv7 of that time, with a tail that looks random."""
        high, low = self.hexadecimal(f"({milliseconds}) / 65536", 8), self.hexadecimal(f"({milliseconds}) % 65536", 4)
        tail = self.hexadecimal(f"(({number}) * 2654435761 + 12345) % 281474976710656", 12)
        return f"{high} || '-' || {low} || '-7000-8000-' || {tail}"


def seed(database_url: str, orders: int) -> None:
    """Fill an empty database, which has the current schema, with about `orders` orders."""
    store = open_store(database_url)
    try:
        made = Originals(store).make()
        with bulk_transaction(store) as connection:
            Copies(connection, made.ids, orders).copy()
        drone = HandDrone(store, name="drone-of-now")
        for waiting in store.claims.claimable(["default"], RUNNING):
            drone.claim(waiting.order_id).start()
    finally:
        store.close()


@contextmanager
def bulk_transaction(store: Store) -> Iterator[Connection]:
    """One transaction without a time limit and without foreign key checks."""
    with store.database.engine.connect() as plain:
        if store.database.dialect == "sqlite":
            connection = plain.execution_options(mcc_read=True)
            connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA foreign_keys=ON")
            return
        unwatched(plain)
        for setting in (
            "statement_timeout = 0",
            "synchronous_commit = off",
            "session_replication_role = replica",
            "maintenance_work_mem = '512MB'",
        ):
            plain.exec_driver_sql(f"SET LOCAL {setting}")
        yield plain
        plain.commit()
        cleaning = plain.execution_options(isolation_level="AUTOCOMMIT")
        cleaning.exec_driver_sql("SET statement_timeout = 0")
        # PostgreSQL would do this itself some time after so many writes.
        cleaning.exec_driver_sql("VACUUM ANALYZE")
        cleaning.exec_driver_sql("RESET statement_timeout")


class Copies:
    """Copies the originals. The temporary table `seeded` has one row per copy, with the id of its original."""

    def __init__(self, connection: Connection, originals: dict[str, str], orders: int) -> None:
        self._connection = connection
        self._originals = originals
        self._orders = orders
        self._dialect = Dialect(connection.dialect.name)

    def _run(self, statement: str) -> None:
        self._connection.exec_driver_sql(statement.replace("%", "%%") if not self._dialect.is_sqlite else statement)

    def copy(self) -> None:
        indexes = self._drop_indexes()
        self._run(
            "CREATE TABLE seeded (n bigint, k bigint, original text, id text, session_id text, seq integer,"
            " turns integer, last_id text, at bigint)"
        )
        self._plan()
        self._copy_all()
        self._run("DROP TABLE seeded")
        for index in indexes:
            self._run(index)

    def _plan(self) -> None:
        begun = int((now() - timedelta(days=DAYS)).timestamp() * 1_000)
        stride = max(DAYS * 86_400_000 // self._orders, 1)
        first = 0
        for kind, pattern in PATTERNS.items():
            width = sum(map(len, pattern))
            count = max(int(self._orders * SHARES[kind]) // width, 1)
            position = 0
            for session in pattern:
                for seq, name in enumerate(session, start=1):
                    self._add(
                        first + position, position - seq + 1, seq, len(session), name, count, width, begun, stride
                    )
                    position += 1
            first += count * width
        # Every hundredth queued order has two more behind it in its session.
        for seq in (2, 3):
            number = f"n + 100000000 * {seq}"
            order_id = self._dialect.order_id(number, f"at / 1000 + {seq}")
            self._run(
                f"INSERT INTO seeded SELECT {number}, k, '{self._originals[BEHIND]}', {order_id},"
                f" session_id, {seq}, 3, last_id, at + 1000 * {seq} FROM seeded"
                f" WHERE original = '{self._originals['queued']}' AND seq = 1 AND n % 100 = 0"
            )

    def _add(
        self, offset: int, back: int, seq: int, turns: int, name: str, count: int, width: int, begun: int, stride: int
    ) -> None:
        number = f"({offset} + k * {width})"
        opened, last = f"({number} - {seq - 1})", f"({number} + {turns - seq})"
        of_order = self._dialect.order_id(number, f"{begun} + {number} * {stride}")
        of_session = self._dialect.order_id(opened, f"{begun} + {opened} * {stride}").replace("-8000-", "-9000-")
        of_last = self._dialect.order_id(last, f"{begun} + {last} * {stride}")
        self._run(
            f"INSERT INTO seeded SELECT {number}, k, '{self._originals[name]}', {of_order}, {of_session},"
            f" {seq}, {turns}, {of_last}, ({begun} + {number} * {stride}) * 1000 FROM {self._dialect.numbers(count)}"
        )

    def _copy_all(self) -> None:
        number_of_drones = max(self._orders // 1_000, 1)
        drone = f"'incarnation-' || (s.n % {number_of_drones})"
        self._run(
            "INSERT INTO sessions (id, title_json, principal, created_at, turns, last_order_id) SELECT s.session_id,"
            " o.title_json, o.principal, s.at, s.turns, s.last_id FROM seeded s JOIN orders x ON x.id = s.original"
            " JOIN sessions o ON o.id = x.session_id WHERE s.seq = 1"
        )
        self._copy_rows("orders", "id", session_id="s.session_id", session_seq="s.seq", created_at="s.at")
        self._copy_rows(
            "order_state",
            "order_id",
            session_id="s.session_id",
            session_seq="s.seq",
            started_at="CASE WHEN o.started_at IS NULL THEN NULL ELSE s.at + 1000000 END",
            incarnation=f"CASE WHEN o.incarnation IS NULL THEN NULL ELSE {drone} END",
        )
        self._copy_rows(
            "journal", "order_id", at="s.at + o.seq * 1000000", record_id=_RECORD.format(column="o.record_id")
        )
        self._copy_rows("chat_records", "order_id", record_id=_RECORD.format(column="o.record_id"))
        self._copy_rows("order_labels", "order_id")
        self._run("INSERT INTO order_labels (label, order_id) SELECT 'batch-' || (s.n / 40), s.id FROM seeded s")
        self._run(
            "INSERT INTO order_labels (label, order_id)"
            " SELECT 'rare', s.id FROM seeded s WHERE s.n % 97 = 5 AND s.n < 9000"
        )
        self._run(
            "INSERT INTO order_words (number, order_id, words)"
            " SELECT s.n, s.id, ' wdo wwhat whas wto wbe wdone w' || s.n || ' ' FROM seeded s ORDER BY s.n"
        )
        self._copy_rows("text_uses", "owner")
        self._copy_rows("controls", "order_id", id="'c' || s.id")
        self._copy_rows(
            "approvals", "order_id", id="'a' || s.id", requested_at="s.at + 3000000", call_id="'call-' || s.n"
        )
        self._run(
            "INSERT INTO drones (incarnation, name, registration_json, state, active, draining, started_at,"
            " heartbeat_at, lease_until, boot) SELECT 'incarnation-' || series.k, o.name,"
            f" replace(o.registration_json, o.incarnation, 'incarnation-' || series.k), 'left', 0, false, o.started_at,"
            f" o.heartbeat_at - 172800000000, 0, '' FROM drones o, {self._named_numbers(number_of_drones)}"
            " WHERE o.name = 'drone-of-the-past'"
        )
        self._run(
            "INSERT INTO audit (id, at, principal, kind, order_id, detail_json)"
            " SELECT 'n' || s.id, s.at, 'operator', 'decision', s.id, '{}' FROM seeded s WHERE s.n % 10 = 1"
        )
        self._run(
            "INSERT INTO idempotency_keys (principal, key_digest, body_digest, order_id, created_at)"
            f" SELECT 'operator', s.id, 'digest', s.id, {int(now().timestamp()) * 1_000_000} - s.n"
            " FROM seeded s WHERE s.n % 10 = 2"
        )
        self._run(
            "INSERT INTO blobs (digest, text_json, created_at)"
            " SELECT 'b' || s.id, '\"" + TEXT + "\"', s.at FROM seeded s WHERE s.n % 10 = 3"
        )
        self._run("INSERT INTO text_uses (digest, owner) SELECT 'b' || s.id, s.id FROM seeded s WHERE s.n % 10 = 3")

    def _named_numbers(self, count: int) -> str:
        numbers = self._dialect.numbers(count)
        return f"{numbers} AS series" if self._dialect.is_sqlite else numbers

    def _copy_rows(self, table: str, owner: str, **changed: str) -> None:
        """Copy the rows of `table` whose column `owner` holds the id of an original."""
        columns = [column.name for column in Row.metadata.tables[table].columns]
        expressions = {owner: "s.id", **changed}
        if "finished_at" in columns:
            expressions["finished_at"] = "CASE WHEN o.finished_at IS NULL THEN NULL ELSE s.at + 40000000 END"
        chosen = ", ".join(expressions.get(name, f"o.{name}") for name in columns)
        self._run(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM seeded s"
            f" JOIN {table} o ON o.{owner} = s.original"
        )

    def _drop_indexes(self) -> Sequence[str]:
        """Drop the indexes that no constraint needs; answers the statements that create them again."""
        if self._dialect.is_sqlite:
            return []
        rows = self._connection.execute(
            sa.text(
                "SELECT i.indexname, i.indexdef FROM pg_indexes i WHERE i.schemaname = current_schema() AND NOT EXISTS"
                " (SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname) AND tablename <> 'alembic_version'"
            )
        ).all()
        for row in rows:
            self._run(f'DROP INDEX "{row.indexname}"')
        return [row.indexdef for row in rows]


_RECORD = "CASE WHEN {column} IS NULL THEN NULL ELSE substr(s.id, 1, 14) || '5' || substr(s.id, 16) END"

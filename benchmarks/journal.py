"""Journal entries per second with 100 concurrent orders, beside one commit per row by the bare driver."""

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from benchmarks.stored import Silent, Trusted
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.worker.broadcaster import Broadcaster
from drone.worker.journal import Writer
from mcc.contracts.blocks import blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.ids import call_id, fresh_id
from mcc.contracts.journal import AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.record import ModelChoice
from mcc.contracts.shape import now
from mcc.contracts.usage import Usage
from mcc.store.database.migrate import upgrade
from mcc.store.rows.values import Batch, Claim
from mcc.store.store import Store, open_store

SERVER = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
ORDERS = 100
ROUNDS = 50
"""Rounds per order, of four entries each: model call started and replied, tool call started and finished."""

RAW_ROWS = 1_000
TARGETS = {"SQLite": 9_000, "PostgreSQL": 7_500}
"""Entries per second that a drone's writer should reach."""


@dataclass(frozen=True, slots=True)
class Speed:
    entries: int
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.entries / self.wall

    def row(self, what: str) -> tuple[str, str, str]:
        return what, f"{self.rate:,.0f}", f"{self.cpu / self.entries * 1e6:.0f}"


def timed(work: Callable[[], int]) -> Speed:
    wall, cpu = time.perf_counter(), time.process_time()
    entries = work()
    return Speed(entries, time.perf_counter() - wall, time.process_time() - cpu)


def agent_started() -> AgentStarted:
    return AgentStarted(
        title="bench",
        prompt="p" * 400,
        model=ModelChoice(requested="fast", effective="openai/fast"),
        tools=("read_file",),
        limits=LimitChoice(),
        definition_digest="d" * 64,
        setup_digest="s" * 64,
    )


def round_of(record: str, number: int) -> list[Fact]:
    call = call_id(record, number, 0)
    usage = Usage(input_tokens=900, output_tokens=120, model_calls=1, cost_usd=0.001)
    return [
        ModelStarted(round=number, attempt=1, model="openai/fast"),
        ModelReplied(
            blocks=blocks_of(text="t" * 500),
            round=number,
            attempt=1,
            model="openai/fast",
            finish_reason="tool_calls",
            usage=usage,
        ),
        ToolStarted(call_id=call, round=number, index=0, name="read_file", arguments={"path": "a.py"}, idempotent=True),
        ToolFinished(call_id=call, name="read_file", content="c" * 1_000, is_error=False),
    ]


def new_claims(store: Store) -> list[Claim]:
    """Place and claim `ORDERS` orders."""
    incarnation = fresh_id()
    drone = Registration(
        incarnation=incarnation, name="bench", pid=1, host="here", version="1", queues=("default",), slots=ORDERS
    )
    store.leases.register(drone, lease_seconds=3_600)
    claims = []
    for _ in range(ORDERS):
        order = store.orders.place(NewOrder(prompt="bench"), by=Actor("bench")).order
        claim = store.claims.claim(order.id, incarnation=incarnation, claim_token=order.id, drone="bench")
        assert claim is not None
        claims.append(claim)
    return claims


def by_the_store(store: Store, claims: list[Claim]) -> int:
    """Append groups that hold one entry of every order; answers the number of entries."""
    at, seqs = now(), {claim.order.id: claim for claim in claims}
    records = {order_id: Origin(record_id=fresh_id(), agent="master") for order_id in seqs}
    facts = {order_id: _all_facts(str(origin.record_id)) for order_id, origin in records.items()}
    count = ROUNDS * 4 + 1
    for index in range(count):
        batches = []
        for order_id, claim in seqs.items():
            draft = Draft(at=at, origin=records[order_id], data=facts[order_id][index])
            entry = draft.numbered(order_id, claim.last_seq + index + 1)
            batches.append(Batch(order_id, claim.epoch, claim.last_seq + index, [entry]))
        answer = store.journal.append(batches)
        assert not answer.fenced and not answer.culprits, answer
    return count * ORDERS


def _all_facts(record: str) -> list[Fact]:
    return [agent_started(), *(fact for number in range(1, ROUNDS + 1) for fact in round_of(record, number))]


def by_a_drone(store: Store, claims: list[Claim]) -> int:
    """Every order waits for the commit of each entry, as a turn does, and the drone's writer groups the entries."""
    return asyncio.run(_by_a_drone(store, claims))


async def _by_a_drone(store: Store, claims: list[Claim]) -> int:
    writer = Writer(store, Trusted(), Broadcaster(Silent()))
    committing = asyncio.create_task(writer.run())

    async def turn(claim: Claim) -> int:
        fold = Fold(claim.order.id)
        fold.last_seq, fold.attempt = claim.last_seq, claim.attempt
        journal = writer.open(claim.order.id, claim.epoch, fold)
        origin = Origin(record_id=fresh_id(), agent="master")
        facts = _all_facts(str(origin.record_id))
        for fact in facts:
            await journal.write(origin, fact)
        return len(facts)

    try:
        return sum(await asyncio.gather(*(turn(claim) for claim in claims)))
    finally:
        committing.cancel()
        writer.close()


def row_by_row_sqlite(path: Path) -> int:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE raw (order_id TEXT, seq INTEGER, data TEXT, PRIMARY KEY (order_id, seq))")
    for seq in range(RAW_ROWS):
        connection.execute("INSERT INTO raw VALUES (?, ?, ?)", ("order", seq, "d" * 700))
    connection.close()
    return RAW_ROWS


def row_by_row_postgres(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE raw (order_id TEXT, seq INTEGER, data TEXT, PRIMARY KEY (order_id, seq))")
        for seq in range(RAW_ROWS):
            connection.execute("INSERT INTO raw VALUES (%s, %s, %s)", ("order", seq, "d" * 700))
    return RAW_ROWS


@contextmanager
def sqlite_url() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/bench.db"


@contextmanager
def postgres_url() -> Iterator[str]:
    name = sql.Identifier(database := f"mcc_bench_{uuid4().hex}")
    with psycopg.connect(SERVER, autocommit=True, connect_timeout=3) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield f"{SERVER.rpartition('/')[0]}/{database}"
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def measured(database: str, url: str, raw: Callable[[], int]) -> list[Promise]:
    upgrade(url)
    store = open_store(url)
    try:
        rows = [
            timed(raw).row("bare driver, one commit per row"),
            timed(partial(by_the_store, store, new_claims(store))).row(f"store, groups of {ORDERS}"),
        ]
        writer = timed(partial(by_a_drone, store, new_claims(store)))
    finally:
        store.close()
    rows.append(writer.row(what := f"a drone's writer, {ORDERS} concurrent orders"))
    table(f"Journal on {database}", ("written by", "entries/s", "CPU µs/entry"), rows)
    note = f"one commit per row: {rows[0][1]}"
    return [Promise(f"{what}, {database}", writer.rate, TARGETS[database], "entries/s", at_least=True, note=note)]


def main() -> list[Promise]:
    with ExitStack() as stack:
        url = stack.enter_context(sqlite_url())
        found = measured("SQLite", url, lambda: row_by_row_sqlite(Path(url[len("sqlite:///") :] + ".raw")))
    with ExitStack() as stack:
        try:
            server = stack.enter_context(postgres_url())
        except psycopg.OperationalError as error:
            print(f"\nJournal on PostgreSQL: not measured, {str(error).splitlines()[0]}")
            return found
        return found + measured("PostgreSQL", server, lambda: row_by_row_postgres(server))


if __name__ == "__main__":
    main()

"""Backups: a database at one moment in a file, restored into either kind of database."""

import gzip
import json
import random
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.fold import Fold
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.contracts.token_text import new_webhook_secret
from mcc.contracts.webhooks import NewWebhook, WebhookChange
from mcc.store.database.engine import Database
from mcc.store.database.migrate import schema_problem, upgrade
from mcc.store.doors.webhooks import NO_SECRET
from mcc.store.store import Store, open_store
from mcc.store.upkeep.backup import TABLES, BadBackup, OccupiedDatabase, restore, write_backup
from mcc.testing import FakeClock, temporary_store
from tests.conformance.store.course import begun, changed, minutes
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started

LONG = "x" * 50_000


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Database]:
    """An empty database without a schema."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path}/target.db", clock=clock)
        yield database
        database.close()
        return
    url: str = request.getfixturevalue("empty_postgres")
    database = Database(url, clock=clock)
    yield database
    database.close()
    with psycopg.connect(url) as link:
        link.execute("DROP SCHEMA public CASCADE")
        link.execute("CREATE SCHEMA public")


@pytest.fixture
def source(clock: FakeClock) -> Iterator[Scene]:
    """A store for tests that do not depend on its database."""
    store = temporary_store(clock)
    yield Scene(store, clock, "sqlite")
    store.close()


def backup(scene: Scene) -> bytes:
    file = BytesIO()
    write_backup(scene.store.database, file, "0.1.0")
    return file.getvalue()


def worked_on(scene: Scene, prompt: str = "do it") -> Held:
    held = scene.running(prompt)
    master = held.origin.record_id or ""
    held.write(started(), replied("text é 😀 \x00 \ud83d"), called(master), returned(master, content=LONG))
    return held


def rows(database: Database) -> dict[str, list[tuple[object, ...]]]:
    found = {table.name: sa.select(table).order_by(*table.primary_key.columns) for table in TABLES}
    return {
        name: database.read(lambda connection, one=statement: [tuple(row) for row in connection.execute(one)])  # type: ignore[misc]
        for name, statement in found.items()
    }


def opened(target: Database, clock: FakeClock) -> Store:
    return open_store(target.url.render_as_string(hide_password=False), clock=clock)


def rewritten(file: bytes, change: Callable[[list[str]], list[str]]) -> bytes:
    return gzip.compress("".join(change(gzip.decompress(file).decode().splitlines(keepends=True))).encode())


def test_every_row_comes_back_in_either_kind_of_database(scene: Scene, target: Database) -> None:
    worked_on(scene).finish()
    worked_on(scene, "another one")
    scene.place("queued", labels=["a", "b"])
    scene.store.orders.retry(scene.store.orders.list().items[-1].id, by=Actor("t"), idempotency_key="k")
    document_id = begun(scene, lessons=2)
    changed(scene, document_id, minutes(40), {"command": "remove_child", "node": "/lesson-2"}, idempotency_key="k")
    assert all(rows(scene.store.database)[name] for name in ("blueprints", "document_keys", "document_heads"))
    contents = restore(target, BytesIO(backup(scene)))
    there, here = rows(target), rows(scene.store.database)
    states = [row[3] for row in there.pop("drones")]
    assert (there, set(states)) == ({name: some for name, some in here.items() if name != "drones"}, {"cut"})
    assert contents.rows == {name: len(some) for name, some in here.items()}


def test_secrets_of_webhooks_are_not_in_the_file_and_nothing_is_told_again(
    scene: Scene, target: Database, clock: FakeClock
) -> None:
    secret, by = new_webhook_secret(), Actor("operator")
    made = scene.store.webhooks.endpoints.make(NewWebhook(name="ci", url="https://ci.test"), secret, by=by)
    scene.running(webhook_url="https://ci.test").finish()
    file = backup(scene)
    assert secret not in gzip.decompress(file).decode()
    restore(target, BytesIO(file))
    webhooks = opened(target, clock).webhooks
    assert webhooks.fanning_out.advance() == 0
    found = webhooks.endpoints.get(made.id)
    assert (found.name, found.off_why, found.secret_at) == ("ci", NO_SECRET, None)
    assert webhooks.endpoints.change(made.id, WebhookChange(off=False), by=by).off_why == NO_SECRET
    assert webhooks.endpoints.rotate(made.id, new_webhook_secret(), 0, by=by).off_at is None


def test_unfinished_orders_continue_where_they_were(scene: Scene, target: Database, clock: FakeClock) -> None:
    held = worked_on(scene)
    restore(target, BytesIO(backup(scene)))
    there = Scene(opened(target, clock), clock, "restored")
    there.store.sweeper.sweep(may_expire=False)
    order = there.store.orders.get(held.order_id)
    assert order.status is OrderStatus.QUEUED
    again = there.hold(held.order_id, token="another")
    again.write(ended())
    again.finish()
    assert LONG in to_json(there.store.orders.record(held.order_id)).decode()
    there.store.close()


def test_a_backup_is_of_one_moment_while_orders_are_worked_on(scene: Scene, target: Database, clock: FakeClock) -> None:
    """Entries are committed, and orders placed and ended, between any two writes to the file."""
    texts = random.Random(7)
    held = [worked_on(scene, f"order {number}") for number in range(3)]
    for one in held:
        one.write(*(replied(texts.randbytes(10_000).hex()) for _ in range(3)))

    class Busy(BytesIO):
        def write(self, piece: object) -> int:
            if len(piece) > 1_000 and len(held) < 12:  # type: ignore[arg-type]
                held[-1].write(*(replied(texts.randbytes(10_000).hex()) for _ in range(3)))
                held[-1].finish()
                held.append(worked_on(scene, "placed meanwhile"))
            return super().write(piece)  # type: ignore[arg-type]

    file = Busy()
    write_backup(scene.store.database, file, "0.1.0")
    assert len(held) > 4
    restore(target, BytesIO(file.getvalue()))
    there = opened(target, clock)
    orders = there.orders.list().items
    assert len(orders) >= 3
    for order in orders:
        assert Fold.of(order.id, there.journal.read(order.id)).last_seq == order.last_seq
    there.close()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_a_damaged_file_changes_nothing(source: Scene, target: Database, share: float, harm: str) -> None:
    held = worked_on(source)
    good = backup(source)
    restore(target, BytesIO(good))
    before = rows(target)
    held.write(ended())
    whole = backup(source)
    place = int(len(whole) * share)
    flipped = whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
    with pytest.raises(BadBackup):
        restore(target, BytesIO(whole[:place] if harm == "cut" else flipped), force=True)
    assert rows(target) == before


@pytest.mark.parametrize("table", ['{"table": "orders"}\n', '{"table": "orders", "columns": 7}\n'])
def test_a_table_without_a_list_of_columns_is_a_sentence(source: Scene, target: Database, table: str) -> None:
    with pytest.raises(BadBackup, match="no list of columns"):
        restore(target, BytesIO(rewritten(backup(source), lambda lines: [lines[0], table])))


def test_a_row_that_is_left_out_is_found(source: Scene, target: Database) -> None:
    worked_on(source)
    less = rewritten(backup(source), lambda lines: [*lines[:-3], *lines[-2:]])
    with pytest.raises(BadBackup, match="damaged"):
        restore(target, BytesIO(less))
    assert schema_problem(target.url.render_as_string(hide_password=False)) is not None


@pytest.mark.parametrize("change", [{"schema": "9999"}, {"format": 2}, {"kind": "else"}, {"schema": None}], ids=str)
def test_a_backup_of_a_newer_version_is_refused(source: Scene, target: Database, change: dict[str, object]) -> None:
    def newer(lines: list[str]) -> list[str]:
        return [json.dumps({**json.loads(lines[0]), **change}) + "\n", *lines[1:]]

    with pytest.raises(BadBackup):
        restore(target, BytesIO(rewritten(backup(source), newer)))


def test_a_backup_from_before_the_first_release_is_refused_by_name(source: Scene, target: Database) -> None:
    def older(lines: list[str]) -> list[str]:
        return [json.dumps({**json.loads(lines[0]), "schema": "0017"}) + "\n", *lines[1:]]

    with pytest.raises(BadBackup, match=r"schema 0017\) before the first release"):
        restore(target, BytesIO(rewritten(backup(source), older)))


def test_a_database_with_something_in_it_needs_force_and_one_in_use_is_refused(
    scene: Scene, target: Database, clock: FakeClock
) -> None:
    scene.place()
    file = backup(scene)
    upgrade(target.url.render_as_string(hide_password=False))
    restore(target, BytesIO(file))
    with pytest.raises(OccupiedDatabase, match="orders or sessions") as refused:
        restore(target, BytesIO(file))
    assert not refused.value.used
    restore(target, BytesIO(file), force=True)
    there = Scene(opened(target, clock), clock, "restored")
    there.drone()
    for force in (False, True):
        with pytest.raises(OccupiedDatabase, match="works on this database"):
            restore(target, BytesIO(file), force=force)
    clock.advance(13)
    there.store.sweeper.beat("mcc-1")
    with pytest.raises(OccupiedDatabase, match="works on this database"):
        restore(target, BytesIO(file), force=True)
    clock.advance(13)
    restore(target, BytesIO(file), force=True)
    there.store.close()

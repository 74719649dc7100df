"""Packed journals of ended orders: read, forked, continued and pruned like journals in rows."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from mcc.api.records import Records
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import NewFork
from mcc.contracts.shape import to_json
from mcc.store.database.errors import ForkOfPruned, JournalPruned
from mcc.store.database.tables import JOURNAL, PACKS, RECORDS
from mcc.store.rows.packs import LARGEST_BYTES, PackedRow, packed, unpacked
from mcc.store.store import Offload
from mcc.store.upkeep.retention import Cleared
from mcc.store.work.endings import stored_record
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started

DAY = 86_400
LONG = "x" * 50_000
NASTY = "tab\t line\nnul\x00 half \ud83d é 😀 “”\u2028" * 20


def an_ended_order(scene: Scene, prompt: str = "do it", **fields: object) -> Held:
    held = scene.running(prompt, **fields)
    master = held.origin.record_id or ""
    held.write(started(), replied(NASTY), called(master), returned(master, content=LONG), ended())
    held.finish()
    return held


def pack(scene: Scene) -> list[str]:
    return list(scene.store.packing.pack(scene.clock.now()))


def count(scene: Scene, table: sa.Table) -> int:
    statement = sa.select(sa.func.count()).select_from(table)
    return int(scene.store.database.read(lambda connection: connection.scalar(statement)) or 0)


def clear(scene: Scene) -> Cleared:
    before = scene.clock.now() - timedelta(days=30)
    return sum(scene.store.retention.clear(before), Cleared())


async def test_reading_a_pack_gives_the_same_as_reading_its_rows(scene: Scene) -> None:
    held = an_ended_order(scene)
    whole = to_json(scene.store.journal.read(held.order_id))
    pages = [scene.store.journal.read(held.order_id, after=after, limit=3) for after in range(held.last_seq + 2)]
    record = scene.store.orders.record(held.order_id)
    sent = await Records(scene.store, Offload(2), Offload(2)).of(held.order_id)
    assert record == scene.fold(held.order_id).record() and count(scene, RECORDS) == 1
    assert pack(scene) == [held.order_id]
    assert (count(scene, JOURNAL), count(scene, RECORDS), count(scene, PACKS)) == (0, 0, 1)
    stored = scene.store.database.read(lambda connection: stored_record(connection, held.order_id))
    assert stored == record
    assert to_json(scene.store.journal.read(held.order_id)) == whole
    assert [scene.store.journal.read(held.order_id, after=after, limit=3) for after in range(len(pages))] == pages
    assert scene.store.orders.record(held.order_id) == record
    assert await Records(scene.store, Offload(2), Offload(2)).of(held.order_id) == sent
    assert pack(scene) == []


def test_orders_that_have_not_ended_or_only_just_keep_their_rows(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), replied())
    scene.place()
    before = scene.clock.now()
    scene.clock.advance(1)
    fresh = an_ended_order(scene)
    assert list(scene.store.packing.pack(before)) == []
    assert pack(scene) == [fresh.order_id]
    assert held.write(ended()).fenced == frozenset()
    held.finish()
    assert pack(scene) == [held.order_id]


def test_a_journal_that_is_too_long_or_has_gaps_keeps_its_rows_and_is_not_tried_again(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), *(replied("y" * 30_000, round_number=number) for number in range(LARGEST_BYTES // 30_000)))
    held.finish()
    gap = an_ended_order(scene)
    scene.store.database.write(
        lambda connection: connection.execute(
            sa.delete(JOURNAL).where(JOURNAL.c.order_id == gap.order_id, JOURNAL.c.seq == 3)
        )
    )
    rows = count(scene, JOURNAL)
    assert pack(scene) == [] == pack(scene)
    assert (count(scene, JOURNAL), count(scene, PACKS)) == (rows, 0)


def test_a_packed_order_is_forked_and_retried(scene: Scene) -> None:
    held = an_ended_order(scene)
    pack(scene)
    fork = scene.store.orders.fork(held.order_id, NewFork(after=6), by=Actor("t")).order
    assert LONG.encode() in to_json(scene.store.journal.read(fork.id))
    scene.hold(fork.id).finish()
    assert pack(scene) == [fork.id]
    again = scene.store.orders.retry(fork.id, by=Actor("t")).order
    assert LONG.encode() in to_json(scene.store.journal.read(again.id))


def test_packed_turns_are_in_the_context_of_later_ones(scene: Scene) -> None:
    held = scene.running("first")
    said = scene.store.controls.request(held.order_id, ControlKind.STEER, NewControl(message="hurry"), by=Actor("t"))
    held.write(started(), ControlApplied(control_id=said.id, control="steer", message="and hurry"), ended())
    held.control_seq = 1
    held.finish()
    fork = scene.store.orders.fork(held.order_id, NewFork(after=3, prompt="go another way"), by=Actor("t")).order
    scene.hold(fork.id).finish()
    turns = sorted([held.order_id, fork.id])
    before = {row.order_id: row for row in scene.store.transcripts.ends(turns)}
    assert len(pack(scene)) == 2
    assert {row.order_id: row for row in scene.store.transcripts.ends(turns)} == before
    assert before[held.order_id].steers == ["and hurry"] and before[fork.id].steers[-1] == "go another way"


def test_a_pack_is_pruned_as_rows_are(scene: Scene) -> None:
    held = an_ended_order(scene)
    fork = scene.store.orders.fork(held.order_id, NewFork(after=6), by=Actor("t")).order
    scene.hold(fork.id).finish()
    record = scene.store.orders.record(held.order_id)
    pack(scene)
    scene.clock.advance(31 * DAY)
    look = scene.store.retention.look(scene.clock.now() - timedelta(days=30))
    cleared = clear(scene)
    assert (look.orders, look.entries) == (cleared.orders, cleared.entries) and cleared.orders == 2
    for one in (held.order_id, fork.id):
        with pytest.raises(JournalPruned):
            scene.store.journal.read(one)
    with pytest.raises(ForkOfPruned):
        scene.store.orders.fork(held.order_id, NewFork(after=2), by=Actor("t"))
    assert scene.store.orders.record(held.order_id) == record is not None
    again = scene.store.orders.retry(fork.id, by=Actor("t")).order
    assert LONG.encode() in to_json(scene.store.journal.read(again.id))
    assert clear(scene).orders == 0
    assert pack(scene) == []


def test_a_pack_takes_a_fraction_of_its_rows() -> None:
    rows = [
        PackedRow("o", seq, 1, 10**15 + seq, "tool.finished", "r" * 36, None, "master", 0, "c" * 36, None, '{"a":"b"}')
        for seq in range(1, 101)
    ]
    made = packed(rows)
    assert unpacked("o", made) == rows
    assert unpacked("o", made, 98) == rows[98:]
    assert unpacked("o", made, 10, 5) == rows[10:15]
    assert unpacked("o", made, 100) == unpacked("o", made, 5_000) == unpacked("o", b"") == []
    assert len(made) < 1_000

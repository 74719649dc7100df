"""Journals in short: made by whoever comes first, read back as they were made, gone with the journal."""

import io
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mcc.contracts.entry_lines import line_of
from mcc.contracts.model_facts import ModelStarted
from mcc.store.database.errors import JournalPruned, UnknownOrder
from mcc.store.database.tables import JOURNAL_PARTS
from mcc.store.rows.part_rows import PART_ENTRIES, packed_part, unpacked_part
from mcc.store.upkeep.backup import TABLES, write_backup
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started

NASTY = "tab\t nul\x00 half \ud83d é 😀"


def a_long_order(scene: Scene, entries: int) -> Held:
    held = scene.running()
    master = held.origin.record_id or ""
    held.write(started(NASTY))
    number = 0
    while held.last_seq < entries:
        facts = []
        for _ in range(min(100, (entries - held.last_seq + 3) // 4)):
            number += 1
            asked = ModelStarted(round=number, attempt=1, model=NASTY)
            facts += [asked, replied(round_number=number), called(master, number), returned(master, number)]
        held.write(*facts)
    return held


def parts(scene: Scene) -> int:
    counted = sa.select(sa.func.count()).select_from(JOURNAL_PARTS)
    return int(scene.store.database.read(lambda connection: connection.scalar(counted)) or 0)


def make(scene: Scene, order_id: str) -> None:
    scene.store.parts.keep(order_id, scene.store.parts.next(order_id, 0))


def test_parts_are_read_back_as_the_lines_of_their_entries(scene: Scene) -> None:
    held = a_long_order(scene, 2 * PART_ENTRIES + 10)
    lines = [line_of(entry) for entry in scene.store.journal.read(held.order_id, limit=10_000)]
    first = scene.store.parts.next(held.order_id, 0)
    assert list(first) == lines[:PART_ENTRIES]
    assert list(scene.store.parts.next(held.order_id, 2 * PART_ENTRIES)) == lines[2 * PART_ENTRIES :]
    assert list(scene.store.parts.next(held.order_id, PART_ENTRIES - 3)) == lines[PART_ENTRIES - 3 : PART_ENTRIES]
    assert scene.store.parts.stored(held.order_id, 0) == []
    scene.store.parts.keep(held.order_id, first)
    kept = scene.store.parts.stored(held.order_id, 0)
    assert unpacked_part(packed_part(first)) == list(kept)
    assert [tuple(map(plain, line)) for line in kept] == [tuple(map(plain, line)) for line in first]
    assert scene.store.parts.stored(held.order_id, PART_ENTRIES) == []


def plain(value: object) -> object:
    """A stored tuple is a list."""
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def test_a_part_is_stored_once_and_a_gap_ends_what_is_there(scene: Scene) -> None:
    held = a_long_order(scene, 3 * PART_ENTRIES)
    make(scene, held.order_id)
    make(scene, held.order_id)
    assert parts(scene) == 1
    scene.store.parts.keep(held.order_id, scene.store.parts.next(held.order_id, 2 * PART_ENTRIES))
    assert parts(scene) == 2
    assert scene.store.parts.stored(held.order_id, 0)[-1].seq == PART_ENTRIES
    assert scene.store.parts.stored(held.order_id, 2 * PART_ENTRIES)[-1].seq == 3 * PART_ENTRIES


def test_running_orders_whose_parts_are_missing_are_known(scene: Scene) -> None:
    held = a_long_order(scene, PART_ENTRIES)
    scene.running("short")
    assert scene.store.parts.behind(10) == [held.order_id]
    make(scene, held.order_id)
    assert scene.store.parts.behind(10) == []


def test_single_entries_are_read_from_rows_and_from_a_pack(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), replied(NASTY), ended())
    held.finish()
    wanted = [entry for entry in scene.store.journal.read(held.order_id) if entry.seq in (2, 4)]
    assert scene.store.parts.entries(held.order_id, [4, 2, 99]) == wanted
    assert list(scene.store.packing.pack(scene.clock.now())) == [held.order_id]
    assert scene.store.parts.entries(held.order_id, [4, 2, 99]) == wanted
    assert scene.store.parts.entries(held.order_id, []) == []


def test_parts_go_with_the_journal_and_are_not_made_again(scene: Scene) -> None:
    held = a_long_order(scene, PART_ENTRIES)
    first = scene.store.parts.next(held.order_id, 0)
    scene.store.parts.keep(held.order_id, first)
    held.write(ended())
    held.finish()
    scene.clock.advance(40 * 86_400)
    list(scene.store.retention.clear(scene.clock.now() - timedelta(days=30)))
    assert parts(scene) == 0
    scene.store.parts.keep(held.order_id, first)
    assert parts(scene) == 0
    with pytest.raises(JournalPruned):
        scene.store.parts.entries(held.order_id, [2])


def test_nobody_knows_an_order_that_is_not_there(scene: Scene) -> None:
    with pytest.raises(UnknownOrder):
        scene.store.parts.stored("nonsense", 0)


def test_a_backup_leaves_parts_out(scene: Scene) -> None:
    make(scene, a_long_order(scene, PART_ENTRIES).order_id)
    assert JOURNAL_PARTS not in TABLES
    assert "journal_parts" not in write_backup(scene.store.database, io.BytesIO(), "1").rows

"""Records sent in pieces, with long texts read one by one: the same JSON, with little of it in memory."""

import random
from collections.abc import AsyncIterator

import pytest

from mcc.api.records import AT_ONCE_CHARACTERS, Records
from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentStep, GateChecked
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from mcc.store.database.errors import UnknownOrder
from mcc.store.rows.texts import LONG_CHARACTERS, parsed
from mcc.store.store import Offload
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started

TEXTS = (
    "",
    "short",
    'with "quotes", \\ and\nlines\t\x00\x1b',
    "x" * LONG_CHARACTERS,
    "y" * (LONG_CHARACTERS + 1),
    "ö€😀" * 500,
    "line after line\n" * 2_500,
    "😀" * 20_000,
    "z" * 150_000,
)


@pytest.fixture
def records(scene: Scene) -> Records:
    return Records(scene.store, Offload(2), Offload(2))


async def sent(records: Records, order_id: str) -> tuple[bytes, list[int]]:
    """The JSON that a reader gets, and the length of each piece."""
    found = await records.of(order_id)
    assert found is not None
    if isinstance(found, bytes):
        return found, [len(found)]
    return await gathered(found)


async def gathered(pieces: AsyncIterator[bytes]) -> tuple[bytes, list[int]]:
    taken = [piece async for piece in pieces]
    return b"".join(taken), [len(piece) for piece in taken]


def whole(scene: Scene, order_id: str) -> bytes:
    record = Fold.of(order_id, scene.store.journal.read(order_id, limit=10_000)).record()
    return to_json(record)


async def is_whole(records: Records, scene: Scene, order_id: str) -> bool:
    """Compare without pytest, whose report on differing texts of megabytes takes minutes."""
    return (await sent(records, order_id))[0] == whole(scene, order_id)


def worked_on(held: Held, chance: random.Random, rounds: int) -> None:
    """A turn with texts of all lengths in every place where an entry may have one."""
    record_id = held.origin.record_id or ""
    held.write(started(chance.choice(TEXTS)))
    for number in range(1, rounds + 1):
        nested = {"path": "a", "more": [chance.choice(TEXTS), {"deep": chance.choice(TEXTS)}], "n": 1.5}
        many = {"words": [chance.choice(TEXTS[1:3]) * 20 for _ in range(chance.choice((1, 2_000)))]}
        held.write(
            replied(chance.choice(TEXTS), round_number=number),
            called(record_id, number, arguments=chance.choice((nested, many, chance.choice(TEXTS)))),
            returned(record_id, number, content=chance.choice(TEXTS)),
            AgentStep(name="note", message=chance.choice(TEXTS)),
            GateChecked(tool="submit_result", attempt=1, ok=False, errors=(chance.choice(TEXTS),)),
        )


@pytest.mark.parametrize("seed", range(4))
async def test_the_pieces_are_the_record_that_the_journal_folds_to(scene: Scene, records: Records, seed: int) -> None:
    chance, held = random.Random(seed), scene.running()
    worked_on(held, chance, 4)
    assert await is_whole(records, scene, held.order_id), "while it runs"
    held.write(replied(chance.choice(TEXTS), round_number=5), ended(chance.choice(TEXTS)))
    held.finish()
    assert await is_whole(records, scene, held.order_id)
    stored = to_json(scene.store.orders.record(held.order_id))
    assert (stored == whole(scene, held.order_id)) is True


async def test_lone_surrogates_are_sent_too(scene: Scene, records: Records) -> None:
    held = scene.running()
    held.write(
        started("\ud800" * 1_000),
        replied("\ud83d" + "\ufffd" * 500),
        AgentStep(name="note", message="plain " * 200_000),
    )
    found, _ = await sent(records, held.order_id)
    assert Fold.of(held.order_id, scene.store.journal.read(held.order_id)).record() == ChatRecord.model_validate(
        parsed(found)
    )


async def test_a_text_cannot_contain_a_forged_mark(scene: Scene, records: Records) -> None:
    held = scene.running()
    held.write(started("secret " * 200))
    await sent(records, held.order_id)
    word = records._kept[held.order_id].outline._word
    assert len(word) == 32
    held.write(replied(f"{'0' * 32}0; and {word[:31]}g0;"))
    assert await is_whole(records, scene, held.order_id)


async def test_of_a_huge_record_little_is_held_at_a_time(scene: Scene, records: Records) -> None:
    held = scene.running()
    record_id = held.origin.record_id or ""
    held.write(started())
    for number in range(1, 41):
        held.write(
            replied("", round_number=number),
            called(record_id, number),
            returned(record_id, number, content=f"{number} " + "what a file holds\n" * 11_000),
        )
    held.write(ended())
    held.finish()
    found, pieces = await sent(records, held.order_id)
    assert len(found) > 7_500_000 and await is_whole(records, scene, held.order_id)
    assert max(pieces) < 5 * AT_ONCE_CHARACTERS
    kept = records._kept[held.order_id]
    assert kept.document is not None and len(kept.document) < 50_000
    record = kept.fold.record()
    assert record is not None and len(to_json(record)) < 50_000


async def test_readers_of_a_record_share_its_memory(scene: Scene, records: Records) -> None:
    held = scene.running()
    held.write(started("a long prompt " * 100_000))
    first, second = await records.of(held.order_id), await records.of(held.order_id)
    assert not isinstance(first, bytes | None) and not isinstance(second, bytes | None)
    kept = records._kept[held.order_id]
    assert len(kept.outline.places) == 1
    told = [(await gathered(one))[0] for one in (first, second)]
    assert (told == [whole(scene, held.order_id)] * 2) is True


async def test_an_order_that_does_not_exist_is_not_remembered(records: Records) -> None:
    with pytest.raises(UnknownOrder):
        await records.of("00000000-0000-7000-8000-000000000000")
    assert not records._kept


async def test_before_an_agent_has_started_there_is_no_record(scene: Scene, records: Records) -> None:
    assert await records.of(scene.place().id) is None

"""A judge from outside: what was planted in a talk is found again by its question, on both databases."""

import pytest

from drone.worker.loop import AsyncStore
from tests.conformance.store.scene import Scene
from tests.judges.history import Talk, held_in, missed, talks

JUDGE = "compaction-conformance-kit"


@pytest.mark.parametrize("talk", talks(), ids=lambda talk: talk.name.replace(" ", "-"))
async def test_each_canary_is_found_by_its_question(scene: Scene, talk: Talk) -> None:
    assert talk.canaries
    order = held_in(scene, talk)
    store = AsyncStore(scene.store)
    try:
        assert await missed(store, order, talk) == []
    finally:
        store.close()

"""A running agent's state equals what its journal gives, after each entry, in any tree, resumed ones included."""

import asyncio

import pytest

from drone.agent.state.tree import Tree
from mcc.contracts.entry import Entry
from tests.drone.agent.random_trees import ORDER, FollowedJournal, Wood


async def lived(seed: int, left: list[Entry] | None = None, texts: dict[str, str] | None = None) -> FollowedJournal:
    """The journal of a finished tree, with the state compared after every commit."""
    journal = FollowedJournal(ORDER, left or [])
    journal.texts.update(texts or {})
    wood = Wood(seed, journal, Tree.of(left or []))
    journal.live = wood.turn.tree
    async with asyncio.timeout(30):
        await wood.run()
    live, read = wood.turn.tree, journal.read
    assert (live.spent, live.spawned, live.calls) == (read.spent, read.spawned, read.calls)
    assert live.restraints == read.restraints and live.succeeded == read.succeeded
    return journal


@pytest.mark.parametrize("seed", range(12))
async def test_after_every_entry_of_a_random_tree_the_live_state_is_what_the_entries_before_it_make(seed: int) -> None:
    journal = await lived(seed)
    assert journal.compared


@pytest.mark.parametrize("seed", range(0, 12, 6))
async def test_so_it_is_in_a_tree_that_another_drone_goes_on_with(seed: int) -> None:
    whole = await lived(seed)
    for cut in range(1, len(whole.entries), max(1, len(whole.entries) // 4)):
        await lived(seed + 1, whole.entries[:cut], whole.texts)

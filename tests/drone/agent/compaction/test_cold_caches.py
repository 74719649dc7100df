"""What is put away while the provider's cache is warm, and what once it is cold: then there is nothing to keep."""

from datetime import timedelta

import pytest

from drone.agent.compaction.conversation import Began, ShownConversation
from drone.agent.ports.model import is_forgotten
from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from mcc.contracts.compaction import CompactionTerms
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.shape import now
from mcc.transcript.compaction.cuts import ContextWindow, Freed
from tests.drone.agent.compaction.long_runs import ORDER, LongModel, LongRun
from tests.drone.agent.compaction.test_models_of_summaries import OtherModel, hired

TERMS = CompactionTerms(window_share=0.5)


class Forgetful(LongModel):
    """Its provider keeps requests in its cache for five minutes."""

    cache_seconds = 300


def test_a_cold_cache_needs_the_first_condition_alone() -> None:
    window = ContextWindow(40_000)
    enough = Freed(characters=16_000, behind=32_001)
    assert not enough.pays(window) and enough.pays(window, is_cold=True)
    assert not Freed(characters=15_999, behind=0).pays(window, is_cold=True)


@pytest.mark.parametrize(("seconds", "ago", "is_cold"), [(300, 310, True), (300, 200, False), (None, 10**6, False)])
def test_a_cache_is_cold_once_the_last_request_is_older_than_it_lasts(
    seconds: int | None, ago: int, is_cold: bool
) -> None:
    model = Forgetful(0, 40_000)
    model.cache_seconds = seconds  # type: ignore[assignment]
    assert is_forgotten(model, now() - timedelta(seconds=ago)) is is_cold
    assert not is_forgotten(model, None)


async def until_summary(first: LongRun) -> list[Entry]:
    """The entries before the first thing that was done to keep the run within its window."""
    await hired(first, TERMS, OtherModel(1)).run()
    began = first.summaries()[0].seq
    return [one for one in first.journal.entries if one.seq < began]


async def resumed(left: list[Entry], hours: int) -> LongRun:
    """The run, gone on with so many hours later."""
    model = Forgetful(120, 40_000, length=850)
    old = [one.model_copy(update={"at": one.at - timedelta(hours=hours)}) for one in left]
    model.said = Tree.of(old).records[root_record_id(ORDER)].rounds
    world = hired(LongRun(model, left=old), TERMS, OtherModel(1))
    await world.run()
    return world


async def test_a_run_that_goes_on_after_hours_puts_results_away_instead_of_summing_up() -> None:
    left = await until_summary(LongRun(Forgetful(120, 40_000, length=850)))
    warm, cold = await resumed(left, 0), await resumed(left, 1)
    assert (warm.compacted()[0].stage, warm.compacted()[0].reason) == ("summary", "background")
    assert (cold.compacted()[0].stage, cold.compacted()[0].reason) == ("results", "background")


def test_a_turn_of_another_model_or_after_its_time_begins_with_a_cold_cache() -> None:
    model, state = Forgetful(0, 40_000), RecordState(Origin(record_id="r", parent_id=None, agent="master", depth=0))
    conversation = ShownConversation(Tree(), state)
    recent, old = now(), now() - timedelta(hours=1)
    for began, is_cold in (
        (Began(0, (), 1), False),
        (Began(0, (), 1, last_at=recent), False),
        (Began(0, (), 1, last_at=old), True),
        (Began(0, (), 1, last_at=recent, earlier=OtherModel(1)), True),
    ):
        conversation.begin(began)
        assert conversation.is_cold(model) is is_cold, began
    state.asking.replied_at = recent
    assert not conversation.is_cold(model), "it has been asked since"

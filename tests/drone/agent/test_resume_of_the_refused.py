"""A resume ends the wait of agents for their provider: it is asked at once."""

import pytest

from drone.agent.control import control_router
from drone.models.scripted import Line
from mcc.contracts.control import Control
from mcc.contracts.journal import ControlApplied
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.record import RecordStatus
from tests.drone.agent.refused_tree import Refusing, settled, standing
from tests.drone.agent.steered_tree import MASTER, SteeredTree, delegate, end_of, outcome, seq_of

DAY = 86_400.0

DEEP: dict[str, list[Line | str]] = {
    MASTER: [delegate("middle", "south"), "Both looked."],
    "middle": [delegate("deep"), "Middle."],
    "deep": ["Deep."],
    "south": ["South is empty."],
}


async def refused(*prompts: str, script: dict[str, list[Line | str]] | None = None) -> SteeredTree:
    """A tree in which these agents wait for their provider and nothing else runs."""
    tree = Refusing(DAY, refused=prompts, script=script).tree
    tree.begin()
    await standing(tree)
    return tree


def tries(tree: SteeredTree, prompt: str) -> list[int]:
    record_id = tree.child(prompt).id
    facts = [entry.data for entry in tree.journal.entries if entry.record_id == record_id]
    return [fact.attempt for fact in facts if isinstance(fact, ModelStarted)]


def applied(tree: SteeredTree, control: Control) -> bool:
    return control.applied_seq == seq_of(tree, control) and outcome(tree, control).refused is None


async def test_a_refused_agent_that_is_resumed_asks_the_same_at_once() -> None:
    tree = await refused("north")
    resumed = await tree.steering.resume(record_id=tree.child("north").id, reason="it has room again")
    assert applied(tree, resumed)
    assert await end_of(tree) == "Both looked."
    assert tree.kinds("north") == [
        "agent.started",
        "model.started",
        "model.retried",
        "control.applied",
        "model.started",
        "model.replied",
        "agent.finished",
    ]
    assert tries(tree, "north") == [1, 2]
    asks = [ask for ask in tree.model.asks if ask.messages[0].text == "north"]  # type: ignore[union-attr]
    assert asks[0].messages == asks[1].messages


async def test_all_that_wait_for_their_provider_ask_at_once_when_the_whole_turn_is_resumed() -> None:
    tree = await refused("north", "south")
    resumed = await tree.steering.resume()
    assert applied(tree, resumed)
    assert await end_of(tree) == "Both looked."
    assert tries(tree, "north") == tries(tree, "south") == [1, 2]
    (entry,) = [entry for entry in tree.journal.entries if isinstance(entry.data, ControlApplied)]
    assert entry.record_id is None


async def test_a_master_that_waits_for_its_provider_is_resumed_by_its_record_or_as_the_turn() -> None:
    for by_record in (True, False):
        tree = await refused(MASTER)
        resumed = await tree.steering.resume(record_id=tree.record().id if by_record else None)
        assert applied(tree, resumed)
        assert await end_of(tree) == "Both looked."


async def test_a_resume_reaches_those_below_its_agent_and_nobody_beside_it() -> None:
    tree = await refused("deep", "south", script=DEEP)
    assert applied(tree, await tree.steering.resume(record_id=tree.child("middle").id))
    await tree.until(lambda: tree.ended("middle") is RecordStatus.COMPLETED)
    await standing(tree)
    assert (tries(tree, "deep"), tries(tree, "south")) == ([1, 2], [1])
    assert applied(tree, await tree.steering.resume(record_id=tree.child("south").id))
    assert await end_of(tree) == "Both looked."


async def test_a_refused_agent_is_resumed_while_others_work() -> None:
    tree = Refusing(DAY).tree
    tree.hold("south")
    tree.begin()
    await tree.until_asked("south")
    await tree.until(lambda: "model.retried" in tree.kinds("north"))
    await settled()
    north, south = tree.child("north").id, tree.child("south").id
    assert (await tree.steering.resume(record_id=south)).refused == control_router.NOT_PAUSED
    assert applied(tree, await tree.steering.resume(record_id=north))
    await tree.until(lambda: tree.ended("north") is RecordStatus.COMPLETED)
    assert (await tree.steering.resume()).refused == control_router.NOT_PAUSED
    tree.release("south")
    assert await end_of(tree) == "Both looked."


async def test_a_provider_that_refuses_again_is_waited_for_again() -> None:
    tree = await refused("north", "north")
    north = tree.child("north").id
    assert applied(tree, await tree.steering.resume(record_id=north))
    assert (await tree.steering.resume(record_id=north)).refused == control_router.NOT_PAUSED
    await tree.until(lambda: tree.kinds("north").count("model.retried") == 2)
    await standing(tree)
    assert applied(tree, await tree.steering.resume(record_id=north))
    assert await end_of(tree) == "Both looked."
    assert tries(tree, "north") == [1, 2, 3]


async def test_a_paused_agent_that_is_resumed_waits_for_its_provider_no_longer() -> None:
    tree = await refused("north")
    north = tree.child("north").id
    assert applied(tree, await tree.steering.pause(record_id=north))
    assert applied(tree, await tree.steering.resume(record_id=north))
    assert await end_of(tree) == "Both looked."


async def test_a_refused_agent_of_a_paused_turn_rests_until_that_is_resumed() -> None:
    tree = await refused("north")
    await tree.steering.pause()
    assert (await tree.steering.resume(record_id=tree.child("north").id)).refused == control_router.PAUSED_ABOVE
    assert applied(tree, await tree.steering.resume())
    assert await end_of(tree) == "Both looked."


async def test_an_agent_below_a_paused_one_waits_no_longer_and_rests_when_only_the_turn_is_resumed() -> None:
    tree = await refused("deep", script=DEEP)
    middle = tree.child("middle").id
    await tree.steering.pause(record_id=middle)
    assert applied(tree, await tree.steering.resume())
    await standing(tree)
    assert tries(tree, "deep") == [1]
    assert applied(tree, await tree.steering.resume(record_id=middle))
    assert await end_of(tree) == "Both looked."


async def test_what_was_said_to_an_agent_that_waits_is_read_before_it_asks_again() -> None:
    tree = await refused("north")
    north = tree.child("north").id
    said = await tree.steering.steer("Hurry.", record_id=north)
    await settled()
    assert said.open and tries(tree, "north") == [1]
    await tree.steering.resume(record_id=north)
    assert await end_of(tree) == "Both looked."
    assert tree.said_to("north") == ["north", f"[{said.requested_at:%Y-%m-%dT%H:%M:%SZ}] Hurry."]


@pytest.mark.parametrize("whole", [True, False], ids=["the turn", "the agent"])
async def test_an_agent_that_waits_for_its_provider_can_be_cancelled(whole: bool) -> None:
    tree = await refused("north")
    north = tree.child("north").id
    assert applied(tree, await tree.steering.cancel(record_id=None if whole else north))
    assert await end_of(tree) == ("" if whole else "Both looked.")
    assert tree.ended("north") is RecordStatus.CANCELLED

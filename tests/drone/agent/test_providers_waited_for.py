"""An agent whose provider does not answer waits, reports that, and sends the same request again."""

import pytest

from drone.agent.ports.model import AskLater
from mcc.contracts.model_facts import ModelRetried
from mcc.contracts.status import WaitingReason
from tests.drone.agent.refused_tree import Refusing, standing
from tests.drone.agent.steered_tree import end_of


@pytest.mark.parametrize(("named", "reason"), [(True, WaitingReason.RATE_LIMIT), (False, WaitingReason.PROVIDER)])
async def test_what_is_waited_for_is_told_by_who_named_the_time(named: bool, reason: WaitingReason) -> None:
    tree = Refusing(60.0, named=named).tree
    tree.begin()
    await standing(tree)
    (block,) = tree.turn.idle.blocks
    assert block.reason is reason and block.until is not None
    await tree.steering.resume()
    assert await end_of(tree) == "Both looked."


async def test_the_question_that_is_asked_again_says_how_long_it_was_waited_for() -> None:
    tree = Refusing(60.0, named=False).tree
    tree.begin()
    await standing(tree)
    await tree.steering.resume()
    assert await end_of(tree) == "Both looked."
    asks = [ask for ask in tree.model.asks if ask.messages[0].text == "north"]  # type: ignore[union-attr]
    assert [ask.waited_seconds for ask in asks] == [0.0, 60.0]
    (retried,) = [entry.data for entry in tree.journal.entries if isinstance(entry.data, ModelRetried)]
    assert retried.wait_seconds == 60.0


def test_nobody_is_told_of_another_try_where_none_comes() -> None:
    later = AskLater("It is busy.", 60.0, named=False, when="It is asked again in about 60 s.")
    assert str(later) == "It is busy. It is asked again in about 60 s."
    assert str(later.as_final("")) == "It is busy."
    assert str(later.as_final("longer than its order may wait")).endswith("That is longer than its order may wait.")

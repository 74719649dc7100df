"""Drones that were sent what nobody can use."""

from typing import Any

import pytest

from mcc.doctor.judgement import judge
from mcc.doctor.strangers import strangers
from tests.mcc.doctor.ward import chart, drone, node, states


def test_a_drone_that_refused_nothing_is_well() -> None:
    assert list(strangers(chart(drones=[drone()]))) == []


@pytest.mark.parametrize(("refused", "said"), [(1, "refused 1 message since"), (1_200, "refused 1,200 messages since")])
def test_a_drone_that_refused_messages_is_named_with_how_many(refused: int, said: str) -> None:
    [finding] = strangers(chart(drones=[drone(refused_messages=refused)]))
    assert (finding.what, finding.state, finding.drone, finding.fix) == ("messages", "warning", "drone-1", None)
    assert said in finding.detail and "Who sends them?" in finding.advice


@pytest.mark.parametrize("gone", [{"state": "lost"}, {"state": "left"}, {"in_time": False}])
def test_what_a_drone_refused_that_is_gone_is_history(gone: dict[str, Any]) -> None:
    assert list(strangers(chart(drones=[drone(refused_messages=3, **gone)]))) == []


def test_it_is_part_of_the_judgement() -> None:
    seen = chart(drones=[drone(refused_messages=3)], nodes=[node()])
    assert ("messages", "warning") in states(judge(seen))

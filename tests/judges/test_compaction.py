"""The judge of compaction: what survives fifty summaries of summaries, at a tenth and a fifth of the size."""

from typing import Any

import pytest
from compaction_kit.benchmark import run_budget_benchmark

from tests.judges.compaction import Forgetful, Ours

JUDGE = "compaction-conformance-kit"
ROUNDS = 50


def measured(model: type[Ours], budget: float) -> Any:
    return run_budget_benchmark({model.name: model}, budgets=(budget,), rounds=ROUNDS)["entries"][0]


@pytest.mark.parametrize(("budget", "survive"), [(0.10, 0.75), (0.20, 1.0)])
@pytest.mark.parametrize("model", [Ours, Forgetful])
def test_rules_and_identifiers_survive_fifty_rounds(model: type[Ours], budget: float, survive: float) -> None:
    assert measured(model, budget)["randomized"]["overall_final_survival"] >= survive


@pytest.mark.parametrize("budget", [0.10, 0.20])
def test_a_value_that_was_corrected_is_gone(budget: float) -> None:
    assert measured(Ours, budget)["randomized"]["supersession"]["stale"] == 0


@pytest.mark.parametrize("budget", [0.10, 0.20])
def test_two_things_that_look_alike_stay_two(budget: float) -> None:
    assert measured(Ours, budget)["semantic"]["distinct_pair_rate"] == 1.0


@pytest.mark.parametrize("budget", [0.10, 0.20])
def test_no_message_is_longer_than_allowed(budget: float) -> None:
    assert measured(Ours, budget)["budget_compliant"]

"""Limits on input, cached input and reasoning tokens, and their warnings."""

import pytest

from drone.agent.ports.report import LimitReached
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Budget, Reservation, Share
from drone.agent.state.record import RecordState
from mcc.contracts.entry import ORDER
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.usage import Usage

SPENT = Usage(input_tokens=900, cached_input_tokens=800, output_tokens=300, reasoning_tokens=200, model_calls=2)


def budget(limits: Limits, spent: Usage = SPENT) -> Budget:
    made = Budget(limits)
    made.tree.spent = spent
    return made


def allowance(limits: Limits, own: AgentLimits | None = None) -> Allowance:
    state = RecordState(ORDER)
    state.spending.spent, state.rounds = SPENT, 2
    return Allowance(budget(limits), Share.of(limits, own or AgentLimits(), 0), state)


@pytest.mark.parametrize(
    ("limit", "used"), [("input_tokens", 900), ("cached_input_tokens", 800), ("reasoning_tokens", 200)]
)
def test_a_tree_that_used_its_tokens_of_a_kind_asks_no_model_again(limit: str, used: int) -> None:
    budget(Limits.model_validate({limit: used + 1})).check()
    with pytest.raises(LimitReached, match=limit):
        budget(Limits.model_validate({limit: used})).check()


@pytest.mark.parametrize(
    ("limit", "used"), [("input_tokens", 900), ("cached_input_tokens", 800), ("reasoning_tokens", 200)]
)
async def test_an_agents_own_file_lowers_them(limit: str, used: int) -> None:
    allowed = allowance(Limits(), AgentLimits(**{limit: 2 * used}))
    allowed.settle(await allowed.reserve())
    with pytest.raises(LimitReached, match=limit):
        await allowance(Limits(), AgentLimits(**{limit: used})).reserve()
    assert getattr(Share.of(Limits.model_validate({limit: 5}), AgentLimits(**{limit: 9}), 1), limit) == 5


def test_questions_under_way_count_as_read() -> None:
    shared = budget(Limits(input_tokens=1_000))
    shared.hold(Reservation(tokens=150, output_tokens=60))
    assert not shared.full
    shared.hold(Reservation(tokens=50, output_tokens=40))
    assert shared.full


@pytest.mark.parametrize(("share", "told"), [(0.95, None), (0.9, "input_tokens"), (0.5, "input_tokens")])
def test_an_agent_is_told_at_the_share_that_its_order_names(share: float, told: str | None) -> None:
    warned = allowance(Limits(input_tokens=1_000, warn_share=share)).warning()
    assert (warned and warned.limit) == told


@pytest.mark.parametrize(("share", "rounds", "told"), [(0.7, 10, 7), (0.5, 10, 5), (1.0, 10, 9), (0.1, 10, 1)])
def test_of_rounds_it_is_told_at_that_share_and_before_the_last(share: float, rounds: int, told: int) -> None:
    def warned(done: int) -> bool:
        state = RecordState(ORDER)
        state.rounds = done
        limits = Limits(rounds=rounds, warn_share=share)
        return Allowance(Budget(limits), Share.of(limits, AgentLimits(), 0), state).warning() is not None

    assert [warned(told - 1), warned(told)] == [False, True]

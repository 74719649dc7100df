"""A model call's estimated cost is reserved in the whole tree's budget before it, the real cost charged after it."""

import asyncio
from collections.abc import Coroutine

import pytest

from drone.agent.ports.report import LimitReached
from drone.agent.spending.budget import Budget, Reservation
from mcc.contracts.journal import ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.usage import Usage
from mcc.transcript.asked import REPLY_TOKENS
from mcc.transcript.transcript import Estimate
from tests.drone.agent.spender import Spender


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def usage(taken: int = 100, given: int = 10, usd: float | None = 0.01, calls: int = 1) -> Usage:
    return Usage(input_tokens=taken, output_tokens=given, model_calls=calls, cost_usd=usd)


def at_once(reserving: Coroutine[None, None, Reservation]) -> Reservation:
    """Reserve; fails if that has to wait."""
    try:
        reserving.send(None)
    except StopIteration as done:
        assert isinstance(done.value, Reservation)
        return done.value
    raise AssertionError("it waits")


async def started(*tasks: asyncio.Task[Reservation]) -> list[bool]:
    """Run every task as far as it gets; returns which have finished."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


def test_a_reservation_is_the_question_and_room_for_its_reply() -> None:
    reserved = at_once(Spender(Budget(Limits())).reserve(1, 8_000))
    assert reserved == Reservation(2_000 + REPLY_TOKENS, REPLY_TOKENS, None)


def test_nobody_waits_where_nothing_is_under_way() -> None:
    budget = Budget(Limits(total_tokens=10, cost_usd=0.000001, output_tokens=1))
    at_once(Spender(budget).reserve(1, 1_000_000))


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(output_tokens=10), "output_tokens"),
        (Limits(total_tokens=110), "total_tokens"),
        (Limits(cost_usd=0.01), "cost_usd"),
    ],
)
def test_what_is_spent_ends_every_agent_of_the_tree(limits: Limits, name: str) -> None:
    budget = Budget(limits)
    first, sibling = Spender(budget), Spender(budget, depth=1)
    first.settle(at_once(first.reserve(1, 100)), usage())
    for agent in (first, sibling):
        with pytest.raises(LimitReached) as reached:
            at_once(agent.reserve(2, 100))
        assert reached.value.limit == name


def test_a_childs_own_limits_end_the_child_alone() -> None:
    budget = Budget(Limits())
    child, sibling = Spender(budget, depth=1, output_tokens=10, rounds=3), Spender(budget, depth=1)
    child.settle(at_once(child.reserve(1, 100)), usage())
    with pytest.raises(LimitReached, match=r"output_tokens \(10\)"):
        at_once(child.reserve(2, 100))
    with pytest.raises(LimitReached, match=r"rounds \(3\)"):
        at_once(child.reserve(4, 100))
    at_once(sibling.reserve(1, 100))


def test_the_wall_clock_of_the_tree_and_that_of_the_agent_both_end_it() -> None:
    clock = Clock()
    budget = Budget(Limits(wall_seconds=100), clock)
    clock.now = 50
    child = Spender(budget, depth=1, wall_seconds=20)
    clock.now = 70
    with pytest.raises(LimitReached, match=r"wall_seconds \(20\)"):
        at_once(child.reserve(1, 100))
    clock.now = 100
    with pytest.raises(LimitReached, match=r"wall_seconds \(100\)"):
        at_once(Spender(budget, depth=1).reserve(1, 100))


async def test_what_siblings_set_aside_is_waited_for_and_what_they_give_back_is_used() -> None:
    budget = Budget(Limits(output_tokens=REPLY_TOKENS))
    one, other = Spender(budget), Spender(budget, depth=1)
    reserved = await one.reserve(1, 100)
    waiting = asyncio.create_task(other.reserve(1, 100))
    assert other.allowance.must_wait and await started(waiting) == [False]
    one.settle(reserved, usage(given=96))
    assert (await waiting).output_tokens == REPLY_TOKENS - 96
    assert other.allowance.output_cap() == REPLY_TOKENS - 96


async def test_who_waited_for_a_limit_that_was_then_used_up_is_told_so() -> None:
    budget = Budget(Limits(output_tokens=REPLY_TOKENS))
    one, other = Spender(budget), Spender(budget, depth=1)
    reserved = await one.reserve(1, 100)
    waiting = asyncio.create_task(other.reserve(1, 100))
    await started(waiting)
    one.settle(reserved, usage(given=REPLY_TOKENS))
    with pytest.raises(LimitReached, match="output_tokens"):
        await waiting


async def test_a_call_that_failed_gives_everything_back() -> None:
    budget = Budget(Limits(total_tokens=1_000))
    one, other = Spender(budget), Spender(budget, depth=1)
    reserved = await one.reserve(1, 100)
    waiting = asyncio.create_task(other.reserve(1, 100))
    await started(waiting)
    one.settle(reserved, None)
    await waiting
    assert budget.spent == Usage() == one.state.spending.spent


async def test_a_waiter_that_is_cancelled_takes_no_ones_turn() -> None:
    budget = Budget(Limits(output_tokens=REPLY_TOKENS))
    one = Spender(budget)
    reserved = await one.reserve(1, 100)
    waiting = [asyncio.create_task(Spender(budget, depth=1).reserve(1, 100)) for _ in range(3)]
    await started(*waiting)
    waiting[0].cancel()
    one.settle(reserved, usage(given=1))
    assert await started(*waiting) == [True, True, False]
    assert waiting[0].cancelled()
    budget.settle(waiting[1].result())
    await waiting[2]


async def test_a_waiter_that_is_cancelled_in_the_moment_it_is_woken_holds_nothing() -> None:
    budget = Budget(Limits(output_tokens=REPLY_TOKENS))
    one = Spender(budget)
    reserved = await one.reserve(1, 100)
    waiting = [asyncio.create_task(Spender(budget, depth=1).reserve(1, 100)) for _ in range(2)]
    await started(*waiting)
    one.settle(reserved, None)
    waiting[0].cancel()
    assert await started(*waiting) == [True, True]
    assert waiting[0].cancelled() and not waiting[1].cancelled()


async def test_many_waiters_of_one_narrow_limit_all_get_their_turn() -> None:
    budget = Budget(Limits(output_tokens=REPLY_TOKENS))
    most = under_way = 0

    async def agent() -> None:
        nonlocal most, under_way
        own = Spender(budget, depth=1)
        for number in range(1, 6):
            reserved = await own.reserve(number, 100)
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            own.settle(reserved, usage(given=1))

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(agent())
    assert budget.spent.output_tokens == 100
    assert most == 1


def test_the_cap_on_output_is_what_neither_is_spent_nor_set_aside() -> None:
    budget = Budget(Limits(output_tokens=REPLY_TOKENS + 100))
    master, child = Spender(budget), Spender(budget, depth=1, output_tokens=60)
    held = at_once(master.reserve(1, 10))
    assert master.allowance.output_cap() is None
    at_once(child.reserve(1, 10))
    assert child.allowance.output_cap() == 60
    at_once(Spender(budget, depth=1).reserve(1, 10))
    master.settle(held, usage(given=REPLY_TOKENS))
    assert budget.output_tokens_left() == 0


def test_money_is_set_aside_at_the_price_that_the_run_has_paid_before_it_at_the_trees() -> None:
    budget = Budget(Limits())
    master, child = Spender(budget), Spender(budget, depth=1)
    first = at_once(master.reserve(1, 400))
    assert first.usd is None
    master.settle(first, usage(90, 10, usd=0.01))
    reserved = at_once(child.reserve(1, 400))
    assert reserved.usd == pytest.approx(reserved.tokens * 0.0001)
    child.settle(reserved, usage(90, 10, usd=0.1))
    assert at_once(child.reserve(2, 400)).usd == pytest.approx((90 + REPLY_TOKENS) * 0.001)


async def test_money_that_siblings_set_aside_is_waited_for() -> None:
    budget = Budget(Limits(cost_usd=0.05))
    master, child = Spender(budget), Spender(budget, depth=1)
    master.settle(await master.reserve(1, 400), usage(90, 10, usd=0.01))
    reserved = await master.reserve(2, 400)
    waiting = asyncio.create_task(child.reserve(1, 400))
    assert await started(waiting) == [False]
    master.settle(reserved, usage(90, 10, usd=0.01))
    await waiting


def test_an_unknown_price_is_never_zero_and_the_known_part_still_ends_the_tree() -> None:
    budget = Budget(Limits(cost_usd=0.02))
    free, priced = Spender(budget, depth=1), Spender(budget, depth=1)
    free.settle(at_once(free.reserve(1, 10)), usage(usd=None), "some/model")
    assert free.state.spending.spent.cost_usd is None and budget.spent.cost_usd is None
    assert at_once(free.reserve(2, 10)).usd is None
    priced.settle(at_once(priced.reserve(1, 10)), usage(usd=0.02))
    with pytest.raises(LimitReached, match="cost_usd"):
        at_once(priced.reserve(2, 10))


def test_a_limit_that_cannot_be_held_is_said_once_in_a_turn() -> None:
    budget = Budget(Limits(cost_usd=1))
    one, other = Spender(budget), Spender(budget, depth=1)
    told = [agent.settle(at_once(agent.reserve(1, 10)), usage(usd=None), "some/model") for agent in (one, other, one)]
    ((said,), *more) = told
    assert (said.limit, said.used, said.allowed) == ("cost_usd", None, 1) and more == [(), ()]
    assert said.message == "The price of some/model is unknown: the limit cost_usd cannot be enforced."
    assert [agent.warning(3) for agent in (one, other)] == [None, None]


def test_without_a_limit_in_money_an_unknown_price_is_nobodys_concern() -> None:
    one = Spender(Budget(Limits()))
    assert one.settle(at_once(one.reserve(1, 10)), usage(usd=None), "some/model") == ()
    assert one.warning(2) is None


def test_an_estimate_starts_from_the_last_question_and_learns_what_characters_take() -> None:
    estimate = Estimate()
    assert estimate.tokens(4_000) == 1_000
    estimate.learn(4_000, usage(3_000))
    assert estimate.tokens(4_000) == 3_000
    assert estimate.tokens(8_000) == 4_000
    estimate.learn(8_000, usage(7_000))
    assert estimate.tokens(9_000) == 8_000


def test_an_estimate_believes_no_absurd_usage() -> None:
    estimate = Estimate()
    estimate.learn(1_000, usage(1_000))
    estimate.learn(2_000, usage(1_000_000))
    assert estimate.tokens(3_000) == 1_001_500
    estimate.learn(3_000, usage(0))
    assert estimate.tokens(3_000) == 1_001_500
    assert estimate.tokens(0) >= 0


def test_a_reply_that_took_two_tries_teaches_what_one_of_them_took() -> None:
    estimate = Estimate()
    estimate.learn(1_000, usage(800, calls=2))
    assert estimate.tokens(1_000) == 400


def test_tool_calls_and_spawns_are_counted_over_the_tree_and_in_the_agents_own_share() -> None:
    budget = Budget(Limits(tool_calls=3, spawns=1))
    master, child = Spender(budget).allowance, Spender(budget, tool_calls=1).allowance
    assert [child.take_tool_call("a"), child.take_tool_call("b")] == [True, False]
    assert [master.take_tool_call(name) for name in "cde"] == [True, True, False]
    assert [budget.take_spawn("r"), budget.take_spawn("s")] == [True, False]


def test_a_call_and_a_subagent_are_counted_once_while_they_are_under_way_and_when_the_journal_tells_of_them() -> None:
    budget = Budget(Limits(tool_calls=2, spawns=2))
    one = Spender(budget)
    assert one.allowance.take_tool_call("a") and budget.take_spawn("r")
    one.allowance.tool_call_ended("a")
    budget.spawn_began("r")
    budget.tree.apply(one.origin, ToolFinished(call_id="a", name="look", content="", is_error=False))
    Spender(budget, depth=1)
    assert (budget.tree.calls, budget.tree.spawned) == (1, 1)
    assert [one.allowance.take_tool_call(name) for name in "bc"] == [True, False]
    assert [budget.take_spawn(name) for name in "st"] == [True, False]

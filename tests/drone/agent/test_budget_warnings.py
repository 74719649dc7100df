"""At 70 % of a limit an agent is told to finish with what it has: once, in time, and journaled first."""

import pytest

from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.report import failure_reason
from drone.agent.spending.budget import Budget
from drone.models.guards import PaidModel, UnpricedModel
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.journal import BudgetWarned
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason
from mcc.contracts.usage import Usage
from mcc.transcript.transcript import text_for_model
from tests.drone.agent.lone import Lone
from tests.drone.agent.spender import Spender

ROOMY = Limits(rounds=1_000)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@tool()
async def count(number: int) -> str:
    """Count.

    Args:
        number: how far.
    """
    return f"counted to {number}"


def counting(number: int, usage: Usage | None = None) -> Line:
    return Line(calls=(call("count", number=number),), usage=usage)


@pytest.mark.parametrize(
    ("rounds", "warned"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (10, 8), (24, 18), (50, 36), (1_000, 701)]
)
def test_rounds_are_warned_of_at_seven_tenths_and_never_before_the_last_of_few(rounds: int, warned: int) -> None:
    agent = Spender(Budget(Limits(rounds=rounds)))
    said = [number for number in range(1, rounds + 1) if agent.warning(number)]
    assert said == [warned]


def test_the_last_round_is_called_the_last() -> None:
    said = Spender(Budget(Limits(rounds=1))).warning(1)
    assert said is not None and "this one reply" in said.message
    said = Spender(Budget(Limits(rounds=10))).warning(8)
    assert said is not None and "nearly used up: 7 of 10" in said.message


@pytest.mark.parametrize(
    ("limits", "usage", "name", "used"),
    [
        (ROOMY.model_copy(update={"output_tokens": 100}), Usage(output_tokens=70), "output_tokens", 70),
        (ROOMY.model_copy(update={"total_tokens": 100}), Usage(input_tokens=60, output_tokens=10), "total_tokens", 70),
        (ROOMY.model_copy(update={"cost_usd": 1.0}), Usage(output_tokens=1, cost_usd=0.75), "cost_usd", 0.75),
    ],
)
def test_what_the_tree_has_spent_is_told_to_each_of_its_agents_once(
    limits: Limits, usage: Usage, name: str, used: float
) -> None:
    budget = Budget(limits)
    spender, sibling = Spender(budget, depth=1), Spender(budget, depth=1)
    assert spender.warning(2) is None
    spender.spend(usage)
    for agent in (spender, sibling):
        said = agent.warning(2)
        assert said is not None and (said.limit, said.used) == (name, used)
        assert [agent.warning(number) for number in (2, 3, 4)] == [None] * 3


def test_a_child_is_warned_of_its_own_tokens_and_its_siblings_are_not() -> None:
    budget = Budget(ROOMY)
    child, sibling = Spender(budget, depth=1, output_tokens=100), Spender(budget, depth=1)
    child.spend(Usage(output_tokens=80))
    said = child.warning(2)
    assert said is not None and (said.limit, said.allowed) == ("output_tokens", 100)
    assert sibling.warning(2) is None


def test_an_agents_own_clock_and_that_of_the_tree_are_told_of_as_one_limit() -> None:
    clock = Clock()
    budget = Budget(Limits(wall_seconds=100), clock)
    clock.now = 50
    child, late = Spender(budget, depth=1, wall_seconds=20), Spender(budget, depth=1)
    clock.now = 65
    said = child.warning(2)
    assert said is not None and (said.limit, said.used, said.allowed) == ("wall_seconds", 15, 20)
    assert late.warning(2) is None
    clock.now = 75
    said = late.warning(3)
    assert said is not None and (said.used, said.allowed) == (75, 100)
    assert child.warning(3) is None


def test_nobody_is_told_to_finish_before_the_first_round() -> None:
    budget = Budget(Limits(output_tokens=100))
    Spender(budget).spend(Usage(output_tokens=90))
    late = Spender(budget, depth=1)
    assert late.warning(1) is None
    assert late.warning(2) is not None


def test_limits_that_come_near_together_are_each_told() -> None:
    budget = Budget(ROOMY.model_copy(update={"total_tokens": 100, "cost_usd": 1.0}))
    agent = Spender(budget, output_tokens=10)
    agent.spend(Usage(input_tokens=70, output_tokens=9, cost_usd=0.9))
    said = [agent.warning(2) for _ in range(4)]
    assert [one and one.limit for one in said] == ["output_tokens", "total_tokens", "cost_usd", None]


def test_an_agent_that_is_continued_hears_of_the_trees_limits_no_second_time_but_of_its_own() -> None:
    budget = Budget(Limits(output_tokens=100))

    def conversation(record_id: str, continues: str | None) -> list[str]:
        agent = Spender(budget, 1, record_id, continues, rounds=2)
        return [said.limit for said in (agent.warning(2), agent.warning(2)) if said]

    Spender(budget).spend(Usage(output_tokens=80))
    assert conversation("a", None) == ["rounds", "output_tokens"]
    assert conversation("b", "a") == conversation("c", "b") == ["rounds"]
    assert conversation("d", None) == ["rounds", "output_tokens"]


def test_a_limit_whose_use_is_unknown_is_for_people_only() -> None:
    known = BudgetWarned(limit="rounds", used=7, allowed=10, message="Come to an end.")
    unknown = BudgetWarned(limit="cost_usd", used=None, allowed=1, message="The price is unknown.")
    assert (text_for_model(known), text_for_model(unknown)) == ("Come to an end.", None)


async def test_the_call_to_wrap_up_is_an_entry_before_the_model_hears_it_and_comes_once() -> None:
    lone = Lone([*map(counting, range(8)), "Done."], FunctionTools([count]), Limits(rounds=10))
    assert (await lone.run()).completed
    (said,) = lone.facts(BudgetWarned)
    assert (said.limit, said.used, said.allowed) == ("rounds", 7, 10)
    assert lone.heard() == [said.message] == lone.steps("budget.warned")
    at = lone.kinds().index("budget.warned")
    assert lone.kinds()[at + 1] == "model.started"
    assert lone.facts(ModelStarted)[7].round == 8
    heard = [len(ask.messages) for ask in lone.scripted.asks]
    assert heard[-1] == len(lone.scripted.asks[-1].messages)


async def test_an_agent_with_a_gate_is_told_to_hand_its_result_in() -> None:
    result = {"status": "completed", "summary": "All is well."}
    lines = [counting(0), Line(calls=(call("submit_result", **result),))]
    lone = Lone(lines, FunctionTools([count]), Limits(rounds=2), gate=ReportGate())
    assert (await lone.run()).text == "All is well."
    (said,) = lone.heard()
    assert "this one reply" in said and "the tool submit_result" in said


async def test_tool_calls_that_run_out_are_told_of_with_the_next_round() -> None:
    ten = Line(calls=tuple(call("count", number=number) for number in range(7)))
    lone = Lone([ten, "Done."], FunctionTools([count]), Limits(tool_calls=10))
    await lone.run()
    (said,) = lone.facts(BudgetWarned)
    assert (said.limit, said.used) == ("tool_calls", 7)
    assert "nearly used up: 7 of 10" in said.message
    assert "Start nothing new" in said.message and "a reply without tool calls" in said.message


async def test_a_limit_that_is_used_up_is_not_called_nearly_so() -> None:
    lone = Lone(
        [Line(calls=tuple(call("count", number=number) for number in range(3))), "Done."],
        FunctionTools([count]),
        Limits(tool_calls=3),
    )
    await lone.run()
    (said,) = lone.facts(BudgetWarned)
    assert said.message.startswith("The limit tool_calls is used up: 3 of 3.")


async def test_an_unknown_price_stands_in_the_journal_and_not_in_the_transcript() -> None:
    unknown = Usage(input_tokens=5, output_tokens=5, model_calls=1, cost_usd=None)
    lines = [counting(1, unknown), counting(2, unknown), Line("Done.", usage=unknown)]
    lone = Lone(lines, FunctionTools([count]), Limits(cost_usd=1))
    report = await lone.run()
    (said,) = lone.facts(BudgetWarned)
    assert said.message == "The price of scripted/model is unknown: the limit cost_usd cannot be enforced."
    assert lone.heard() == []
    assert report.usage.cost_usd is None and lone.record().usage_total.cost_usd is None
    assert lone.kinds().index("budget.warned") < lone.kinds().index("tool.started")


async def test_an_unknown_price_is_said_even_when_the_first_reply_is_the_last() -> None:
    unknown = Usage(input_tokens=5, output_tokens=5, model_calls=1, cost_usd=None)
    lone = Lone([Line("Done.", usage=unknown)], limits=Limits(cost_usd=1))
    assert (await lone.run()).completed
    assert lone.kinds()[-2:] == ["budget.warned", "agent.finished"]


async def test_a_run_that_may_ask_no_model_of_unknown_price_ends_and_names_the_price_to_set() -> None:
    model = UnpricedModel(ScriptedModel([counting(1), "Done."]), "[models.fast]")
    lone = Lone(model, FunctionTools([count]), Limits(cost_usd=2, unknown_price="refuse"))
    report = await lone.run()
    assert (report.status, report.limit) == (RecordStatus.LIMIT_REACHED, "cost_usd") and report.cause is not None
    assert failure_reason(report.cause, report.limit) is FailureReason.BUDGET_EXHAUSTED
    assert "in [models.fast], or 0 for both if nothing" in (report.error or "")
    assert "model.replied" not in lone.kinds() and lone.record().usage_total == Usage()


async def test_where_nothing_was_set_aside_a_paid_model_is_not_even_asked_once() -> None:
    for limits, replies in ((Limits(cost_usd=0, unknown_price="refuse"), 0), (Limits(cost_usd=0), 1)):
        lone = Lone(PaidModel(ScriptedModel(["Done."])), FunctionTools([count]), limits)
        report = await lone.run()
        assert lone.kinds().count("model.replied") == replies
        assert report.completed is bool(replies) and (replies or report.limit == "cost_usd")


async def test_free_models_are_within_every_limit_in_money() -> None:
    lone = Lone(ScriptedModel([counting(1), "Done."]), FunctionTools([count]), Limits(cost_usd=0.01))
    assert (await lone.run()).completed
    assert lone.facts(BudgetWarned) == []

"""Landing: at a limit an agent has one reply left, without tools, and what it says there is its answer."""

from collections.abc import Sequence

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, AskLater, Listener, ModelError, Reply, WantedCall
from drone.agent.ports.report import Cause, Report, outcome_of
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Budget, Share
from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blocks import TextBlock
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import BudgetWarned
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason
from mcc.contracts.usage import Usage
from mcc.rules.report import REPORT_NAME
from mcc.transcript.asked import REPLY_TOKENS
from tests.drone.agent.lone import ORDER, Lone


@tool(idempotent=True)
async def look(at: int) -> str:
    """Look.

    Args:
        at: where.
    """
    return f"{at} is green"


TOOLS = FunctionTools([look])


def work(number: int, output: int = 10, reasoning: int = 0) -> Line:
    usage = Usage(input_tokens=90, output_tokens=output, reasoning_tokens=reasoning, model_calls=1, cost_usd=0.01)
    return Line(calls=(call("look", at=number),), usage=usage)


LIMITS = [
    (Limits(rounds=3), "rounds", 3),
    (Limits(tool_calls=2), "tool_calls", 3),
    (Limits(output_tokens=30), "output_tokens", 3),
    (Limits(output_tokens=20_000), "output_tokens", 4),
    (Limits(total_tokens=100_000), "total_tokens", 4),
    (Limits(cost_usd=0.5), "cost_usd", 4),
]


@pytest.mark.parametrize(("limits", "name", "rounds"), LIMITS, ids=lambda value: str(value)[:40])
async def test_the_last_reply_is_the_answer(limits: Limits, name: str, rounds: int) -> None:
    large = {"output_tokens": (4_000, 0, 0.0), "total_tokens": (10, 21_000, 0.0), "cost_usd": (10, 20_000, 0.12)}
    output, given, cost = large[name] if rounds == 4 else (10, 90, 0.001)
    usage = Usage(input_tokens=given, output_tokens=output, model_calls=1, cost_usd=cost)
    lines: list[Said] = [Line(calls=(call("look", at=number),), usage=usage) for number in range(rounds)]
    one = Lone([*lines, Line("What I have.", usage=usage)], TOOLS, limits)
    report = await one.run()
    assert (report.status, report.limit, report.text) == (RecordStatus.LIMIT_REACHED, name, "What I have.")
    last = one.scripted.asks[-1]
    assert [ask.tool_choice for ask in one.scripted.asks[-2:]] == ["auto", "none"]
    assert all(ask.tools == last.tools for ask in one.scripted.asks), "what is cached stays as it is"
    assert len(one.scripted.asks) == rounds + 1
    (landing,) = [fact for fact in one.facts(BudgetWarned) if fact.landing]
    assert landing.limit == name and one.heard()[-1] == landing.message and "your last reply" in landing.message
    outcome = outcome_of(report)
    wanted = FailureReason.BUDGET_EXHAUSTED if name in ("cost_usd", "total_tokens") else FailureReason.LIMIT_REACHED
    assert (outcome.reason, outcome.answer, outcome.accepted) == (wanted, "What I have.", None)


@pytest.mark.parametrize("limits", [Limits(total_tokens=12_000), Limits(input_tokens=12_000), Limits(cost_usd=0.12)])
async def test_the_question_that_uses_a_small_limit_up_is_the_last_one(limits: Limits) -> None:
    usage = Usage(input_tokens=4_200, output_tokens=60, model_calls=1, cost_usd=0.042)
    lines: list[Said] = [Line(calls=(call("look", at=number),), usage=usage) for number in range(2)]
    one = Lone([*lines, Line("What I have.", usage=usage)], TOOLS, limits)
    report = await one.run()
    assert (report.status, report.text) == (RecordStatus.LIMIT_REACHED, "What I have.")
    assert [ask.tool_choice for ask in one.scripted.asks] == ["auto", "auto", "none"]


KINDS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "total_tokens", "cost_usd")


@pytest.mark.parametrize(
    ("kind", "own"),
    [(kind, own) for kind in KINDS for own in (False, True) if not own or kind in AgentLimits.model_fields],
)
async def test_the_last_reply_has_its_room_under_every_limit(kind: str, own: bool) -> None:
    """`own`: the limit is in the agent's file. The last request and its reply fit, except for part of one call."""
    allowed = {"reasoning_tokens": 30_000, "output_tokens": 30_000, "cost_usd": 2}.get(kind, 100_000)
    spent = Usage(
        input_tokens=5_000,
        cached_input_tokens=4_800,
        output_tokens=3_000,
        reasoning_tokens=2_500,
        model_calls=1,
        cost_usd=0.1,
    )
    lines: list[Said] = [Line(calls=(call("look", at=number),), usage=spent) for number in range(50)]
    limits = {"own": AgentLimits(**{kind: allowed})} if own else {"limits": Limits.model_validate({kind: allowed})}
    one = Lone(lines, TOOLS, **limits)
    report = await one.run()
    assert (report.cause, report.limit) == (Cause.LIMIT, kind)
    assert allowed / 2 < getattr(report.usage, kind) < allowed + getattr(spent, kind)
    assert [ask.tool_choice for ask in one.scripted.asks[-2:]] == ["auto", "none"]


class Slow:
    """A model that calls a tool twice, then hangs until its time is up; in its last reply it answers."""

    name = "slow/model"

    def __init__(self) -> None:
        self.now = 0.0
        self.given: list[float] = []

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        self.given.append(ask.seconds)
        if ask.tool_choice == "none":
            return Reply((TextBlock(text="What I have."),))
        if len(self.given) < 3:
            self.now += 100.0
            return Reply((WantedCall("look", {"at": len(self.given)}),), "tool_calls")
        self.now += ask.seconds
        listener.billed(Usage(input_tokens=7, model_calls=1))
        raise AskLater("It did not finish.", 60.0)


async def test_a_call_ends_in_time_for_the_last_reply() -> None:
    model, journal = Slow(), MemoryJournal(ORDER)
    definition = AgentDefinition(name="master", prompt="You work.")
    budget = Budget(Limits(wall_seconds=600), clock=lambda: model.now)
    agent = AgentRuntime(definition, model=model, tools=TOOLS)
    report = await agent.run(Task("Go.", root_record_id(ORDER)), Turn.begun(journal, budget))
    assert (report.cause, report.limit, report.text) == (Cause.LIMIT, "wall_seconds", "What I have.")
    assert [round(seconds) for seconds in model.given] == [601, 440, 340, 61]
    assert report.usage.input_tokens == 7
    record = journal.fold.record()
    assert record is not None and record.answer == "What I have."


async def test_a_tool_called_in_the_last_reply_does_not_run_and_ends_it() -> None:
    one = Lone([work(number) for number in range(9)], TOOLS, Limits(rounds=2))
    report = await one.run()
    assert (report.limit, len(one.facts(ModelReplied))) == ("rounds", 3)
    assert [step.outcome for step in one.record().steps if step.kind == "tool"] == ["ok", "ok", "denied"]


async def test_a_gate_still_takes_a_result_and_keeps_one_that_it_refuses() -> None:
    good = Line(calls=(call("submit_result", status="completed", summary="Half is green."),))
    one = Lone([work(1), good], TOOLS, Limits(rounds=1), gate=ReportGate())
    handed_in = await one.run()
    assert handed_in.completed and outcome_of(handed_in).accepted is True
    first, last = one.scripted.asks
    assert last.tools == first.tools and last.tool_choice == "auto", "it may still hand in its result"
    bad = Line(calls=(call("submit_result", status="completed", summary="Half.", findings="none"),))
    one = Lone([work(1), bad, good], TOOLS, Limits(rounds=1), gate=ReportGate(REPORT_NAME))
    report = await one.run()
    assert (report.status, report.limit, report.text) == (RecordStatus.LIMIT_REACHED, "rounds", "Half.")
    assert isinstance(report.result, dict) and report.result["findings"] == "none"
    outcome = outcome_of(report)
    assert (outcome.result, outcome.accepted) == (report.result, False)


@pytest.mark.parametrize("last", [ModelError("It is away."), Line("Ha", finish_reason="length"), Line()], ids=str)
async def test_whatever_the_last_reply_is_the_limit_is_why_it_ended(last: Said) -> None:
    one = Lone([Line("So far.", calls=(call("look", at=1),)), last], TOOLS, Limits(rounds=1))
    report = await one.run()
    assert (report.cause, report.limit) == (Cause.LIMIT, "rounds") and report.text in ("So far.", "Ha")


async def test_who_has_said_nothing_yet_has_nothing_to_land_with() -> None:
    one = Lone(["Done."], TOOLS, Limits(rounds=1))
    assert (await one.run()).completed and not any(fact.landing for fact in one.facts(BudgetWarned))


def test_reasoning_is_not_counted_in_what_a_child_may_write() -> None:
    def child(depth: int) -> Allowance:
        limits = Limits(subagent_output_tokens=20_000, output_tokens=1_000_000)
        state = RecordState(Origin(record_id="r", depth=depth), rounds=3)
        state.spending.spent = Usage(output_tokens=60_000, reasoning_tokens=55_000)
        return Allowance(Budget(limits), Share.of(limits, AgentLimits(output_tokens=20_000), depth), state)

    assert child(1)._written == 5_000
    assert child(0)._written == 60_000
    assert child(1)._reply_tokens() == REPLY_TOKENS


async def test_another_drone_lands_the_same() -> None:
    lines: list[Said] = [work(1), work(2), work(3), "What I have."]
    whole, first, asked = await _run(lines, MemoryJournal(ORDER))
    assert whole.text == "What I have." and asked[-1][1] == "none"
    for cut in range(1, len(first.entries)):
        left = first.entries[:cut]
        replies = sum(entry.kind == "model.replied" for entry in left)
        journal = MemoryJournal(ORDER, entries=left)
        journal.texts.update(first.texts)
        again, _, asks = await _run(lines[replies:], journal, Tree.of(left))
        assert (again.status, again.text, again.limit) == (whole.status, whole.text, whole.limit), cut
        assert asks == asked[replies:], cut


async def _run(
    lines: Sequence[Said], journal: MemoryJournal, tree: Tree | None = None
) -> tuple[Report, MemoryJournal, list[tuple[list[str], str]]]:
    model = ScriptedModel(lines)
    definition = AgentDefinition(name="master", prompt="You work.")
    agent = AgentRuntime(definition, model=model, tools=TOOLS, limits=Limits(rounds=3))
    report = await agent.run(Task("Go.", root_record_id(ORDER)), agent.turn(journal, tree))
    return (
        report,
        journal,
        [([getattr(said, "text", "") for said in ask.messages], ask.tool_choice) for ask in model.asks],
    )

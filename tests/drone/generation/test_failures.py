"""Failing nodes: what the document keeps, how the order ends, and which other nodes continue."""

import asyncio
from collections.abc import Callable

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import ModelError
from drone.generation.library import generate
from drone.models.offline import OfflineModel
from drone.models.scripted import Line, Said, call
from mcc.contracts.generation import LIMITS, Quorum
from mcc.contracts.journal import AgentFinished, AgentStarted
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.documents.blueprint import Blueprint
from tests.drone.generation.holding import Document
from tests.drone.generation.world import COURSE, Node, course, diligent, done, played


def but(wrong: Callable[[Node], Said | None], lessons: int = 4) -> Callable[[Node], Said]:
    """Diligent agents, except where `wrong` gives another reply."""
    return lambda node: wrong(node) or diligent(node, lessons=lessons)


def stubborn(*paths: str) -> Callable[[Node], Said]:
    """Agents of these nodes always set minutes that break their rule."""
    return but(lambda node: done(call("set_value", values={"minutes": 42})) if node.path in paths else None)


async def test_a_node_that_does_not_pass_is_told_as_failed_with_the_values_of_its_last_attempt() -> None:
    document = Document(course())
    report = await generate(document, model=played(stubborn("/lesson-2")))
    node = document.node("/lesson-2")
    assert node.props["minutes"] == 42 and document.status("/lesson-2") == "failed"
    assert node.failure is not None and node.failure.reason == "gate_failed"
    assert [error["rule"] for error in node.failure.errors] == ["props.minutes.rules[0]", "children.activity.min"]
    assert node.failure.record_id is not None
    assert report.failed == ("/lesson-2",)


async def test_others_go_on_and_the_order_says_how_many_are_not_done() -> None:
    document = Document(course())
    report = await generate(document, model=played(stubborn("/lesson-2")))
    outcome = report.outcome
    assert (outcome.status, outcome.reason) == (OrderStatus.FAILED, FailureReason.GATE_FAILED)
    assert outcome.detail is not None
    assert outcome.detail.startswith("1 of 8 nodes is not done: /lesson-2: the result was refused 5 times: ")
    assert outcome.accepted is False
    assert outcome.result["failed"] == ["/lesson-2"] and outcome.result["counts"]["done"] == 7
    assert outcome.result["version"] == document.state.version


async def test_an_agent_that_gives_up_leaves_the_rules_that_do_not_hold() -> None:
    never = {"cel": "value == null || (value > 10.0 && value < 5.0)", "message": "Never."}
    fields = {"n": {"type": "number", "required": True, "rules": [never]}}
    blueprint = {"blueprint": "never", "root": "never", "components": {"never": {"properties": fields}}}
    document = Document(Blueprint.load(blueprint))
    outcome = (await generate(document, model=OfflineModel())).outcome
    failure = document.node("/").failure
    assert failure is not None and failure.reason == "gate_failed"
    assert [error["rule"] for error in failure.errors] == ["props.n.rules[0]"]
    assert outcome.reason is FailureReason.GATE_FAILED
    assert outcome.detail == "1 of 1 node is not done: /: its agent gave up; props.n: Never."


async def test_what_hangs_below_a_failed_node_is_left() -> None:
    document = Document(course())
    first = await generate(document, model=played(lambda node: diligent(node)))
    assert first.ok
    document.dispatch({"command": "set_metadata", "node": "/lesson-1", "values": {"focus": "Colours"}})
    report = await generate(document, model=played(stubborn("/lesson-1")))
    agents = [one.data.node for one in report.journal.entries if isinstance(one.data, AgentStarted)]
    assert agents == [None, "/lesson-1"]
    assert report.failed == ("/lesson-1",)
    assert (report.error or "").endswith("What is below was left: 1 node.")
    assert document.status("/lesson-1/activity-1") == "stale"


async def test_a_failed_node_is_tried_again_by_its_name() -> None:
    document = Document(course())
    await generate(document, model=played(stubborn("/lesson-2")))
    report = await generate(document, model=played(), nodes=["/lesson-2"])
    assert report.ok, report.error
    assert set(document.statuses.values()) == {"done"}
    assert document.node("/lesson-2").failure is None


@pytest.mark.parametrize(("share", "status"), [(0.8, OrderStatus.SUCCEEDED), (0.9, OrderStatus.FAILED)])
async def test_a_quorum_is_enough(share: float, status: OrderStatus) -> None:
    report = await generate(Document(course()), model=played(stubborn("/lesson-2")), on_failure=Quorum(quorum=share))
    assert report.outcome.status is status
    assert report.failed == ("/lesson-2",)
    assert (report.outcome.detail or "").startswith("1 of 8 nodes is not done")


async def test_the_first_failure_stops_all_others_where_that_is_asked() -> None:
    reached = asyncio.Event()

    async def play(node: Node) -> Said:
        if node.path == "/lesson-1":
            await reached.wait()
            raise ModelError("It is gone.")
        if node.component == "lesson":
            reached.set()
            await asyncio.Event().wait()
        return diligent(node, lessons=4)

    document = Document(course())
    report = await generate(document, model=played(play), concurrency=3, on_failure="fail_fast")  # type: ignore[arg-type]
    assert report.outcome.reason is FailureReason.GATE_FAILED
    assert (report.error or "").startswith("/lesson-1 failed, and the order asks to stop then.")
    begun = [one.data.node for one in report.journal.entries if isinstance(one.data, AgentStarted)]
    assert "/lesson-4" not in begun, "who waited for a place never began"
    ends = [one.data.status for one in report.journal.entries if isinstance(one.data, AgentFinished)]
    assert ends.count(RecordStatus.CANCELLED) == 2
    assert document.status("/lesson-2") == "pending", "nobody failed there"


async def test_an_order_whose_nodes_are_not_done_has_failed_its_gate_whatever_kept_them_from_it() -> None:
    def gone(node: Node) -> Said:
        return ModelError("The provider is gone.") if node.component == "activity" else diligent(node)

    document = Document(course())
    report = await generate(document, model=played(gone))
    assert report.outcome.reason is FailureReason.GATE_FAILED
    assert "2 of 5 nodes are not done" in (report.error or "") and "The provider is gone" in (report.error or "")
    failure = document.node("/lesson-1/activity-1").failure
    assert failure is not None and failure.reason == "model_error"


async def test_the_orders_own_budget_ends_everything_and_says_so() -> None:
    def dear(node: Node) -> Said:
        said = diligent(node, lessons=8)
        assert isinstance(said, Line)
        return Line(calls=said.calls, usage=Usage(input_tokens=10, output_tokens=3_000))

    limits = Limits.model_validate({**LIMITS, "concurrency": 2, "output_tokens": 10_000})
    document = Document(course())
    report = await generate(document, model=played(dear), limits=limits)
    assert report.outcome.reason is FailureReason.LIMIT_REACHED
    assert (report.error or "").startswith("The limit output_tokens (10000) is reached. ")
    assert report.usage.output_tokens <= 10_000 + 2 * 3_000
    record = report.journal.fold.record()
    assert record is not None and record.status == "limit_reached"


@pytest.mark.parametrize(("allowed", "ends"), [(0.9, False), (0.02, True)])
async def test_a_generation_goes_on_until_its_money_is_spent(allowed: float, ends: bool) -> None:
    def priced(node: Node) -> Said:
        said = diligent(node)
        assert isinstance(said, Line)
        return Line(calls=said.calls, usage=Usage(input_tokens=10, output_tokens=10, cost_usd=0.01))

    limits = Limits.model_validate({**LIMITS, "concurrency": 1, "cost_usd": allowed})
    report = await generate(Document(course()), model=played(priced), limits=limits)
    assert report.ok is not ends, report.error
    assert (report.outcome.reason is FailureReason.BUDGET_EXHAUSTED) is ends
    assert report.usage.cost_usd is not None and (report.usage.cost_usd > 0.02) is not ends


async def test_no_more_agents_than_spawns() -> None:
    limits = Limits.model_validate({**LIMITS, "concurrency": 1, "spawns": 3})
    report = await generate(Document(course()), model=played(), limits=limits)
    assert report.outcome.reason is FailureReason.LIMIT_REACHED
    assert (report.error or "").startswith("The limit spawns (3) is reached.")


async def test_rules_that_break_are_failures_and_never_stop_the_drone() -> None:
    text = COURSE.replace("cel: value == null || value % 5 == 0", "cel: 1 / (value - value) == 1")
    document = Document(course(text))
    report = await generate(document, model=played())
    assert report.outcome.reason is FailureReason.GATE_FAILED
    assert document.status("/lesson-1") == "failed"


async def test_unknown_properties_and_wrong_kinds_are_told_to_the_model() -> None:
    def clumsy(node: Node) -> Said:
        if node.component != "lesson":
            return diligent(node)
        wrong = (
            call("set_value", values={"minute": 45}),
            call("set_value", values={"minutes": "many"}),
            call("set_value", values={"headline": "Mine"}),
            call("set_value", values={"minutes": 45}, node="/"),
            call("set_value", values={}),
            call("add_child", component="lesson"),
            call("add_child", component="activity", values={"text": "Not yours to say."}),
            call("remove_child", node="/lesson-2"),
        )
        return diligent(node) if node.replies else Line(calls=wrong)

    document, model = Document(course()), played(clumsy)
    report = await generate(document, model=model)
    assert report.ok, report.error
    told = [one.data for one in report.journal.entries if getattr(one.data, "is_error", False)]
    said = " ".join(fact.content for fact in told)  # type: ignore[attr-defined]
    assert len(told) == 2 * 8
    for word in ("minute", "did you mean", "This must be a number", "headline", "has no argument 'node'", "lesson"):
        assert word in said, word


async def test_a_journal_of_a_cancelled_generation_has_no_open_end() -> None:
    journal = MemoryJournal("0199a3c0-0000-7000-8000-000000000000")
    stuck = asyncio.Event()

    async def play(node: Node) -> Said:
        if node.component == "lesson":
            stuck.set()
            await asyncio.Event().wait()
        return diligent(node)

    document = Document(course())
    task = asyncio.create_task(generate(document, model=played(play), journal=journal))  # type: ignore[arg-type]
    await asyncio.wait({task, asyncio.create_task(stuck.wait())}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert document.status("/lesson-1") == "pending"

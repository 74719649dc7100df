"""Function rules in a generation: run in threads on the committed document; a missing one is no pass."""

import pytest

from drone.generation.library import generate
from drone.generation.outline import OrderParked
from drone.models.scripted import Said, call
from mcc.contracts.status import FailureReason, WaitingReason
from mcc.documents.functions import ReadOnlyNode, function
from tests.drone.generation.holding import Document
from tests.drone.generation.test_controls import Running
from tests.drone.generation.world import COURSE, Node, course, diligent, done, played

LESSON = COURSE.replace("    children: {activity", "    rules: [{function: even_hours}]\n    children: {activity", 1)
WHOLE = COURSE.replace("    children: {lesson", "    rules: [{function: minutes_differ}]\n    children: {lesson", 1)


@function("even_hours")
def even_hours(node: ReadOnlyNode) -> str | None:
    return None if (node.props["minutes"] or 0) % 20 == 0 else "The minutes are no multiple of 20."


@function("minutes_differ")
def minutes_differ(node: ReadOnlyNode) -> str | None:
    minutes = [child.props["minutes"] for child in node.children if child.props["minutes"] is not None]
    return None if len(set(minutes)) == len(minutes) else "Two lessons are equally long."


async def test_a_function_is_asked_at_the_gate_and_the_agent_mends_what_it_says() -> None:
    def play(node: Node) -> Said:
        if node.component == "lesson":
            made = [] if node.has_children or node.replies else [call("add_child", component="activity")]
            return done(call("set_value", values={"minutes": 45 if not node.replies else 40}), *made)
        return diligent(node)

    document, model = Document(course(LESSON)), played(play)
    report = await generate(document, model=model)
    assert report.ok, report.error
    assert document.node("/lesson-1").props["minutes"] == 40
    (verdict,) = [one for one in document.node("/lesson-1").verdicts if one.kind == "function"]
    assert verdict.ok is True


async def test_what_a_function_says_of_the_whole_counts_when_all_is_made() -> None:
    document = Document(course(WHOLE))
    report = await generate(document, model=played())
    assert report.outcome.reason is FailureReason.GATE_FAILED
    assert report.failed == ("/",)
    assert "Two lessons are equally long." in (report.error or "")


async def test_without_the_function_nothing_is_spent_and_nothing_passes() -> None:
    document, model = Document(course(LESSON)), played()
    report = await generate(document, model=model, functions={})
    assert report.outcome.reason is FailureReason.INVALID
    assert "functions that are not registered here: even_hours" in (report.error or "")
    assert not model.asks


async def test_an_order_waits_for_a_drone_that_has_the_function() -> None:
    model = played()
    run = Running(Document(course(LESSON)), model)
    with pytest.raises(OrderParked) as raised:
        await run.start()
    block = raised.value.block
    assert block.reason is WaitingReason.FUNCTION and block.until is not None
    assert "even_hours" in block.message
    assert not model.asks


async def test_a_function_that_breaks_is_a_failure_with_its_words() -> None:
    def broken(node: ReadOnlyNode) -> None:
        raise ValueError("No minutes here.")

    document = Document(course(LESSON))
    report = await generate(document, model=played(), functions={"even_hours": broken})
    assert report.outcome.reason is FailureReason.GATE_FAILED
    assert "No minutes here." in (report.error or "")

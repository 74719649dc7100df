"""The walk over a document: which agents run, in which order, how many at a time, and what is skipped."""

import asyncio
from collections import Counter

from drone.agent.ports.journal import MemoryJournal
from drone.generation.library import generate
from drone.models.scripted import Line, Said, call
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from mcc.contracts.wire import GenerationProgress
from tests.drone.generation.holding import Document
from tests.drone.generation.world import COURSE, Node, course, diligent, done, played


def started(journal: MemoryJournal) -> list[tuple[str, str]]:
    """Agent and node of each record below the generator's, in the order of their start."""
    facts = ((one.agent or "", one.data) for one in journal.entries)
    return [(agent, fact.node or "") for agent, fact in facts if isinstance(fact, AgentStarted) and fact.node]


async def test_a_document_is_made_from_the_root_down() -> None:
    document = Document(course())
    report = await generate(document, model=played())
    assert report.ok and report.counts.done == 5
    agents = started(report.journal)
    assert agents[:2] == [("course/course:metadata", "/"), ("course/course", "/")]
    assert {agent for agent, _ in agents[2:4]} == {"course/lesson"}
    assert {agent for agent, _ in agents[4:]} == {"course/activity"}


async def test_metadata_that_is_there_has_no_agent() -> None:
    report = await generate(Document(course(), {"topic": "Light"}), model=played())
    assert not [agent for agent, _ in started(report.journal) if agent.endswith(":metadata")]


async def test_records_of_nodes_are_flat_below_the_generator_that_asks_no_model() -> None:
    report = await generate(Document(course()), model=played())
    record = report.journal.fold.record()
    assert record is not None and record.agent == "generator" and record.model is None
    assert record.status is RecordStatus.COMPLETED and record.answer == "5 nodes done."
    assert {child.depth for child in record.subagent_history} == {1}
    assert not any(child.subagent_history for child in record.subagent_history)
    assert len(record.subagent_history) == 6


async def test_what_is_done_is_skipped_and_counted_in_one_step() -> None:
    document = Document(course())
    await generate(document, model=played())
    document.dispatch({"command": "set_value", "node": "/lesson-2", "values": {"minutes": 42}})
    document.dispatch({"command": "release", "node": "/lesson-2"})
    model = played()
    report = await generate(document, model=model)
    assert report.ok, report.error
    assert started(report.journal) == [("course/lesson", "/lesson-2")]
    steps = [one.data for one in report.journal.entries if isinstance(one.data, AgentStep)]
    assert [(step.name, step.message) for step in steps] == [("nodes_skipped", "4 nodes skipped: nothing to do there")]


async def test_nothing_to_do_is_a_success_without_an_agent() -> None:
    document = Document(course())
    await generate(document, model=played())
    model = played()
    report = await generate(document, model=model)
    assert report.ok and not model.asks
    assert report.outcome.answer == "Nothing was pending, stale or failed."


async def test_a_changed_input_lets_those_work_again_who_were_told_of_it() -> None:
    document = Document(course())
    await generate(document, model=played())
    document.dispatch({"command": "set_metadata", "node": "/lesson-1", "values": {"focus": "Colours"}})
    report = await generate(document, model=played())
    assert report.ok, report.error
    assert started(report.journal) == [
        ("course/lesson", "/lesson-1"),
        ("course/activity", "/lesson-1/activity-1"),
    ]


async def test_named_nodes_are_generated_with_what_they_make_and_nothing_else() -> None:
    document = Document(course(), {"topic": "Light"})
    document.dispatch({"command": "set_value", "node": "/", "values": {"title": "All about light"}})
    for focus in ("One", "Two"):
        document.dispatch({"command": "add_child", "node": "/", "component": "lesson", "metadata": {"focus": focus}})
    report = await generate(document, model=played(), nodes=["/lesson-2"])
    assert report.ok, report.error
    assert [path for _, path in started(report.journal)] == ["/lesson-2", "/lesson-2/activity-1"]
    assert document.status("/lesson-1") == "pending"


async def test_a_node_that_is_not_there_is_said() -> None:
    report = await generate(Document(course()), model=played(), nodes=["/lesson-9"])
    assert not report.ok and report.outcome.reason == "invalid"
    assert report.error == "There is no node '/lesson-9' in this document."


async def test_agents_beyond_the_cap_wait_their_turn() -> None:
    at_work, most = 0, 0

    async def slow(node: Node) -> Said:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        at_work -= 1
        return diligent(node, lessons=8)

    report = await generate(Document(course()), model=played(slow), concurrency=3)  # type: ignore[arg-type]
    assert report.ok and most == 3


async def test_an_agent_has_what_its_component_says() -> None:
    text = COURSE.replace(
        "agent: {max_turns: 6}",
        "agent: {max_turns: 2, temperature: 0.9, max_tokens: 321, thinking: low, system: You teach.}",
    )
    never = played(lambda node: diligent(node) if node.component == "course" else Line(calls=(call("validate"),)))
    document = Document(course(text))
    report = await generate(document, model=never)
    asks = [ask for ask in never.asks if ask.system.startswith("You teach.")]
    assert {(ask.temperature, ask.max_output_tokens, ask.thinking) for ask in asks} == {(0.9, 321, "low")}
    assert not report.ok
    failure = document.node("/lesson-1").failure
    assert failure is not None and failure.message == "the limit rounds (2) is reached"


async def test_the_order_may_allow_fewer_turns_than_a_component_asks_for() -> None:
    never = played(lambda node: diligent(node) if node.component == "course" else Line(calls=(call("validate"),)))
    document = Document(course())
    await generate(document, model=never, limits=Limits(subagent_rounds=3, tool_calls=1_000))
    failure = document.node("/lesson-1").failure
    assert failure is not None and failure.message == "the limit rounds (3) is reached"


async def test_without_validation_done_is_enough() -> None:
    text = COURSE.replace("agent: {max_turns: 6}", "agent: {validate: false}").replace(
        "children: {activity", "rules: [{guideline: Be kind.}]\n    children: {activity"
    )
    lazy = played(
        lambda node: (
            diligent(node)
            if node.component != "lesson"
            else done(call("set_value", values={"minutes": 42}), call("add_child", component="activity"))
        )
    )
    document = Document(course(text))
    report = await generate(document, model=lazy)
    assert report.ok, report.error
    assert {one.ok for one in document.node("/lesson-1").verdicts} == {None}
    assert not any("Be kind." in ask.system for ask in lazy.asks)


async def test_a_node_hands_up_a_summary_and_not_its_values() -> None:
    document = Document(course())
    report = await generate(document, model=played())
    assert document.node("/").summary == "A course."
    ends = [one.data for one in report.journal.entries if isinstance(one.data, AgentFinished)]
    assert {end.answer for end in ends} == {"A course.", "It is done.", "5 nodes done."}
    assert [end.result for end in ends if end.answer != "5 nodes done."] == [None] * 6


async def test_what_the_order_says_is_read_by_all_agents_and_kept() -> None:
    document, model = Document(course()), played()
    await generate(document, model=model, brief="For children who are deaf.")
    assert all("For children who are deaf." in ask.messages[0].text for ask in model.asks)  # type: ignore[union-attr]
    assert document.state.brief == "For children who are deaf."
    again = played()
    assert (await generate(document, model=again)).ok and not again.asks


async def test_progress_is_told_four_times_a_second_at_most_and_at_the_end() -> None:
    seen: list[GenerationProgress] = []
    journal = MemoryJournal(fresh_id(), see=seen.append)
    await generate(Document(course()), model=played(), journal=journal)
    assert 1 <= len(seen) <= 4
    assert (seen[-1].done, seen[-1].running, seen[-1].pending) == (5, 0, 0)


async def test_agents_of_nodes_cannot_delegate() -> None:
    model = played()
    await generate(Document(course()), model=model)
    names = Counter(spec.name for ask in model.asks for spec in ask.tools)
    assert names.keys() == {"set_metadata", "set_value", "add_child", "remove_child", "move_child", "done", "validate"}

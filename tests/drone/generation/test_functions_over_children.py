"""A function rule that names nodes below its own: their agents run again with what it says, at most twice."""

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.generation.library import generate
from drone.models.scripted import Said, call
from mcc.contracts.journal import AgentStarted
from mcc.contracts.status import FailureReason
from mcc.documents.functions import ReadOnlyNode, function
from mcc.store.documents.node_json import NodeReader, node_json
from tests.drone.generation.holding import Document
from tests.drone.generation.test_going_on import Noted, begun, left_after, replies, version_after
from tests.drone.generation.world import COURSE, Node, course, diligent, done, played

RULE = "    rules: [{function: lengths_differ}]\n"
BLUEPRINT = course(
    COURSE.replace("    children: {lesson", f"{RULE}    children: {{lesson", 1).replace(
        "Lesson {position} on {metadata.focus}.", "Lesson {position}, {props.minutes} minutes."
    )
)


@function("lengths_differ")
def lengths_differ(node: ReadOnlyNode) -> dict[str, str]:
    """Every lesson but the first of its length is to get another one."""
    seen: set[int] = set()
    wrong: dict[str, str] = {}
    for child in node.children:
        minutes = child.props["minutes"]
        if minutes is not None and minutes in seen:
            wrong[child.path] = f"An earlier lesson takes {minutes} minutes too; take {minutes - 5}."
        seen.add(minutes)
    return wrong


def obedient(node: Node) -> Said:
    if node.component == "lesson" and "An earlier lesson takes 45 minutes too; take 40." in node.task:
        return done(call("set_value", values={"minutes": 40}))
    return diligent(node)


def asked(journal: MemoryJournal) -> list[str]:
    """The titles of the agents' records, in the order of their beginnings."""
    return [one.data.title for one in journal.entries if isinstance(one.data, AgentStarted) and one.parent_id]


async def test_the_agent_that_it_names_runs_again_and_then_those_below_it() -> None:
    document = Document(BLUEPRINT)
    report = await generate(document, model=played(obedient))
    assert report.ok, report.error
    assert [document.node(path).props["minutes"] for path in ("/lesson-1", "/lesson-2")] == [45, 40]
    assert asked(report.journal)[-2:] == ["/lesson-2, again", "/lesson-2/activity-1, again"]
    assert sum("again" in title for title in asked(report.journal)) == 2
    assert set(document.statuses.values()) == {"done"}
    record = report.record
    assert record is not None and len(record.subagent_history) == len(asked(report.journal))
    again = next(child for child in record.subagent_history if child.title == "/lesson-2, again")
    assert "# What you are to change here, and nothing else" in again.prompt
    assert "- An earlier lesson takes 45 minutes too; take 40." in again.prompt


async def test_what_is_not_mended_is_asked_for_twice_and_ends_with_its_words() -> None:
    document = Document(BLUEPRINT)
    report = await generate(document, model=played())
    assert report.outcome.reason is FailureReason.GATE_FAILED and report.failed == ("/",)
    assert "/lesson-2: An earlier lesson takes 45 minutes too" in (report.error or "")
    assert asked(report.journal).count("/lesson-2, again") == 2
    (verdict,) = [one for one in document.node("/").verdicts if one.kind == "function"]
    assert verdict.ok is False and [text[:10] for _, text in verdict.below] == ["An earlier"]


async def test_a_later_generation_asks_the_one_who_can_mend_it_and_not_the_agent_of_the_node_itself() -> None:
    document = Document(BLUEPRINT)
    await generate(document, model=played())
    report = await generate(document, model=played(obedient))
    assert report.ok, report.error
    assert asked(report.journal) == ["/lesson-2, again", "/lesson-2/activity-1, again"]


async def test_the_agent_of_the_node_itself_is_done_although_the_rule_is_broken() -> None:
    document = Document(BLUEPRINT)
    await generate(document, model=played())
    document.dispatch({"command": "set_metadata", "node": "/", "values": {"topic": "Sound"}})
    report = await generate(document, model=played(), nodes=["/"])
    root = next(record for record in ((report.record and report.record.subagent_history) or ()) if record.title == "/")
    assert root.status == "completed"
    assert not any("again" in title for title in asked(report.journal)), "a node that nobody asked for was worked on"


@pytest.mark.parametrize("command", ["accept", "release"])
async def test_values_that_people_hold_stay_as_they_are(command: str) -> None:
    document = Document(BLUEPRINT)
    await generate(document, model=played())
    document.dispatch({"command": "accept", "node": "/lesson-2", "fields": ["props.minutes"]})
    document.dispatch({"command": command, "node": "/lesson-2", "fields": ["props.minutes"]})
    report = await generate(document, model=played(obedient))
    assert document.node("/lesson-2").props["minutes"] == (45 if command == "accept" else 40)
    assert report.ok is (command == "release")


async def test_it_goes_on_after_any_commit_and_asks_for_nothing_twice() -> None:
    noted = Noted()
    document = Document(BLUEPRINT)
    first = await generate(document, model=played(obedient), journal=noted)
    assert first.ok, first.error
    further = next(one.seq for one in noted.entries if isinstance(one.data, AgentStarted) and "again" in one.data.title)
    # Not after the last one, which ends the record: verdicts, which no entry tells of, are part of the document then.
    for cut in (commit for commit in noted.commits[:-1] if commit >= further - 3):
        left = document.at(version_after(first.journal, document, cut))
        journal = left_after(first.journal, cut)
        second = await generate(left, model=played(obedient), journal=journal)
        assert second.ok, (cut, second.error)
        assert begun(journal) == begun(first.journal), cut
        assert replies(journal) == replies(first.journal), cut
        assert left.statuses == document.statuses, cut


async def test_its_verdict_is_read_back_as_it_was_written() -> None:
    document = Document(BLUEPRINT)
    await generate(document, model=played())
    for node in document.state.walk():
        assert NodeReader().node(node_json(node)).verdicts == node.verdicts

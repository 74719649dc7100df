"""Outline first: the structure is made and approved by a person before the rest is generated."""

import re

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.generation.outline import OrderParked
from drone.models.scripted import Said, call
from mcc.contracts.entry import Origin
from mcc.contracts.generation import Generation
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested
from mcc.contracts.journal import AgentStarted, DocumentChanged
from mcc.contracts.status import OrderStatus, WaitingReason
from tests.drone.generation.holding import Document
from tests.drone.generation.test_controls import Running
from tests.drone.generation.world import Node, course, diligent, done, played

ASKED = Generation(outline=True)


def play(node: Node) -> Said:
    """Outline agents, which have no `set_value`, make children; all others play `diligent`."""
    if node.is_metadata or "set_value" in node.tools:
        return diligent(node)
    if node.component == "course":
        made = [call("add_child", component="lesson", metadata={"focus": f"Part {n + 1}"}) for n in range(2)]
        return done(*made, summary="Two lessons.")
    return done(call("add_child", component="activity"))


def decided(journal: MemoryJournal, decision: str) -> MemoryJournal:
    """The journal of the order after a person's decision."""
    (asked,) = [one for one in journal.entries if isinstance(one.data, ApprovalRequested)]
    left = MemoryJournal(journal.order_id, entries=journal.entries)
    left.texts.update(journal.texts)
    fact = ApprovalDecided.model_validate(
        {"approval_id": asked.data.approval_id, "call_id": "", "decision": decision}  # type: ignore[attr-defined]
    )
    left.defer(Origin(record_id=asked.record_id, agent=asked.agent), fact)
    return left


async def outlined() -> Running:
    run = Running(Document(course()), played(play), asked=ASKED)
    with pytest.raises(OrderParked) as raised:
        await run.start()
    assert raised.value.block.reason is WaitingReason.APPROVAL
    return run


async def test_an_outline_is_structure_and_metadata_and_then_the_order_waits() -> None:
    run = await outlined()
    document = run.document
    assert list(document.statuses) == [
        "/", "/lesson-1", "/lesson-1/activity-1", "/lesson-2", "/lesson-2/activity-1"
    ]  # fmt: skip
    assert document.node("/lesson-1").metadata["focus"] == "Part 1"
    assert document.node("/").props["title"] is None and document.node("/lesson-1").props["minutes"] is None
    agents = {one.agent for one in run.journal.entries if isinstance(one.data, AgentStarted)}
    assert agents == {"generator", "course/course:metadata", "course/course:outline", "course/lesson:outline"}
    assert {fact.data.by for fact in run.journal.entries if isinstance(fact.data, DocumentChanged)} == {
        "metadata_agent",
        "outline",
    }
    (asked,) = [one.data for one in run.journal.entries if isinstance(one.data, ApprovalRequested)]
    assert re.fullmatch("sha256:[0-9a-f]{64}", asked.digest)


async def test_nobody_is_asked_twice() -> None:
    run = await outlined()
    model = played(play)
    again = Running(run.document, model, asked=ASKED, journal=run.journal)
    with pytest.raises(OrderParked):
        await again.start()
    assert not model.asks
    assert sum(isinstance(one.data, ApprovalRequested) for one in run.journal.entries) == 1


async def test_what_was_approved_is_held_and_all_else_is_made() -> None:
    run = await outlined()
    document = run.document
    document.dispatch({"command": "set_metadata", "node": "/lesson-2", "values": {"focus": "Noon"}})
    document.dispatch({"command": "add_child", "node": "/", "component": "lesson", "metadata": {"focus": "Night"}})
    document.dispatch({"command": "add_child", "node": "/lesson-3", "component": "activity"})

    def eager(node: Node) -> Said:
        if node.path == "/" and not node.replies:
            more = call("add_child", component="lesson", metadata={"focus": "One more"})
            return done(call("set_value", values={"title": "All about light"}), more)
        return play(node)

    model = played(eager)
    generated = await Running(document, model, asked=ASKED, journal=decided(run.journal, "approve")).start()
    assert generated.succeeded, generated.why
    assert [path for path in document.statuses if path.count("/") == 1] == ["/", "/lesson-1", "/lesson-2", "/lesson-3"]
    assert document.node("/lesson-2").metadata["focus"] == "Noon"
    assert set(document.statuses.values()) == {"done"}
    assert not any(node.conflicts for node in document.state.walk()), "what is made keeps to the outline"


async def test_an_outline_that_is_not_approved_ends_the_order() -> None:
    run = await outlined()
    model = played(play)
    again = Running(run.document, model, asked=ASKED, journal=decided(run.journal, "deny"))
    generated = await again.start()
    outcome = generated.outcome()
    assert outcome.status is OrderStatus.CANCELLED and (outcome.detail or "").startswith(
        "The outline was not approved."
    )
    assert not model.asks

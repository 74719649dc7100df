"""`ask_user`: the answer, the default after its time limit, and orders without people to ask."""

import asyncio
from typing import Any

import pytest

import drone
from drone.agent.ports.journal import MemoryJournal
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.asking import ASKING_TOOLS
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.approvals import AnyItem, NewAnswer, QuestionItem
from mcc.contracts.ids import root_record_id
from mcc.contracts.inbox_facts import QuestionAnswered, QuestionAsked
from mcc.contracts.journal import ToolFinished

ORDER = "order-1"


async def never(item: AnyItem) -> str:
    await asyncio.Event().wait()
    return ""


async def told(approver: Any, journal: MemoryJournal, again: bool = False, **asked: Any) -> ToolFinished:
    """What the call brought."""

    def author(ask: Any) -> Line:
        return Line(calls=(call("ask_user", question="Which?", **asked),)) if len(ask.messages) == 1 else Line("done")

    agent = drone.Agent(
        drone.AgentDefinition(name="master", prompt="You ask."),
        model=ScriptedModel(author),
        tools=FunctionTools(ASKING_TOOLS),
    )
    turn = agent.turn(journal, Tree.of(journal.entries) if again else None, approver)
    assert (await agent.run(Task("Go.", root_record_id(ORDER)), turn)).completed
    return next(entry.data for entry in journal.entries if isinstance(entry.data, ToolFinished))


def with_default(default: str | None) -> dict[str, Any]:
    return {"default": default} if default else {}


async def test_the_answer_is_the_result() -> None:
    items: list[AnyItem] = []

    def answer(item: AnyItem) -> NewAnswer:
        items.append(item)
        return NewAnswer(answer="b")

    done = await told(answer, MemoryJournal(ORDER), choices=["a", "b"], default="a")
    assert (done.content, done.is_error, done.untrusted) == ("b", False, False)
    [item] = items
    assert isinstance(item, QuestionItem)
    assert (item.question, item.choices, item.default, item.agent) == ("Which?", ("a", "b"), "a", "master")


@pytest.mark.parametrize(("default", "error"), [("a", False), (None, True)])
async def test_at_the_end_of_its_time_the_default_is_the_answer(default: str | None, error: bool) -> None:
    journal = MemoryJournal(ORDER)
    done = await told(never, journal, wait_seconds=1, **with_default(default))
    assert done.is_error is error and "Nobody answered in time" in done.content
    assert ("default counts: a" in done.content) is not error
    [answered] = [entry.data for entry in journal.entries if isinstance(entry.data, QuestionAnswered)]
    assert (answered.answer, answered.expired) == (default, True)


@pytest.mark.parametrize(("default", "content"), [("a", "a"), (None, "There is nobody to ask here.")])
async def test_where_nobody_can_be_asked_the_default_counts_at_once(default: str | None, content: str) -> None:
    done = await told(None, MemoryJournal(ORDER), **with_default(default))
    assert done.content.startswith(content) and done.is_error is (default is None)


async def test_a_turn_that_breaks_off_asks_no_second_time_what_was_answered() -> None:
    whole = MemoryJournal(ORDER)
    await told(lambda item: "b", whole)
    kinds = [entry.kind for entry in whole.entries]
    asked, answered = kinds.index("question.asked"), kinds.index("question.answered")
    for cut, answer in ((asked, "new"), (asked + 1, "new"), (answered + 1, "b")):
        journal = MemoryJournal(ORDER, entries=whole.entries[:cut])
        journal.texts.update(whole.texts)
        assert (await told(lambda item: "new", journal, again=True)).content == answer
        assert len([one for one in journal.entries if isinstance(one.data, QuestionAsked)]) == 1

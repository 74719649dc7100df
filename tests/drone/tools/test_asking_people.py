"""`ask_user`: one question or several, how each of them ends, and turns without people to ask."""

import asyncio
import json
from typing import Any

import pytest

import drone
from drone.agent.ports.journal import MemoryJournal
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.asking import ASKING_TOOLS
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.approvals import AnyItem, QuestionItem
from mcc.contracts.ids import root_record_id
from mcc.contracts.inbox_facts import QuestionAnswered, QuestionAsked
from mcc.contracts.journal import ToolFinished
from mcc.contracts.questions import NewAnswer

ORDER = "order-1"


async def never(item: AnyItem) -> str:
    await asyncio.Event().wait()
    return ""


async def told(approver: Any, journal: MemoryJournal, again: bool = False, **asked: Any) -> ToolFinished:
    """What the call brought, with these arguments; "Which?" is asked where they name no question."""
    asked = asked if "questions" in asked else {"question": "Which?", **asked}

    def author(ask: Any) -> Line:
        return Line(calls=(call("ask_user", **asked),)) if len(ask.messages) == 1 else Line("done")

    agent = drone.Agent(
        drone.AgentDefinition(name="master", prompt="You ask."),
        model=ScriptedModel(author),
        tools=FunctionTools(ASKING_TOOLS),
    )
    turn = agent.turn(journal, Tree.of(journal.entries) if again else None, approver)
    assert (await agent.run(Task("Go.", root_record_id(ORDER)), turn)).completed
    return next(entry.data for entry in journal.entries if isinstance(entry.data, ToolFinished))


def answers(done: ToolFinished) -> list[dict[str, Any]]:
    """The answers in the result of a call, which is never an error."""
    assert not done.is_error and not done.untrusted
    (content,) = json.loads(done.content).items()
    assert content[0] == "answers"
    return list(content[1])


def ended(status: str, answer: str | None = None, id: str = "1", by: str | None = None) -> dict[str, Any]:
    return {"id": id, "status": status, "answer": answer, "by": by}


THREE: list[dict[str, Any]] = [
    {"id": "db", "question": "Which database?", "choices": ["SQLite", "PostgreSQL"], "free": False},
    {"id": "port", "question": "Which port?", "default": "8420"},
    {"id": "name", "question": "What is it called?"},
]


async def test_the_answer_is_the_result() -> None:
    items: list[AnyItem] = []

    def answer(item: AnyItem) -> NewAnswer:
        items.append(item)
        return NewAnswer(answer="b")

    done = await told(answer, MemoryJournal(ORDER), choices=["a", "b"], default="a")
    assert answers(done) == [ended("answered", "b")]
    [item] = items
    assert isinstance(item, QuestionItem)
    assert (item.question, item.choices, item.default, item.agent) == ("Which?", ("a", "b"), "a", "master")
    assert item.expires_at is None, "without a deadline of its own it has none"


async def test_several_questions_are_one_item_and_each_has_its_answer() -> None:
    journal = MemoryJournal(ORDER)
    done = await told(lambda item: {"name": "Quay", "db": "SQLite", "port": "80"}, journal, questions=THREE)
    assert answers(done) == [
        ended("answered", "SQLite", "db"),
        ended("answered", "80", "port"),
        ended("answered", "Quay", "name"),
    ]
    [asked] = [entry.data for entry in journal.entries if isinstance(entry.data, QuestionAsked)]
    assert [one.id for one in asked.questions] == ["db", "port", "name"]
    [heard] = [entry.data for entry in journal.entries if isinstance(entry.data, QuestionAnswered)]
    assert heard.answer is None and [one.answer for one in heard.answers] == ["SQLite", "80", "Quay"]


async def test_what_a_person_declines_is_told_for_each_question() -> None:
    done = await told(lambda item: NewAnswer(decline=True), MemoryJournal(ORDER), questions=THREE)
    assert answers(done) == [ended("declined", None, id) for id in ("db", "port", "name")]


async def test_at_the_end_of_its_time_each_default_is_the_answer() -> None:
    journal = MemoryJournal(ORDER)
    done = await told(never, journal, wait_seconds=1, questions=THREE)
    assert answers(done) == [
        ended("expired", None, "db"),
        ended("expired", "8420", "port"),
        ended("expired", None, "name"),
    ]
    [heard] = [entry.data for entry in journal.entries if isinstance(entry.data, QuestionAnswered)]
    assert heard.expired


async def test_where_nobody_can_be_asked_the_runtime_declines() -> None:
    done = await told(None, MemoryJournal(ORDER), default="a")
    assert answers(done) == [ended("declined", None, by="runtime")]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"questions": []}, "Give either question"),
        ({"question": "Which?", "questions": THREE}, "Give either question"),
        ({"questions": THREE, "default": "a"}, "Give either question"),
        ({"questions": [THREE[1], THREE[1]]}, "an id of its own"),
        ({"questions": [{"id": "a", "question": "Which?", "free": False}]}, "no choices"),
        ({"questions": [{**THREE[1], "id": str(number)} for number in range(11)]}, "10"),
    ],
)
async def test_a_call_that_does_not_say_what_to_ask_is_told_so(asked: dict[str, Any], problem: str) -> None:
    journal = MemoryJournal(ORDER)
    done = await told(never, journal, **asked)
    assert done.is_error and problem in done.content
    assert "question.asked" not in [entry.kind for entry in journal.entries]


async def test_a_turn_that_breaks_off_asks_no_second_time_what_was_answered() -> None:
    whole = MemoryJournal(ORDER)
    await told(lambda item: "b", whole)
    kinds = [entry.kind for entry in whole.entries]
    asked, answered = kinds.index("question.asked"), kinds.index("question.answered")
    for cut, answer in ((asked, "new"), (asked + 1, "new"), (answered + 1, "b")):
        journal = MemoryJournal(ORDER, entries=whole.entries[:cut])
        journal.texts.update(whole.texts)
        assert answers(await told(lambda item: "new", journal, again=True)) == [ended("answered", answer)]
        assert len([one for one in journal.entries if isinstance(one.data, QuestionAsked)]) == 1


@pytest.mark.parametrize(("expired", "status"), [(False, "answered"), (True, "expired")])
async def test_an_answer_of_a_version_before_answers_is_still_read(expired: bool, status: str) -> None:
    whole = MemoryJournal(ORDER)
    await told(lambda item: "b", whole)
    entries = []
    for entry in whole.entries[: [one.kind for one in whole.entries].index("question.answered") + 1]:
        fact = entry.data
        if isinstance(fact, QuestionAsked):
            fact = fact.model_copy(update={"questions": ()})
        if isinstance(fact, QuestionAnswered):
            fact = fact.model_copy(update={"answers": (), "expired": expired})
        entries.append(entry.model_copy(update={"data": fact}))
    journal = MemoryJournal(ORDER, entries=entries)
    journal.texts.update(whole.texts)
    assert answers(await told(never, journal, again=True)) == [ended(status, "b")]

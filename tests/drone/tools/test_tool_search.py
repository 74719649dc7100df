"""Deferred tools: found by their descriptions, shown once found, and kept after a takeover."""

from collections.abc import Sequence

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.state.tree import Tree
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.frame.tool_search import TOOL_SEARCH, Searchable, ranked, words
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.transcript.messages import ToolSpec


def deferred(name: str, description: str, **properties: object) -> ToolSpec:
    shape = {"type": "object", "properties": properties}
    return ToolSpec(name, description, shape, group="mcp", effects="read", deferred=True)


BOARD = [
    deferred("tracker__create_issue", "Creates an issue on the board.", title={}),
    deferred("tracker__listIssues", "Shows what is open.", board={}),
    deferred("tracker__close", "Closes something for good.", id={}),
    deferred("mail__send", "Sends a mail to a person about an issue.", to={}),
]


class Board:
    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("look", "Looks.", {"type": "object"}, group="mcp"), *BOARD)

    async def call(self, call: StartedCall) -> Output:
        return Output(f"did {call.name}")


def test_words_are_those_of_names_as_well() -> None:
    assert words("create_issue listIssues, Öl2") == ["create", "issue", "list", "issues", "öl2"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create issue", "tracker__create_issue"),
        ("send a mail", "mail__send"),
        ("tracker__close", "tracker__close"),
        ("a board", "tracker__listIssues"),
        ("issues list", "tracker__listIssues"),
    ],
)
def test_the_tool_that_is_meant_comes_first(query: str, first: str) -> None:
    assert ranked(query, BOARD)[0].name == first


def test_what_has_none_of_the_words_is_not_found() -> None:
    assert ranked("weather", BOARD) == [] and ranked("", BOARD) == [] and ranked("x", []) == []


def test_search_is_there_only_where_something_is_deferred() -> None:
    class Few(Board):
        def specs(self) -> Sequence[ToolSpec]:
            return super().specs()[:1]

    assert [spec.name for spec in Searchable(Few()).specs()] == ["look"]
    assert Searchable(Board()).specs()[-1].name == TOOL_SEARCH


def agent(model: ScriptedModel) -> AgentRuntime:
    return AgentRuntime(
        AgentDefinition(name="master", description="d", prompt="p"), model=model, tools=Searchable(Board())
    )


SEARCH = Line(calls=(call(TOOL_SEARCH, query="mail"),))


def names(ask: object) -> list[str]:
    return [spec.name for spec in ask.tools]  # type: ignore[attr-defined]


async def test_a_found_tool_is_shown_from_the_next_reply_on_behind_all_others() -> None:
    model = ScriptedModel([SEARCH, Line(calls=(call("mail__send", to="you"),)), "done"])
    report = await agent(model).run("go")
    assert report.text == "done"
    first, second, third = map(names, model.asks)
    assert first == ["look", TOOL_SEARCH]
    assert second == third == [*first, "mail__send"]


async def test_a_takeover_shows_what_was_found_before_it() -> None:
    whole = MemoryJournal(fresh_id())
    task = Task("go", root_record_id(whole.order_id), "go")
    first = agent(ScriptedModel([SEARCH, "done"]))
    await first.run(task, first.turn(whole))
    found = next(entry.seq for entry in whole.entries if entry.kind == "tool.finished")
    left = MemoryJournal(whole.order_id, entries=whole.entries[:found])
    left.texts.update(whole.texts)
    model = ScriptedModel(["done"])
    second = agent(model)
    report = await second.run(task, second.turn(left, Tree.of(left.entries)))
    assert report.text == "done" and names(model.asks[0]) == ["look", TOOL_SEARCH, "mail__send"]


async def test_a_search_without_words_says_what_it_needs() -> None:
    model = ScriptedModel([Line(calls=(call(TOOL_SEARCH, query=" "), call(TOOL_SEARCH, query="zebra"))), "done"])
    await agent(model).run("go")
    results = model.asks[1].messages[-1].results  # type: ignore[union-attr]
    assert "a few words" in results[0].content and "Use other words" in results[1].content
    assert all(one.is_error for one in results)

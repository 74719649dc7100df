"""Function rules of documents that people change: when they run, and how their verdicts are stored."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mcc.api.function_rules import FunctionRules
from mcc.contracts.callers import Actor
from mcc.contracts.shape import now
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author
from mcc.documents.commands import commands_of
from mcc.documents.functions import ReadOnlyNode
from mcc.documents.node import RuleVerdict
from mcc.store.store import Store
from tests.mcc.api.test_documents_over_http import COURSE, LESSON

BLUEPRINT = Blueprint.parse(COURSE)
PERSON = Author(by="person", at=now(), principal="somebody")
Make = Callable[..., FunctionRules]


@pytest.fixture
async def make(store: Store) -> AsyncIterator[Make]:
    """Make rules with one function, by default named `titles_differ`."""
    made: list[FunctionRules] = []

    def rules(function: Callable[[ReadOnlyNode], object], *, name: str = "titles_differ", **more: Any) -> FunctionRules:
        made.append(FunctionRules(store, {name: function}, **more))
        return made[-1]

    yield rules
    for one in made:
        await one.drain()
        one.close()


@pytest.fixture
def document_id(store: Store) -> str:
    return store.documents.create(BLUEPRINT, by=Actor("somebody"), metadata={"topic": "Light"}).document.id


async def do(store: Store, rules: FunctionRules, document_id: str, *given: dict[str, Any]) -> tuple[int, bool]:
    """Execute commands. Answers the new version, and whether functions still have to run."""
    commands, left = await rules.with_verdicts(document_id, commands_of(given), PERSON)
    return store.documents.dispatch(document_id, commands, PERSON).version, left


def verdict(store: Store, document_id: str) -> RuleVerdict:
    root = store.documents.state(document_id).root
    return next(one for one in root.verdicts if one.kind == "function")


def one_lesson(node: ReadOnlyNode) -> object:
    return None if len(node.children) == 1 else f"There are {len(node.children)} lessons."


async def test_a_function_sees_what_the_change_comes_to_and_its_verdict_is_of_the_same_version(
    store: Store, make: Make, document_id: str
) -> None:
    rules = make(one_lesson)
    assert await do(store, rules, document_id, LESSON) == (2, False)
    assert (verdict(store, document_id).ok, verdict(store, document_id).version) == (True, 2)
    assert await do(store, rules, document_id, LESSON) == (3, False)
    found = verdict(store, document_id)
    assert (found.ok, found.message, found.version) == (False, "There are 2 lessons.", 3)
    assert await do(store, rules, document_id, {"command": "undo"}) == (4, False)
    assert verdict(store, document_id).ok is True
    assert {one.command for one in store.documents.history(document_id).items} == {"create", "add_child", "undo"}


async def test_a_function_that_is_missing_is_told_so_and_is_no_pass(store: Store, make: Make, document_id: str) -> None:
    rules = make(one_lesson, name="another")
    assert await do(store, rules, document_id, LESSON) == (2, False)
    found = verdict(store, document_id)
    assert found.ok is None and "titles_differ" in found.message
    assert await do(store, rules, document_id, LESSON) == (3, False)


async def test_a_slow_function_is_heard_later_and_keeps_nobody_waiting(
    store: Store, make: Make, document_id: str
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(node: ReadOnlyNode) -> object:
        asked.set()
        go_on.wait(30)
        return "It is slow."

    rules = make(slow, patience_seconds=0.01)
    assert await do(store, rules, document_id, LESSON) == (2, True)
    assert await asyncio.to_thread(asked.wait, 30), "nobody holds the document's row while the function thinks"
    assert verdict(store, document_id).ok is None
    rules.judge_later(document_id, "somebody")
    go_on.set()
    await rules.drain()
    assert (verdict(store, document_id).ok, verdict(store, document_id).message) == (False, "It is slow.")


async def test_what_a_function_says_of_a_node_that_changed_meanwhile_is_not_kept(
    store: Store, make: Make, document_id: str
) -> None:
    title = {"command": "set_value", "node": "/", "values": {"title": "Another title"}}

    def meanwhile(node: ReadOnlyNode) -> object:
        store.documents.dispatch(document_id, commands_of(title), PERSON)
        return None

    assert await do(store, make(meanwhile), document_id, {**title, "values": {"title": "The first"}}) == (3, False)
    assert verdict(store, document_id).ok is None


async def test_a_function_that_fails_is_a_failure(store: Store, make: Make, document_id: str) -> None:
    await do(store, make(lambda node: node.nothing), document_id, LESSON)
    assert verdict(store, document_id).ok is False and "AttributeError" in verdict(store, document_id).message

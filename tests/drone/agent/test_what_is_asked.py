"""What a person is asked about a call: all of it, exactly, also where its tool has no preview."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import drone
from drone.agent.control.approver import Asking
from drone.agent.permission_gate import PREVIEW_CHARACTERS
from drone.agent.ports.inbox_item import in_full, invisible_in
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import tool
from mcc.contracts.approvals import ApprovalItem
from mcc.contracts.ids import root_record_id
from mcc.contracts.inbox_facts import ShownPreview
from mcc.contracts.invisible import escape_invisible
from mcc.redaction import Redactor
from tests.drone.agent.test_permission_gate import ORDER, World

ANY = st.text(st.characters(exclude_categories=()) | st.sampled_from('⟦⟧"\\\n\t\x1b\u202e{}:, '))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY,
    lambda inner: st.lists(inner) | st.dictionaries(ANY, inner),
    max_leaves=12,
)
HIDDEN = "echo ok\x1b]0;\u202e\U000e0041 touch x"


@tool(effects="write")
def tracker__create(title: str, fields: dict[str, Any] | None = None) -> str:
    """Create an issue on a server."""
    return title


def _long(text: str) -> drone.Preview:
    return drone.Preview("text", text * 10_000)


@tool(effects="write", preview=_long)
def spread(text: str) -> str:
    """Spread a text."""
    return text


async def asked(name: str, function: Callable[..., object], world: World | None = None, **given: Any) -> ShownPreview:
    world = world or World(permission={name: "ask"}, tools=(function,))
    await world.run([Line(calls=(call(name, **given),)), "done"])
    [item] = world.items
    assert isinstance(item, ApprovalItem) and item.preview is not None
    return item.preview


@given(st.dictionaries(ANY, JSON), st.dictionaries(ANY, JSON))
def test_no_two_arguments_are_shown_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = (escape_invisible(in_full(arguments)) for arguments in (one, other))
    assert (first == second) == (json.dumps(one) == json.dumps(other))


async def test_a_call_without_a_preview_of_its_own_is_shown_with_all_of_its_arguments() -> None:
    title, fields = "x" * 3_000 + HIDDEN, {"a\nb": ["\u200b", 1]}
    shown = await asked("tracker__create", tracker__create, title=title, fields=fields)
    assert shown.text.startswith("tracker__create {") and shown.kind == "text"
    assert json.loads(shown.text.removeprefix("tracker__create ")) == {"title": title, "fields": fields}
    assert (shown.hidden, shown.sha256, shown.artifact) == (4, None, None)


async def test_a_preview_is_exact_and_says_how_much_of_it_is_hidden() -> None:
    world = World()
    await world.run([Line(calls=(call("publish", text=HIDDEN),)), "done"])
    [item] = world.items
    assert isinstance(item, ApprovalItem)
    assert item.preview == ShownPreview(kind="text", text=f"{HIDDEN} on page 1", hidden=3)


async def test_a_cut_preview_has_the_digest_of_the_whole_which_is_kept() -> None:
    world = World(permission={"spread": "ask"}, tools=(spread,))
    shown = await asked("spread", spread, world, text="\u202eabc")
    whole = "\u202eabc" * 10_000
    assert len(shown.text) <= PREVIEW_CHARACTERS
    assert (shown.sha256, shown.hidden) == (sha256(whole.encode()).hexdigest(), 10_000)
    assert shown.artifact is not None and world.journal.texts[shown.artifact] == whole


async def test_no_secret_is_shown_or_kept_of_what_is_asked() -> None:
    world, secret = World(), "hush-hush-secret"
    definition = drone.AgentDefinition(name="master", prompt="You work.", permission={"tracker__create": "ask"})
    said: list[Said] = [Line(calls=(call("tracker__create", title=f"{secret} \u202e" * 3_000),)), "done"]
    agent = drone.Agent(definition, model=ScriptedModel(said), tools=[tracker__create])
    turn = Turn.begun(world.journal, Budget(agent.limits), people=Asking(world.answer), redactor=Redactor([secret]))
    await agent.run(Task("Go.", root_record_id(ORDER)), turn)
    [item] = world.items
    assert isinstance(item, ApprovalItem) and item.preview is not None and item.preview.artifact is not None
    whole = world.journal.texts[item.preview.artifact]
    assert "hush" not in item.preview.text + whole and item.preview.hidden == whole.count("\u202e") == 3_000


def test_every_text_and_key_of_arguments_counts() -> None:
    assert invisible_in({"a\u202e": ["\x1b", {"\u200b": "\ud800"}], "n": 1, "none": None}) == 4

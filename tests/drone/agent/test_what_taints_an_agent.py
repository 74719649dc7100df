"""Text from outside taints the agent that is shown it, those above it, and those that such an agent hires or steers."""

from typing import Literal

import pytest

from drone.agent.state.tree import Tree
from mcc.contracts.entry import Origin
from mcc.contracts.journal import AgentStarted, ControlApplied, ToolFinished
from mcc.contracts.permission import Effects
from mcc.transcript.messages import ToolSpec

ROOT = Origin(record_id="root", agent="master")
CHILD = Origin(record_id="child", parent_id="root", agent="general", depth=1)
BELOW = Origin(record_id="below", parent_id="child", agent="general", depth=2)
OTHER = Origin(record_id="other", parent_id="root", agent="general", depth=1)
AGENTS = (ROOT, CHILD, BELOW, OTHER)


def started(*, tainted: bool = False) -> AgentStarted:
    return AgentStarted(
        title="t", prompt="p", model=None, tools=(), definition_digest="d", setup_digest="s", tainted=tainted
    )


def read(*, tainted: bool) -> ToolFinished:
    return ToolFinished(call_id="c", name="web_fetch", content="x", is_error=False, tainted=tainted)


def steered(by: Literal["parent"] | None) -> ControlApplied:
    return ControlApplied(control_id="s", control="steer", message="Note it.", by=by)


def a_tree() -> Tree:
    tree = Tree()
    for origin in AGENTS:
        tree.apply(origin, started())
    return tree


def tainted(tree: Tree) -> set[str | None]:
    return {origin.record_id for origin in AGENTS if tree.is_tainted(origin.record_id)}


def test_those_above_are_tainted_and_those_beside_are_not() -> None:
    tree = a_tree()
    tree.apply(OTHER, read(tainted=False))
    assert tainted(tree) == set()
    tree.apply(CHILD, read(tainted=True))
    assert tainted(tree) == {"root", "child"}


def test_what_an_agent_begins_with_taints_it() -> None:
    tree = Tree()
    tree.apply(ROOT, started())
    tree.apply(CHILD, started(tainted=True))
    assert tainted(tree) == {"root", "child"}


@pytest.mark.parametrize(("by", "reached"), [("parent", {"root", "child"}), (None, {"root"})])
def test_a_steer_by_a_tainted_parent_taints_and_one_by_a_person_does_not(
    by: Literal["parent"] | None, reached: set[str]
) -> None:
    tree = a_tree()
    tree.apply(CHILD, steered(by))
    assert tainted(tree) == set(), "its parent had read nothing"
    tree.apply(ROOT, read(tainted=True))
    tree.apply(CHILD, steered(by))
    assert tainted(tree) == reached


@pytest.mark.parametrize(
    ("group", "effects", "networked", "egress", "outside"),
    [
        ("web_read", "read", False, (), True),
        ("mcp", None, False, (), True),
        ("", "network", False, (), True),
        ("shell_write", "execute", True, (("example.org",),), True),
        ("shell_write", "execute", True, (("example.org",), ()), False),
        ("shell_write", "execute", False, (), False),
        ("workspace_read", "read", False, (), False),
    ],
)
def test_which_tools_bring_text_from_outside(
    group: str, effects: Effects | None, networked: bool, egress: tuple[tuple[str, ...], ...], outside: bool
) -> None:
    spec = ToolSpec("t", "T.", {}, group=group, effects=effects, networked=networked)
    assert spec.reaches_outside(egress) is outside

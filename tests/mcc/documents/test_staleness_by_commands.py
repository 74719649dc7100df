"""Staleness under random commands equals that of a freshly built document."""

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcc.documents import Blueprint
from mcc.documents.briefs import brief_of
from mcc.documents.change import DispatchRefused
from mcc.documents.commands import Instruct, Settle
from mcc.documents.node import Role
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState
from tests.mcc.documents.course import (
    ANN,
    BLUEPRINT,
    REDO,
    STAMPED,
    UNDO,
    Course,
    add,
    move,
    remove,
    set_metadata,
    set_props,
)

AGAIN = Blueprint.parse(BLUEPRINT.text)
ROLES: tuple[Role, ...] = ("metadata", "node")
kinds = st.sampled_from(
    ["put", "tell", "add", "take", "shift", "lift", "ran", "accept", "release", "undo", "redo", "instruct"]
)
steps = st.lists(st.tuples(kinds, st.integers(0, 40), st.integers(0, 40)), min_size=4, max_size=20)


def begun() -> Course:
    """A small document whose agents have all run."""
    made = Course()
    made.do(*(add("lesson", metadata={"focus": focus}) for focus in ("Light", "Leaves")), add("part"))
    made.do(
        add("activity", "/lesson-1"), add("activity", "/lesson-2"), add("lesson", "/part-1"), add("part", "/part-1")
    )
    made.do(*(ran(made, made.state.path(node), role) for node in made.state.walk() for role in ROLES), author=STAMPED)
    return made


def ran(made: Course, path: str, role: Role) -> Settle:
    brief = brief_of(made.blueprint, made.state, path, role)
    return Settle(node=path, role=role, asked=brief.asked, inputs=dict(brief.inputs), record_id="r")


def command(made: Course, kind: str, which: int, more: int) -> tuple[Any, bool]:
    """A random command on a random node, and whether an agent sends it."""
    nodes = list(made.state.walk())
    node = nodes[which % len(nodes)]
    path, component = made.state.path(node), made.blueprint.component(node.component)
    role = ROLES[more % 2]
    match kind:
        case "put" | "tell":
            section = "props" if kind == "put" else "metadata"
            names = [one for one in component.fields.values() if one.section == section and one.computation is None]
            field = names[more % len(names)] if names else None
            values = {"number": 40 + more % 2, "text": f"text {more % 3}", "boolean": more % 2 == 0}
            if field is not None and field.spec.type in values:
                return (set_props if kind == "put" else set_metadata)(
                    path, **{field.key: values[field.spec.type]}
                ), more % 3 == 0
        case "add" if component.spec.children:
            return add(list(component.spec.children)[more % len(component.spec.children)], path), more % 2 == 0
        case "take":
            return remove(path), False
        case "shift":
            return move(path, more % 4 + 1), False
        case "lift":
            return move(path, 1, made.state.path(nodes[more % len(nodes)])), False
        case "ran":
            return ran(made, path, role), True
        case "accept" | "release":
            return {"command": kind, "node": path}, False
        case "instruct":
            return Instruct(brief=f"Brief {more % 2}."), False
        case "undo" | "redo":
            return (UNDO if kind == "undo" else REDO), False
    return {"command": "select", "node": "/"}, False


def from_nothing(state: DocumentState) -> set[str]:
    """The nodes with a stamp that differs from the present prompt's, computed without caches."""
    anew = DocumentState.of(
        state.id, state.blueprint, state.title, state.version, list(state.nodes.values()), state.brief
    )
    found = set()
    for node in anew.nodes.values():
        for role, stamp in node.stamps.items():
            brief = brief_of(AGAIN, anew, node.id, role)
            if brief.tools and brief.asked != stamp.asked:
                found.add(node.id)
    return found


@settings(max_examples=60, deadline=None)
@given(steps)
def test_whatever_is_done_in_turn_stale_is_what_a_rebuild_from_nothing_asks_otherwise(
    several: list[tuple[str, int, int]],
) -> None:
    made = begun()
    for kind, which, more in several:
        what, by_agent = command(made, kind, which, more)
        with suppress(DispatchRefused):
            made.do(what, author=STAMPED if by_agent else ANN)
        found = assessed(BLUEPRINT, made.state)
        assert found.stale == from_nothing(made.state)
        fresh = DocumentState.of("x", made.state.blueprint, "", 1, list(made.state.nodes.values()), made.state.brief)
        assert found.statuses == assessed(BLUEPRINT, fresh).statuses

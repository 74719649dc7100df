"""The tree of a changing document (order, paths, counts), compared with a list of lists."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.documents.node import Node
from mcc.documents.state import DocumentState, StateDraft, UnknownNode
from tests.mcc.documents.work_done import calls


def node(id: str, parent: str | None, rank: float = 1.0, component: str = "part") -> Node:
    return Node(id, parent, "" if parent is None else f"{component}-{id}", component, rank, 1, {}, {})


def small() -> DocumentState:
    parts = [node("root", None), node("b", "root", 2.0), node("a", "root", 1.0), node("c", "a")]
    return DocumentState.of("document", "sha256:0", "Title", 1, parts)


def test_nodes_come_depth_first_in_their_order_and_are_found_by_path_and_id() -> None:
    state = small()
    assert [state.path(one) for one in state.walk()] == ["/", "/part-a", "/part-a/part-c", "/part-b"]
    assert state.find("/part-a/part-c") is state.find("c") is state.nodes["c"]
    assert state.find("/") is state.root
    assert [state.position(state.nodes[id]) for id in ("root", "a", "b", "c")] == [1, 1, 2, 1]


def test_a_node_that_is_not_there_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNode, match='did you mean "/part-a"'):
        small().find("/part-aa")
    with pytest.raises(UnknownNode, match='did you mean "/part-b"'):
        small().find("part-b")


def test_a_document_has_one_root() -> None:
    with pytest.raises(ValueError, match="this has 2"):
        DocumentState.of("document", "", "", 1, [node("a", None), node("b", None)])


def test_a_next_state_leaves_the_one_before_as_it_was() -> None:
    first = small()
    paths = [first.path(one) for one in first.walk()]
    second = first.with_nodes(2, {"a": None, "c": None, "d": node("d", "root", 0.5)}, brief="Be brief.")
    assert [second.path(one) for one in second.walk()] == ["/", "/part-d", "/part-b"]
    assert (second.version, second.brief, second.count(second.root, "part")) == (2, "Be brief.", 2)
    assert [first.path(one) for one in first.walk()] == paths
    assert (first.version, first.brief, first.count(first.root, "part")) == (1, "", 2)


places = st.lists(
    st.tuples(st.sampled_from(["add", "move", "take"]), st.integers(0, 99), st.integers(0, 99)), max_size=60
)


@given(places)
def test_children_stand_where_they_were_put(changes: list[tuple[str, int, int]]) -> None:
    state = DocumentState.of("document", "", "", 1, [node("root", None)])
    order: list[str] = []
    for number, (what, which, where) in enumerate(changes):
        draft = StateDraft(state)
        if what == "add":
            where = min(where, len(order))
            draft.put(node(f"n{number}", "root", draft.rank_at("root", where)))
            order.insert(where, f"n{number}")
        elif order:
            id = order.pop(which % (len(order)))
            found = state.nodes[id]
            draft.put_all({id: None})
            if what == "move":
                where = min(where, len(order))
                draft.put(replace(found, rank=draft.rank_at("root", where)))
                order.insert(where, id)
        state = draft.finished(number + 2)
        assert list(state.children.get("root", ())) == order
        assert [state.position(state.nodes[id]) for id in order] == list(range(1, len(order) + 1))
        assert state.count(state.root, "part") == len(order)
        assert DocumentState.of("document", "", "", number + 2, list(state.nodes.values())) == state


def test_where_there_is_no_room_between_two_only_their_neighbours_move() -> None:
    state = DocumentState.of(
        "document", "", "", 1, [node("root", None), *(node(f"n{at}", "root", at) for at in range(1_000))]
    )
    order = list(state.children["root"])
    most = 0
    for number in range(300):
        draft = StateDraft(state)
        draft.put(node(f"m{number}", "root", draft.rank_at("root", 500)))
        order.insert(500, f"m{number}")
        state = draft.finished(number)
        most = max(most, len(draft.before))
        assert list(state.children["root"]) == order
    assert 1 < most < 100


def test_a_change_of_one_of_10_000_children_costs_no_walk_through_them() -> None:
    children = [node(f"n{at}", "root", at) for at in range(10_000)]
    state = DocumentState.of("document", "", "", 1, [node("root", None), *children])

    def changed() -> None:
        after = state.with_nodes(2, {"n5": replace(children[5], summary="x")})
        assert after.position(after.find("/part-n9999")) == 10_000

    assert calls(changed) < calls(lambda: list(state.walk())) / 5

"""Views of documents: the JSON of the reference, in pages, at any version."""

import json
from datetime import timedelta
from typing import Any

import pytest

from mcc.contracts.documents import DocumentView
from mcc.contracts.shape import to_json
from mcc.documents.commands import RunFailure, Settle
from mcc.documents.state import UnknownNode
from mcc.documents.views import Envelope, NodeSelection, document_view, history_item, node_view, summary
from tests.mcc.documents.course import (
    AGENT,
    BLUEPRINT,
    DOCUMENT,
    NOON,
    Course,
    add,
    move,
    remove,
    set_metadata,
    set_props,
)
from tests.mcc.documents.work_done import calls

KEPT = Envelope(NOON, NOON + timedelta(minutes=1), "order")


def filled() -> Course:
    """A course with two lessons; an agent filled in the second, but did not pass its gate."""
    course = Course()
    course.do(set_props("/", title="Light and leaves", level="basic"))
    course.do(add("lesson", metadata={"focus": "Light"}), add("lesson", metadata={"focus": "Chlorophyll"}))
    course.do(add("activity", "/lesson-2", values={"text": "What is in a leaf?"}))
    course.do(set_props("/lesson-2", minutes=45, builds_on="/lesson-1"), author=AGENT)
    failure = RunFailure(
        reason="gate_failed",
        message="1 rule does not hold.",
        errors=({"node": "/lesson-2", "field": None, "rule": "rules[0]", "message": "No."},),  # type: ignore[arg-type]
    )
    course.do(
        Settle(node="/lesson-2", role="node", asked="sha256:old", inputs={}, failure=failure, summary="Pigments."),
        author=AGENT,
    )
    return course


def shown(course: Course, page: NodeSelection | None = None) -> DocumentView:
    return document_view(course.blueprint, course.state, KEPT, page or NodeSelection())


def of(course: Course, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(node_view(course.blueprint, course.state, course.node(path))))
    return found


def test_a_document_is_shown_with_what_is_known_of_it_and_its_nodes_depth_first() -> None:
    course = filled()
    found = json.loads(to_json(shown(course)))
    assert list(found) == [
        *("id", "title", "blueprint", "version", "status", "counts", "order_id", "created_at", "updated_at"),
        *("principal", "door", "token"),
        *("next_cursor", "nodes"),
    ]
    assert found["id"] == DOCUMENT and found["title"] == "Photosynthesis" and found["version"] == 6
    assert found["blueprint"] == {"name": "course", "version": 2, "digest": BLUEPRINT.digest}
    assert found["status"] == "failed"
    assert found["counts"] == {"pending": 1, "done": 2, "stale": 0, "failed": 1, "conflicts": 1}
    assert (found["order_id"], found["created_at"]) == ("order", "2026-01-31T12:00:00Z")
    assert [one["path"] for one in found["nodes"]] == ["/", "/lesson-1", "/lesson-2", "/lesson-2/activity-1"]
    assert summary(course.blueprint, course.state, KEPT).model_dump() == {
        name: value for name, value in shown(course).model_dump().items() if name not in ("next_cursor", "nodes")
    }


def test_a_node_is_shown_with_all_keys_of_the_reference() -> None:
    found = of(filled(), "/lesson-2")
    assert list(found) == [
        *("id", "path", "parent", "component", "position", "children", "version", "status", "pending", "stale_because"),
        *("metadata", "props", "provenance", "verdicts", "conflicts", "failure", "summary"),
    ]
    assert (found["parent"], found["component"], found["position"]) == ("/", "lesson", 2)
    assert found["children"] == ["/lesson-2/activity-1"]
    assert found["metadata"] == {"focus": "Chlorophyll"}
    assert found["props"] == {
        **{"grade": 7, "headline": "2: Chlorophyll", "double": 90, "minutes": 45},
        **{"builds_on": "/lesson-1", "source": None},
    }
    assert found["summary"] == "Pigments."
    assert found["failure"] == {
        "reason": "gate_failed",
        "message": "1 rule does not hold.",
        "errors": [{"node": "/lesson-2", "field": None, "rule": "rules[0]", "message": "No."}],
        "record_id": "record",
        "at": "2026-01-31T12:00:00Z",
    }
    assert {"rule", "kind", "ok", "message", "version"} == set(found["verdicts"][0])
    root = of(filled(), "/")
    assert (root["parent"], root["position"], root["children"]) == (None, 1, ["/lesson-1", "/lesson-2"])
    assert of(filled(), "/lesson-1")["pending"] == ["props.minutes", "children.activity"]


def test_provenance_has_the_keys_of_whoever_set_the_value() -> None:
    provenance = of(filled(), "/lesson-2")["provenance"]
    assert provenance["props.minutes"] == {
        **{"by": "agent", "order_id": "order", "record_id": "record", "version": 5, "at": "2026-01-31T12:00:00Z"},
        **{"asked": "sha256:asked", "rules": BLUEPRINT.component("lesson").rules_digest, "accepted": None},
    }
    assert provenance["metadata.focus"] == {
        **{"by": "person", "principal": "ann", "version": 3, "at": "2026-01-31T12:00:00Z", "asked": None},
        **{"rules": BLUEPRINT.component("lesson").rules_digest, "accepted": {"version": 3, "principal": "ann"}},
    }
    assert provenance["props.grade"] == {
        **{"by": "binding", "from": ["/ metadata.grade"], "version": 3, "at": "2026-01-31T12:00:00Z"}
    }


def test_pages_follow_one_another_to_the_end() -> None:
    course = filled()
    seen: list[str] = []
    cursor = None
    while True:
        page = shown(course, NodeSelection(limit=3, cursor=cursor))
        seen += [one.path for one in page.nodes]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ["/", "/lesson-1", "/lesson-2", "/lesson-2/activity-1"]
    assert shown(course, NodeSelection(limit=4)).next_cursor is None


def test_a_page_goes_on_behind_the_last_node_also_when_others_came_before_it_or_it_went() -> None:
    course = filled()
    cursor = shown(course, NodeSelection(limit=2)).next_cursor
    course.do(add("lesson", metadata={"focus": "First"}, position=1))
    assert [one.path for one in shown(course, NodeSelection(limit=9, cursor=cursor)).nodes] == [
        "/lesson-2",
        "/lesson-2/activity-1",
    ]
    course.do({"command": "release", "node": "/lesson-2"}, set_props("/lesson-2", builds_on=None), remove("/lesson-1"))
    assert [one.path for one in shown(course, NodeSelection(limit=9, cursor=cursor)).nodes] == [
        "/lesson-2",
        "/lesson-2/activity-1",
    ]


@pytest.mark.parametrize("cursor", ["", "x", "1", "²." + DOCUMENT, "99999999999.x", "-1.x"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="comes from no page of"):
        shown(filled(), NodeSelection(cursor=cursor))


def test_a_part_of_the_document_is_shown_down_to_a_depth() -> None:
    course = filled()
    paths = [one.path for one in shown(course, NodeSelection("/lesson-2")).nodes]
    assert paths == ["/lesson-2", "/lesson-2/activity-1"]
    assert [one.path for one in shown(course, NodeSelection(depth=1)).nodes] == ["/", "/lesson-1", "/lesson-2"]
    assert [one.path for one in shown(course, NodeSelection(depth=0)).nodes] == ["/"]
    with pytest.raises(UnknownNode):
        shown(course, NodeSelection("/lesson-9"))


def test_a_past_version_is_shown_as_it_was_then() -> None:
    course = filled()
    before = document_view(course.blueprint, course.states[3], KEPT)
    assert before.version == 3 and before.status == "pending"
    assert [one.props.get("minutes") for one in before.nodes] == [None, None, None]
    assert shown(course).version == 6


def test_a_step_of_the_history_says_who_did_what_to_which_values() -> None:
    course = filled()
    found = json.loads(to_json(history_item(course.steps[-2])))
    assert found == {
        **{"version": 5, "at": "2026-01-31T12:00:00Z", "by": "agent", "principal": None, "order_id": "order"},
        "door": None,
        **{"record_id": "record", "command": "set_value", "node": "/lesson-2"},
        "fields": {"props.minutes": [None, 45], "props.builds_on": [None, "/lesson-1"]},
    }


def test_a_page_of_a_large_document_costs_what_it_shows() -> None:
    course = Course()
    for _ in range(3):
        course.do(*(add("part", metadata={"name": "x"}) for _ in range(1_000)))
    shown(course)
    page = NodeSelection(limit=10, cursor=f"2000.{list(course.state.children[course.state.root_id])[1_999]}")
    assert len(shown(course, page).nodes) == 10
    assert calls(lambda: shown(course, page)) < 1.5 * calls(lambda: shown(course, NodeSelection(limit=10)))


def test_what_a_document_holds_is_shown_as_it_is() -> None:
    course = Course()
    odd = "\x00 \u202e <script>alert(1)</script>"
    course.do(set_metadata("/", topic=odd))
    assert of(course, "/")["metadata"]["topic"] == odd
    assert shown(course).nodes[0].metadata["topic"] == odd


def test_a_move_is_shown_at_once() -> None:
    course = filled()
    course.do(move("/lesson-2", 1))
    assert [one.path for one in shown(course).nodes][1] == "/lesson-2"
    assert of(course, "/lesson-2")["position"] == 1

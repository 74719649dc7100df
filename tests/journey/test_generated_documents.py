"""Documents generated through the real family, a whole course on PostgreSQL too: by agents, with people between."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcc.contracts.approvals import OutlineItem
from mcc.contracts.documents import DocumentView, NodeView
from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentStarted, DocumentChanged
from mcc.contracts.order import WorkOrder
from mcc.contracts.order_facts import OrderWaiting
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.contracts.wire import GenerationProgress, OrderEvent
from tests.forking import popen
from tests.journey.conftest import ON_SQLITE, House

pytestmark = pytest.mark.group("turns")

ALL = 1_000


def generated(house: House, **asked: Any) -> tuple[WorkOrder, list[OrderEvent]]:
    """The order at its end, and all that was seen of it."""
    order = house.mcc.orders.submit("", kind="generate", model="offline", workspace=house.workspace, **asked)
    seen = list(house.mcc.orders.watch(order.id, deltas=True))
    return house.mcc.orders.get(order.id), seen


def whole(house: House, order: WorkOrder, **asked: Any) -> DocumentView:
    return house.mcc.documents.get(str(order.document_id), limit=ALL, **asked)


def entries_of(seen: list[OrderEvent]) -> list[Entry]:
    return [one for one in seen if isinstance(one, Entry)]


def nodes_run(seen: list[OrderEvent]) -> list[str]:
    """The paths of the nodes whose agents worked, each as often as one did."""
    data = (one.data for one in entries_of(seen) if one.depth == 1)
    return [fact.node for fact in data if isinstance(fact, AgentStarted) and fact.node is not None]


def by_path(document: DocumentView) -> dict[str, NodeView]:
    return {node.path: node for node in document.nodes}


def test_a_course_is_generated_changed_by_people_and_only_what_is_stale_is_made_again(house: House) -> None:
    metadata = {"topic": "Photosynthesis", "grade": 8}
    order, seen = generated(house, blueprint="course", generation={"metadata": metadata, "concurrency": 4})
    assert order.status is OrderStatus.SUCCEEDED, order.detail
    first = whole(house, order)
    assert (first.status, first.counts.pending, first.order_id) == ("done", 0, None)
    assert order.result == {
        "document_id": first.id,
        "version": first.version,
        "counts": first.counts.model_dump(),
        "failed": [],
    }
    assert all(verdict.ok is not False for node in first.nodes for verdict in node.verdicts)
    assert set(nodes_run(seen)) == set(by_path(first))
    changes = [one.data for one in entries_of(seen) if isinstance(one.data, DocumentChanged)]
    assert {change.document_id for change in changes} == {first.id}
    assert [change.version for change in changes] == sorted(change.version for change in changes)
    assert any(isinstance(one, GenerationProgress) for one in seen)
    record = house.mcc.orders.record(order.id)
    assert (record.agent, record.model) == ("generator", None)
    assert all(child.depth == 1 and not child.subagent_history for child in record.subagent_history)

    lesson = next(node for node in first.nodes if node.component == "lesson")
    assert lesson.children
    command = {"command": "set_metadata", "node": lesson.path, "values": {"focus": "What a leaf needs light for"}}
    house.mcc.documents.run(first.id, [command], expected_version=first.version)
    changed = whole(house, order)
    stale = {node.path for node in changed.nodes if node.status == "stale"}
    assert stale >= {lesson.path, *lesson.children}
    assert all(path.startswith(lesson.path) for path in stale)

    again, seen = generated(house, document_id=first.id)
    assert again.status is OrderStatus.SUCCEEDED, again.detail
    assert set(nodes_run(seen)) == stale
    second = by_path(whole(house, again))
    assert second[lesson.path].metadata["focus"] == "What a leaf needs light for"
    for path, node in by_path(first).items():
        if path not in stale:
            assert second[path].props == node.props
    assert whole(house, again, version=first.version).nodes == first.nodes
    nothing, seen = generated(house, document_id=first.id)
    assert nothing.status is OrderStatus.SUCCEEDED and nodes_run(seen) == []


def outlined(house: House) -> WorkOrder:
    """An order whose outline waits for approval."""
    asked = {"metadata": {"topic": "Tides"}, "outline": True}
    order = house.mcc.orders.submit(
        "", kind="generate", model="offline", workspace=house.workspace, blueprint="course", generation=asked
    )
    for entry in house.mcc.orders.watch(order.id):
        if isinstance(entry.data, OrderWaiting) and entry.data.reason is WaitingReason.APPROVAL:
            break
    return house.mcc.orders.get(order.id)


@ON_SQLITE
def test_an_outline_waits_is_changed_approved_and_kept_to(house: House) -> None:
    order = outlined(house)
    [item] = [one for one in house.mcc.inbox.list().items if one.order_id == order.id]
    assert isinstance(item, OutlineItem) and item.document_id == order.document_id
    outline = whole(house, order)
    assert {by.by for node in outline.nodes for by in node.provenance.values()} & {"agent"} == set()
    lessons = [node.path for node in outline.nodes if node.component == "lesson"]
    focus = {"command": "set_metadata", "node": lessons[0], "values": {"focus": "Why the water goes away"}}
    house.mcc.documents.run(outline.id, [focus])
    assert house.mcc.inbox.approve(item.id, note="Well done").status == "approved"
    for _ in house.mcc.orders.watch(order.id):
        pass
    order = house.mcc.orders.get(order.id)
    assert order.status is OrderStatus.SUCCEEDED, order.detail
    made = whole(house, order)
    assert made.counts.pending == 0 and made.counts.failed == 0
    assert [node.path for node in made.nodes] == [node.path for node in outline.nodes]
    assert by_path(made)[lessons[0]].metadata["focus"] == "Why the water goes away"
    assert [one for one in house.mcc.inbox.list().items if one.order_id == order.id] == []


@ON_SQLITE
def test_an_outline_that_is_denied_ends_the_order(house: House) -> None:
    order = outlined(house)
    [item] = [one for one in house.mcc.inbox.list().items if one.order_id == order.id]
    house.mcc.inbox.deny(item.id)
    for _ in house.mcc.orders.watch(order.id):
        pass
    order = house.mcc.orders.get(order.id)
    assert order.status is OrderStatus.CANCELLED and (order.detail or "").startswith("The outline was not approved.")
    assert whole(house, order).status == "pending"


@ON_SQLITE
def test_by_command_a_document_is_generated_written_and_kept(house: House, tmp_path: Path) -> None:
    blueprint = tmp_path / "leaflet.yaml"
    blueprint.write_text(
        """
blueprint: leaflet
root: leaflet
components:
  leaflet:
    metadata: {topic: {type: text, required: true}}
    properties: {title: {type: text, required: true, min_length: 5}}
    children: {page: {min: 1, max: 3}}
  page:
    properties: {text: {type: text, required: true, min_length: 20, max_length: 500}}
"""
    )
    files = [tmp_path / f"leaflet.{suffix}" for suffix in ("json", "md", "html", "jsonl")]
    outs = [part for file in files for part in ("--out", str(file))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
    named = {"MCC_URL": house.mcc.url, "MCC_TOKEN": house.token, "MCC_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "mcc.cli.main", "generate", str(blueprint), "--set", "topic=Tides"]
    done = popen.run(
        [*command, "--model", "offline", *outs, "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**environment, **named},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["type"], last["status"], last["kind"]) == ("order", "succeeded", "generate")
    shown = json.loads(files[0].read_text())
    assert (shown["id"], shown["status"]) == (last["document_id"], "done")
    assert shown["nodes"][0]["metadata"] == {"topic": "Tides"}
    assert all(len(file.read_text()) > 200 for file in files)
    assert len(files[3].read_text().splitlines()) == len(shown["nodes"])
    example = json.loads(files[3].read_text().splitlines()[0])
    assert (example["component"], example["model"]) == ("leaflet", "offline")

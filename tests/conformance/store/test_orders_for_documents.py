"""Orders that generate documents, chats about documents, and deletion of documents meanwhile."""

from datetime import timedelta

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewFork, OrderKind
from mcc.contracts.status import OrderStatus
from mcc.documents.change import DispatchRefused
from mcc.store.database.errors import (
    CannotFork,
    IdempotencyConflict,
    NotAConversation,
    QueueFull,
    SessionBusy,
    UnknownDocument,
)
from mcc.store.upkeep.retention import Cleared
from tests.conformance.store.conftest import opened
from tests.conformance.store.course import BLUEPRINT, begun, changed, minutes, ordered, placed
from tests.conformance.store.scene import Scene, at_once

NOBODY = "01900000-0000-7000-8000-000000000009"
TABLES = ("documents", "document_nodes", "document_history", "document_heads", "document_keys", "blueprints")


def rows(scene: Scene) -> dict[str, int]:
    """Number of rows in the tables of documents."""

    def counted(table: str) -> int:
        return scene.store.database.read(
            lambda link: int(link.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())
        )

    return {table: counted(table) for table in TABLES}


def test_a_document_is_made_together_with_its_order_and_is_its_session(scene: Scene) -> None:
    order = ordered(scene, generation={"metadata": {"topic": "Light"}}, limits={"spawns": 7})
    assert order.document_id == order.session_id
    assert (order.kind, order.blueprint, order.session_title) == (OrderKind.GENERATE, "course", "Light")
    assert order.limits is not None and (order.limits.spawns, order.limits.concurrency) == (7, 8)
    found = scene.store.documents.summary(order.document_id or "")
    assert (found.order_id, found.version, found.blueprint.digest) == (order.id, 1, BLUEPRINT.digest)
    root = scene.store.documents.state(found.id).root
    assert root.metadata["topic"] == "Light" and root.provenance["metadata.topic"].held
    assert scene.store.orders.get(order.id) == order


def test_values_that_the_blueprint_refuses_create_neither_order_nor_document(scene: Scene) -> None:
    with pytest.raises(DispatchRefused):
        ordered(scene, generation={"metadata": {"topik": "Light"}})
    assert scene.store.orders.list().items == [] and scene.store.documents.list().items == []


def test_the_same_key_makes_one_document(scene: Scene) -> None:
    answers = at_once(*[lambda: placed(scene, key="k")] * 4)
    assert len({answer.order.document_id for answer in answers}) == 1  # type: ignore[union-attr]
    assert len(scene.store.documents.list().items) == 1
    with pytest.raises(IdempotencyConflict):
        placed(scene, key="k", prompt="Short.")


def test_a_full_queue_leaves_no_document_behind(request: pytest.FixtureRequest, scene: Scene) -> None:
    request.param = scene.kind
    full = Scene(opened(request, scene.clock, max_queued=1), scene.clock, scene.kind)
    try:
        ordered(full)
        with pytest.raises(QueueFull):
            ordered(full)
        assert len(full.store.documents.list().items) == 1
    finally:
        full.store.close()


def test_orders_of_one_document_run_one_after_the_other(scene: Scene) -> None:
    first = ordered(scene)
    second = ordered(scene, first.document_id, generation={"metadata": {"topic": "Shade"}})
    assert (second.session_id, second.session_seq, second.blocked_by) == (first.session_id, 2, first.id)
    assert scene.store.documents.state(first.document_id or "").root.metadata["topic"] == "Shade"
    assert scene.store.documents.summary(first.document_id or "").order_id == first.id
    with pytest.raises(SessionBusy):
        ordered(scene, first.document_id, when_busy="reject")
    held = scene.hold(first.id)
    assert scene.claim(second.id, scene.drone()) is None
    held.finish()
    assert scene.claim(second.id, scene.drone()) is not None


def test_an_order_that_interrupts_takes_the_place_of_the_one_before(scene: Scene) -> None:
    document_id = begun(scene)
    first = ordered(scene, document_id)
    answer = placed(scene, document_id, when_busy="interrupt")
    assert answer.interrupted == first.id and scene.status(first.id) is OrderStatus.CANCELLED
    assert scene.store.documents.summary(document_id).order_id == answer.order.id


def test_a_generate_order_is_queued_instead_of_steering(scene: Scene) -> None:
    document_id = begun(scene)
    first = scene.hold(ordered(scene, document_id).id)
    answer = placed(scene, document_id, when_busy="steer")
    assert answer.created and answer.order.blocked_by == first.order_id


def test_a_retry_continues_the_document_of_its_source(scene: Scene) -> None:
    held = scene.hold(ordered(scene, generation={"metadata": {"topic": "Light"}, "concurrency": 20}).id)
    held.finish(OrderStatus.FAILED)
    document_id = scene.store.orders.get(held.order_id).document_id or ""
    changed(scene, document_id, {"command": "set_metadata", "node": "/", "values": {"topic": "Shade"}})
    again = scene.store.orders.retry(held.order_id, by=Actor("someone")).order
    assert (again.document_id, again.session_id, again.session_seq) == (document_id, document_id, 2)
    assert again.generation is not None and again.generation.concurrency == 20
    assert scene.store.documents.state(document_id).root.metadata["topic"] == "Shade"


def test_a_generation_cannot_be_forked(scene: Scene) -> None:
    order = ordered(scene)
    with pytest.raises(CannotFork, match="one history"):
        scene.store.orders.fork(order.id, NewFork(after=1), by=Actor("someone"))


def test_a_chat_about_a_document_stays_in_its_own_session(scene: Scene) -> None:
    order = ordered(scene)
    chat = scene.place("Shorten it.", document_id=order.document_id)
    assert chat.session_id != order.session_id and chat.document_id == order.document_id
    assert scene.claim(chat.id, scene.drone()) is not None
    with pytest.raises(NotAConversation, match="document_id"):
        scene.place("Shorten it.", session_id=order.session_id)
    with pytest.raises(UnknownDocument):
        scene.place("Shorten it.", document_id=NOBODY)


def test_an_order_for_a_document_that_is_not_there_is_refused(scene: Scene) -> None:
    with pytest.raises(UnknownDocument):
        ordered(scene, NOBODY)
    assert scene.store.orders.list().items == [] and scene.store.sessions.list().items == []


def test_a_deleted_document_is_gone_for_everybody_and_its_orders_are_cancelled(scene: Scene) -> None:
    document_id = begun(scene, lessons=1)
    running = scene.hold(ordered(scene, document_id).id)
    queued = ordered(scene, document_id)
    assert set(scene.store.documents.delete(document_id, by=Actor("someone"))) == {running.order_id, queued.id}
    assert scene.status(queued.id) is OrderStatus.CANCELLED
    (control,) = scene.store.controls.pending({running.order_id: 0})
    assert (control.kind, control.reason) == ("cancel", "its document was deleted")
    for act in (
        lambda: changed(scene, document_id, minutes(40)),
        lambda: scene.store.documents.state(document_id),
        lambda: scene.store.documents.summary(document_id),
        lambda: scene.store.documents.delete(document_id, by=Actor("someone")),
        lambda: ordered(scene, document_id),
    ):
        with pytest.raises(UnknownDocument):
            act()
    assert scene.store.documents.list().items == []


def test_its_rows_go_when_retention_comes_to_it_and_nothing_else_does(scene: Scene) -> None:
    kept = begun(scene, lessons=2)
    before = rows(scene)
    gone = scene.store.documents.create(
        BLUEPRINT, by=Actor("p"), metadata={"topic": "x"}, idempotency_key="k"
    ).document.id
    changed(scene, gone, {"command": "add_child", "node": "/", "component": "lesson"})
    scene.store.documents.delete(gone, by=Actor("someone"))
    assert sum(scene.store.retention.clear(scene.clock.now() - timedelta(days=1)), Cleared()).documents == 0
    scene.clock.advance(2 * 86_400)
    look = scene.store.retention.look(scene.clock.now() - timedelta(days=1))
    done = sum(scene.store.retention.clear(scene.clock.now() - timedelta(days=1)), Cleared())
    assert (look.documents, look.bytes) == (done.documents, done.bytes) and done.documents == 1 and done.bytes > 100
    assert rows(scene) == before
    assert len(scene.store.documents.state(kept).nodes) == 3


def test_an_unused_blueprint_is_removed_unless_it_was_uploaded(scene: Scene) -> None:
    document_id = begun(scene)
    scene.store.documents.delete(document_id, by=Actor("someone"))
    scene.clock.advance(2 * 86_400)
    before = scene.clock.now() - timedelta(days=1)
    scene.store.blueprints.keep(BLUEPRINT)
    sum(scene.store.retention.clear(before), Cleared())
    assert rows(scene)["blueprints"] == 1

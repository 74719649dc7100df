"""Documents in the store: create, change without lost updates, read at any version."""

import pytest

from mcc.contracts.callers import Actor
from mcc.documents.change import DispatchRefused
from mcc.documents.state import DocumentState
from mcc.store.database.errors import BadCursor, IdempotencyConflict, UnknownDocument
from mcc.store.store import Store, open_store
from tests.conformance.store.course import BLUEPRINT, begun, changed, commands, minutes, person
from tests.conformance.store.scene import Scene, at_once

NOBODY = "01900000-0000-7000-8000-000000000009"


def another(scene: Scene) -> Store:
    """A second store on the same database, as another process has it."""
    url = scene.store.database.url.render_as_string(hide_password=False)
    return open_store(url, clock=scene.clock)


def contents(state: DocumentState) -> object:
    return (state.version, state.title, state.brief, state.blueprint, dict(state.nodes), dict(state.children))


def test_a_document_begins_with_its_metadata_and_defaults(scene: Scene) -> None:
    document_id = begun(scene)
    found = scene.store.documents.summary(document_id)
    assert (found.title, found.version, found.status, found.order_id) == ("Light", 1, "pending", None)
    assert (found.blueprint.name, found.blueprint.version, found.blueprint.digest) == ("course", 2, BLUEPRINT.digest)
    root = scene.store.documents.state(document_id).root
    assert root.metadata == {"topic": "Light", "grade": 7}
    assert root.provenance["metadata.topic"].held and not root.provenance["metadata.grade"].held


def test_another_process_reads_what_was_committed_node_for_node(scene: Scene) -> None:
    document_id = begun(scene, lessons=3)
    changed(scene, document_id, minutes(40), {"command": "remove_child", "node": "/lesson-2"})
    changed(
        scene, document_id, {"command": "set_metadata", "node": "/", "values": {"grade": 8, "topic": "\ud83d \x00"}}
    )
    store = another(scene)
    try:
        assert contents(store.documents.state(document_id)) == contents(scene.store.documents.state(document_id))
        assert store.blueprints.get(BLUEPRINT.digest) == BLUEPRINT
    finally:
        store.close()


def test_a_cached_state_is_brought_up_to_date_by_what_another_process_did(scene: Scene) -> None:
    document_id = begun(scene, lessons=3)
    store = another(scene)
    try:
        store.documents.state(document_id)
        changed(scene, document_id, minutes(40), {"command": "remove_child", "node": "/lesson-3"})
        done = store.documents.dispatch(document_id, commands(minutes(35, "/lesson-2")), person(scene.clock.now()))
        assert done.version == 4
        state = store.documents.state(document_id)
        assert [node.props["minutes"] for node in state.children_of(state.root)] == [40, 35]
        assert contents(scene.store.documents.state(document_id)) == contents(state)
    finally:
        store.close()


def test_a_past_version_is_read_as_it_was(scene: Scene) -> None:
    document_id = begun(scene, lessons=2)
    before = scene.store.documents.state(document_id)
    changed(scene, document_id, minutes(40))
    changed(scene, document_id, {"command": "remove_child", "node": "/lesson-2"})
    changed(scene, document_id, {"command": "set_metadata", "node": "/", "values": {"topic": "Shade"}})
    assert contents(scene.store.documents.state(document_id, 2)) == contents(before)
    assert len(scene.store.documents.state(document_id, 1).nodes) == 1
    for version in (0, 6):
        with pytest.raises(UnknownDocument, match=f"no version {version}"):
            scene.store.documents.state(document_id, version)


def test_what_was_done_stands_in_the_history_newest_first(scene: Scene) -> None:
    document_id = begun(scene, lessons=1)
    changed(scene, document_id, minutes(40), minutes(41), principal="another")
    page = scene.store.documents.history(document_id, limit=2)
    assert [(one.version, one.command, one.node, one.principal) for one in page.items] == [
        (3, "set_value", "/lesson-1", "another")
    ] * 2
    assert [one.fields for one in page.items] == [{"props.minutes": (40, 41)}, {"props.minutes": (45, 40)}]
    rest = scene.store.documents.history(document_id, cursor=page.next_cursor)
    assert [one.version for one in rest.items] == [2, 1] and rest.next_cursor is None
    with pytest.raises(BadCursor):
        scene.store.documents.history(document_id, cursor="3")


def test_what_is_refused_leaves_nothing_behind(scene: Scene) -> None:
    document_id = begun(scene, lessons=1)
    before = scene.store.documents.state(document_id)
    with pytest.raises(DispatchRefused) as refused:
        changed(scene, document_id, minutes(40), minutes(40, "/lesson-9"))
    assert refused.value.status == 404
    assert scene.store.documents.state(document_id) is before
    assert len(scene.store.documents.history(document_id).items) == 2


def test_an_expected_version_is_checked_against_the_node(scene: Scene) -> None:
    document_id = begun(scene, lessons=2)
    changed(scene, document_id, minutes(40))
    changed(scene, document_id, minutes(30, "/lesson-2"), expected_version=2)
    with pytest.raises(DispatchRefused) as refused:
        changed(scene, document_id, minutes(35), expected_version=2)
    assert (refused.value.status, refused.value.version, refused.value.changed) == (409, 4, ("/lesson-1",))


def test_a_principal_takes_back_its_own_change_and_a_removal_with_all_below(scene: Scene) -> None:
    document_id = begun(scene, lessons=2)
    changed(scene, document_id, minutes(40))
    changed(scene, document_id, {"command": "remove_child", "node": "/lesson-1"}, principal="another")
    with pytest.raises(DispatchRefused):
        changed(scene, document_id, {"command": "undo"})
    store = another(scene)
    try:
        undo = commands({"command": "undo"})
        store.documents.dispatch(document_id, undo, person(scene.clock.now(), "another"))
        store.documents.dispatch(document_id, undo, person(scene.clock.now(), "someone"))
    finally:
        store.close()
    state = scene.store.documents.state(document_id)
    assert [node.props["minutes"] for node in state.children_of(state.root)] == [45, 45]
    assert state.version == 6


def test_a_key_is_answered_as_it_was_the_first_time(scene: Scene) -> None:
    made = [
        scene.store.documents.create(BLUEPRINT, by=Actor("p"), metadata={"topic": "Light"}, idempotency_key="k")
        for _ in range(2)
    ]
    assert [one.created for one in made] == [True, False] and made[0].document.id == made[1].document.id
    document_id = made[0].document.id
    add = {"command": "add_child", "node": "/", "component": "lesson"}
    done = [changed(scene, document_id, add, idempotency_key="l") for _ in range(2)]
    assert done[0] == done[1] and done[0].made == ("/lesson-1",)
    with pytest.raises(IdempotencyConflict):
        changed(scene, document_id, add, add, idempotency_key="l")
    with pytest.raises(IdempotencyConflict):
        scene.store.documents.create(BLUEPRINT, by=Actor("p"), metadata={"topic": "Shade"}, idempotency_key="k")


def test_of_many_requests_with_one_key_one_is_done(scene: Scene) -> None:
    document_id = begun(scene)
    add = {"command": "add_child", "node": "/", "component": "lesson"}
    done = at_once(*[lambda: changed(scene, document_id, add, idempotency_key="k")] * 4)
    assert [one.made for one in done] == [("/lesson-1",)] * 4  # type: ignore[union-attr]
    assert len(scene.store.documents.state(document_id).nodes) == 2


def test_concurrent_writers_lose_no_update(scene: Scene) -> None:
    document_id = begun(scene, lessons=4)
    stores = [scene.store, another(scene)]

    def write(writer: int) -> None:
        documents = stores[writer % 2].documents
        for turn in range(10):
            author = person(scene.clock.now(), f"writer-{writer}")
            add = {
                "command": "add_child",
                "node": "/",
                "component": "lesson",
                "metadata": {"focus": f"{writer}.{turn}"},
            }
            documents.dispatch(document_id, commands(minutes(10 + turn, f"/lesson-{writer + 1}"), add), author)

    try:
        assert at_once(*[lambda one=one: write(one) for one in range(4)]) == [None] * 4
        state = scene.store.documents.state(document_id)
        assert state.version == 2 + 40
        lessons = state.children_of(state.root)
        assert [node.props["minutes"] for node in lessons[:4]] == [19] * 4
        assert {node.metadata["focus"] for node in lessons[4:]} == {f"{w}.{t}" for w in range(4) for t in range(10)}
        assert len({node.key for node in lessons}) == 44
        assert contents(state) == contents(stores[1].documents.state(document_id))
        versions = [one.version for one in scene.store.documents.history(document_id, limit=500).items]
        assert set(versions) == set(range(1, 43))
    finally:
        stores[1].close()


def test_documents_are_listed_newest_first_by_status_and_blueprint(scene: Scene) -> None:
    first, second, third = begun(scene), begun(scene), begun(scene, lessons=1)
    listed = scene.store.documents.list(limit=2)
    assert [one.id for one in listed.items] == [third, second]
    assert [one.id for one in scene.store.documents.list(cursor=listed.next_cursor).items] == [first]
    changed(scene, third, {"command": "set_value", "node": "/", "values": {"title": "All of light"}})
    assert [one.id for one in scene.store.documents.list(status="done").items] == [third]
    assert [one.id for one in scene.store.documents.list(status="pending").items] == [second, first]
    assert scene.store.documents.list(blueprint="catalogue").items == []
    assert len(scene.store.documents.list(blueprint=f"course:{BLUEPRINT.digest[7:19]}").items) == 3
    assert scene.store.documents.list(blueprint="course:000000000000").items == []
    with pytest.raises(BadCursor):
        scene.store.documents.list(cursor="nonsense")


def test_the_row_counts_what_the_nodes_are(scene: Scene) -> None:
    document_id = begun(scene, lessons=3)
    changed(scene, document_id, minutes(1))
    found = scene.store.documents.summary(document_id)
    assert (found.status, found.counts.pending, found.counts.done) == ("pending", 2, 2)


@pytest.mark.parametrize("document_id", [NOBODY, "nonsense", ""])
def test_a_document_that_is_not_there_is_told(scene: Scene, document_id: str) -> None:
    for act in (
        lambda: scene.store.documents.state(document_id),
        lambda: scene.store.documents.summary(document_id),
        lambda: scene.store.documents.history(document_id),
        lambda: changed(scene, document_id, minutes(1)),
    ):
        with pytest.raises(UnknownDocument, match="there is no document"):
            act()

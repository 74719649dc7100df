"""Files that people give to orders: stored in pieces, given, kept as long as the order's journal; on every store."""

import hashlib
from datetime import timedelta

import pytest

from mcc.contracts.attachments import StoredFile
from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewFork, NewOrder
from mcc.store.database.errors import CannotAttach, TooManyFiles, UnknownArtifact
from mcc.store.upkeep.retention import Cleared
from mcc.store.work.artifacts import ArtifactStore
from tests.conformance.store.scene import Held, Scene, ended, replied, started

DAY = 86_400


def stored(scene: Scene, *pieces: bytes, name: str = "notes.txt", principal: str = "someone") -> StoredFile:
    files, whole = scene.store.artifacts, b"".join(pieces)
    artifact_id = files.begin(principal, name)
    for number, piece in enumerate(pieces):
        files.append(artifact_id, principal, number, piece)
    return files.finish(artifact_id, hashlib.sha256(whole).hexdigest(), "text/plain", None)


def holding(scene: Scene, *files: StoredFile) -> Held:
    """A running order that has these files."""
    return scene.running(attachments=[file.id for file in files])


def finished(held: Held) -> Held:
    held.write(started(), replied(), ended())
    held.finish()
    return held


def cleared(scene: Scene) -> Cleared:
    return sum(scene.store.retention.clear(scene.clock.now() - timedelta(days=30)), Cleared())


def is_there(scene: Scene, file: StoredFile) -> bool:
    try:
        return b"".join(scene.store.artifacts.pieces(file.id)) != b""
    except UnknownArtifact:
        return False


def test_a_file_comes_back_as_it_was_stored(scene: Scene) -> None:
    file = stored(scene, b"one \xff", b"two", name="⟦ \u202e.txt")
    assert scene.store.artifacts.get(file.id, "operator") == file
    assert (file.name, file.bytes, file.width) == ("⟦ \u202e.txt", 8, None)
    assert [*scene.store.artifacts.pieces(file.id)] == [b"one \xff", b"two"]


def test_half_a_file_is_not_there_for_anybody(scene: Scene) -> None:
    half = scene.store.artifacts.begin("someone", "half.txt")
    scene.store.artifacts.append(half, "someone", 0, b"half")
    with pytest.raises(UnknownArtifact):
        scene.store.artifacts.get(half, "someone")
    with pytest.raises(CannotAttach, match=half):
        scene.place(attachments=[half])
    scene.store.artifacts.give_up(half)
    with pytest.raises(UnknownArtifact):
        scene.store.artifacts.append(half, "someone", 1, b"more")


def test_only_its_uploader_and_the_operator_reach_a_file(scene: Scene) -> None:
    file = stored(scene, b"hers", principal="anna")
    assert scene.store.artifacts.get(file.id, "anna") == scene.store.artifacts.get(file.id, "operator")
    with pytest.raises(UnknownArtifact):
        scene.store.artifacts.get(file.id, "bert")
    with pytest.raises(UnknownArtifact):
        scene.store.artifacts.remove(file.id, "bert")
    new = NewOrder(prompt="look", attachments=(file.id,))
    with pytest.raises(CannotAttach, match=file.id):
        scene.store.orders.place(new, by=Actor("bert"))
    assert scene.store.orders.place(new, by=Actor("anna")).order.attachments == (file.id,)
    # The operator by a token that may not reach the things of others.
    with pytest.raises(UnknownArtifact):
        scene.store.artifacts.remove(file.id, "operator")
    scene.store.artifacts.remove(file.id, "operator", anybodys=True)
    assert not is_there(scene, file)


@pytest.mark.parametrize("removed", [False, True])
def test_an_order_cannot_be_given_a_file_that_is_not_there(scene: Scene, removed: bool) -> None:
    file = stored(scene, b"text")
    if removed:
        scene.store.artifacts.remove(file.id, "someone")
    wanted = file.id if removed else fresh_id()
    with pytest.raises(CannotAttach, match=wanted):
        scene.place(attachments=[wanted])


def test_a_file_that_an_order_has_can_still_be_removed(scene: Scene) -> None:
    file = stored(scene, b"text")
    held = holding(scene, file)
    scene.store.artifacts.remove(file.id, "someone")
    assert not is_there(scene, file)
    assert scene.store.orders.get(held.order_id).attachments == (file.id,)


def test_reading_a_file_ends_when_it_is_removed_in_between(scene: Scene) -> None:
    file = stored(scene, b"one", b"two")
    pieces = scene.store.artifacts.pieces(file.id)
    assert next(pieces) == b"one"
    scene.store.artifacts.remove(file.id, "someone")
    with pytest.raises(UnknownArtifact):
        next(pieces)


def test_a_file_is_kept_for_a_day_without_an_order_and_as_long_as_the_journal_of_one(scene: Scene) -> None:
    alone, given = stored(scene, b"alone"), stored(scene, b"given")
    finished(holding(scene, given))
    assert cleared(scene).files == 0
    scene.clock.advance(DAY + 1)
    assert (cleared(scene).files, is_there(scene, alone), is_there(scene, given)) == (1, False, True)
    scene.clock.advance(31 * DAY)
    assert (cleared(scene).files, is_there(scene, given)) == (1, False)


def test_retries_and_forks_have_the_files_of_their_order(scene: Scene) -> None:
    file = stored(scene, b"text")
    first = finished(holding(scene, file))
    retried = scene.store.orders.retry(first.order_id, by=Actor("someone")).order
    forked = scene.store.orders.fork(first.order_id, NewFork(after=2, prompt="on"), by=Actor("someone")).order
    assert retried.attachments == forked.attachments == (file.id,)
    scene.clock.advance(31 * DAY)
    cleared(scene)
    # Both are unfinished.
    assert is_there(scene, file)


def test_what_is_gone_does_not_keep_an_order_from_being_retried(scene: Scene) -> None:
    file = stored(scene, b"text")
    first = finished(holding(scene, file))
    scene.store.artifacts.remove(file.id, "someone")
    assert scene.store.orders.retry(first.order_id, by=Actor("someone")).created


def test_files_without_an_order_are_bounded_for_each_principal(scene: Scene) -> None:
    files = ArtifactStore(scene.store.database, unattached_bytes=10)
    full = files.begin("anna", "full")
    files.append(full, "anna", 0, b"x" * 10)
    with pytest.raises(TooManyFiles):
        files.append(full, "anna", 1, b"x")
    other = files.begin("bert", "other")
    files.append(other, "bert", 0, b"x" * 10)
    whole = files.finish(full, "d" * 64, "text/plain", None)
    scene.store.orders.place(NewOrder(prompt="look", attachments=(whole.id,)), by=Actor("anna"))
    again = files.begin("anna", "again")
    files.append(again, "anna", 0, b"x" * 10)


def test_a_turn_with_files_is_no_steer(scene: Scene) -> None:
    file = stored(scene, b"text")
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    placed = scene.place("look", session_id=session, when_busy="steer", attachments=[file.id])
    assert placed.id != held.order_id

"""Memories that wait for a person: who sees them, what counts meanwhile, and what a decision does; on every store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from mcc.contracts.approvals import NoteItem
from mcc.contracts.callers import Actor
from mcc.contracts.ids import call_id
from mcc.contracts.journal import AgentStarted, ToolFinished
from mcc.contracts.notes import MAX_NOTES, DecideNote, NewNote, Note, NoteDecision
from mcc.contracts.record import ModelChoice
from mcc.store.database.errors import AlreadyDecided, TooManyNotes, UnknownNote
from mcc.store.work.notes import Writing
from tests.conformance.store.scene import Held, Scene

PROJECT = "project-1"


def write(scene: Scene, held: Held, index: int, text: str, *, waits: bool = True, name: str = "build") -> Note:
    call = call_id(held.origin.record_id or "", 1, index)
    writing = Writing(held.order_id, held.epoch, held.origin, call, PROJECT, tainted=waits, pending=waits)
    return scene.store.notes.write(writing, NewNote(kind="memory", name=name, text=text))


def forget(scene: Scene, held: Held, index: int, *, waits: bool) -> Note:
    call = call_id(held.origin.record_id or "", 1, index)
    writing = Writing(held.order_id, held.epoch, held.origin, call, PROJECT, tainted=waits, pending=waits)
    return scene.store.notes.delete(writing, "memory", "build")


def decide(scene: Scene, version: int, decision: NoteDecision) -> Note:
    asked = DecideNote(project=PROJECT, name="build", version=version, decision=decision)
    return scene.store.notes.decide(asked, by=Actor("operator"))


def texts(scene: Scene, held: Held | None = None) -> list[str]:
    """What agents of the session of this order are shown in a list; None: of any other session."""
    session = None if held is None else scene.store.orders.get(held.order_id).session_id
    listed = scene.store.notes.list(PROJECT, "memory", session or "another session")
    found = scene.store.notes.search(PROJECT, "make check", session_id=session or "another session")
    assert {note.text for note in listed} == {note.text for note in found}, "list and search show the same"
    return [note.text for note in listed]


def inbox(scene: Scene, status: str | None = "pending") -> list[tuple[int, str]]:
    items = scene.store.inbox.list(status).items  # type: ignore[arg-type]
    return [(item.version, item.status) for item in items if isinstance(item, NoteItem)]


def test_a_pending_note_is_seen_in_its_session_alone_and_what_counted_stays(scene: Scene) -> None:
    first, other = scene.running(), scene.running()
    write(scene, first, 0, "make check", waits=False)
    pending = write(scene, first, 1, "make check, but twice")
    assert (pending.state, pending.tainted, pending.version) == ("pending", True, 2)
    assert texts(scene) == texts(scene, other) == ["make check"]
    assert texts(scene, first) == ["make check", "make check, but twice"]
    assert scene.store.notes.get(PROJECT, "memory", "build").text == "make check"
    assert [note.text for note in scene.store.notes.find()] == ["make check"]
    assert [note.version for note in scene.store.notes.find(state="pending")] == [2]


def test_an_accepted_note_counts_everywhere_and_is_found_by_words(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "make check")
    assert texts(scene) == []
    with pytest.raises(UnknownNote):
        scene.store.notes.get(PROJECT, "memory", "build")
    scene.clock.advance(60)
    accepted = decide(scene, 1, "accept")
    assert (accepted.state, accepted.decided_by, accepted.decided_at) == ("accepted", "operator", scene.clock.now())
    assert accepted.verified_at == scene.clock.now(), "a person looked at it"
    assert texts(scene) == texts(scene, held) == ["make check"]
    assert write(scene, held, 1, "make check all", waits=False).version == 2
    assert texts(scene) == ["make check all"], "a version that counted once is in no search any more"


def test_a_rejected_note_is_seen_by_no_agent(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "make check")
    assert decide(scene, 1, "reject").state == "rejected"
    assert texts(scene) == texts(scene, held) == []
    with pytest.raises(UnknownNote):
        scene.store.notes.shown(PROJECT, "memory", "build", scene.store.orders.get(held.order_id).session_id)


def test_the_same_decision_again_changes_nothing_and_another_is_refused(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "make check")
    first = decide(scene, 1, "accept")
    scene.clock.advance(60)
    assert decide(scene, 1, "accept") == first
    with pytest.raises(AlreadyDecided, match="it is accepted"):
        decide(scene, 1, "reject")
    with pytest.raises(UnknownNote):
        decide(scene, 2, "accept")
    write(scene, held, 1, "make check all", waits=False)
    with pytest.raises(AlreadyDecided):
        decide(scene, 2, "accept")


def test_a_version_whose_place_was_taken_can_no_longer_be_accepted(scene: Scene) -> None:
    held, other = scene.running(), scene.running()
    write(scene, held, 0, "make check")
    write(scene, other, 0, "make check all", waits=False)
    assert texts(scene, held) == ["make check all"]
    with pytest.raises(AlreadyDecided, match="a later version took its place"):
        decide(scene, 1, "accept")
    assert (inbox(scene), inbox(scene, "void")) == ([], [(1, "void")])


def test_of_one_session_only_the_newest_pending_version_waits(scene: Scene) -> None:
    held, other = scene.running(), scene.running()
    write(scene, held, 0, "make check 1")
    write(scene, other, 0, "make check 2")
    write(scene, held, 1, "make check 3")
    assert set(inbox(scene)) == {(3, "pending"), (2, "pending")}
    decide(scene, 2, "accept")
    assert inbox(scene) == [(3, "pending")]
    decide(scene, 3, "accept")
    assert texts(scene) == ["make check 3"]


def test_the_same_pending_text_again_is_no_new_version(scene: Scene) -> None:
    held = scene.running()
    assert write(scene, held, 0, "make check").version == write(scene, held, 1, "make check").version == 1
    assert len(scene.store.notes.history(PROJECT, "memory", "build")) == 1


def test_who_read_text_from_outside_verifies_nothing(scene: Scene) -> None:
    held = scene.running()
    first = write(scene, held, 0, "make check", waits=False)
    scene.clock.advance(60)
    assert write(scene, held, 1, "make check") == first
    assert scene.store.notes.get(PROJECT, "memory", "build").verified_at == first.verified_at


def test_a_deletion_waits_too(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "make check", waits=False)
    assert forget(scene, held, 1, waits=True).state == "pending"
    assert texts(scene) == texts(scene, held) == ["make check"]
    [item] = scene.store.inbox.list("pending").items
    assert isinstance(item, NoteItem) and item.deletes
    decide(scene, 2, "accept")
    assert texts(scene) == texts(scene, held) == []


def test_a_person_who_deletes_a_note_decides_what_waited(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "make check", waits=False)
    write(scene, held, 1, "make check all")
    scene.store.notes.remove(PROJECT, "memory", "build", by=Actor("operator"))
    assert texts(scene, held) == [] and inbox(scene) == []


def test_what_nobody_verified_for_long_is_stale_and_comes_last(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "make check make check", waits=False, name="a")
    scene.clock.advance(timedelta(days=91).total_seconds())
    held = scene.running()
    write(scene, held, 0, "make check", waits=False, name="b")
    for notes in (scene.store.notes.list(PROJECT, "memory"), scene.store.notes.search(PROJECT, "make check", most=2)):
        assert [(note.name, note.stale) for note in notes] == [("b", False), ("a", True)]
    assert [note.name for note in scene.store.notes.search(PROJECT, "make check", most=1)] == ["b"]
    assert not write(scene, held, 1, "make check make check", waits=False, name="a").stale
    assert [note.stale for note in scene.store.notes.list(PROJECT, "memory")] == [False, False]


def test_pending_notes_are_items_of_the_inbox_in_pages(scene: Scene) -> None:
    held = scene.running()
    for index in range(5):
        scene.clock.advance(1)
        write(scene, held, index, "make check", name=f"note {index}")
    decided = DecideNote(project=PROJECT, name="note 4", version=1, decision="reject")
    scene.store.notes.decide(decided, by=Actor("operator"))
    names, cursor = list[str](), None
    while True:
        page = scene.store.inbox.list(limit=2, cursor=cursor)
        names += [f"{item.name} {item.status}" for item in page.items if isinstance(item, NoteItem)]
        if (cursor := page.next_cursor) is None:
            break
    assert names == ["note 4 denied", *(f"note {index} pending" for index in (3, 2, 1, 0))]
    assert len(scene.store.inbox.list("pending", order_id=held.order_id).items) == 4
    assert scene.store.inbox.list("pending", order_id=scene.place().id).items == []
    assert scene.store.inbox.list("pending", kinds={"question"}).items == []
    assert scene.store.load.load().pending["note"].items == 4


def test_pending_notes_count_towards_the_notes_that_a_project_may_have(scene: Scene) -> None:
    held = scene.running()
    for index in range(MAX_NOTES):
        write(scene, held, index, "x", name=f"note {index}", waits=index % 2 == 0)
    with pytest.raises(TooManyNotes):
        write(scene, held, MAX_NOTES, "x", name="one more")
    assert write(scene, held, MAX_NOTES + 1, "y", name="note 4").version == 2


def test_ten_who_decide_at_once_agree(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "make check")

    def one(number: int) -> str:
        try:
            return decide(scene, 1, "accept" if number % 2 else "reject").state
        except AlreadyDecided:
            return "refused"

    with ThreadPoolExecutor(10) as pool:
        answers = [*pool.map(one, range(10))]
    state = scene.store.notes.history(PROJECT, "memory", "build")[0].state
    assert sorted(answers) == sorted([state] * 5 + ["refused"] * 5)


def started(*, tainted: bool) -> AgentStarted:
    return AgentStarted(
        title="t",
        prompt="p",
        model=ModelChoice(requested="m", effective="m"),
        tools=(),
        definition_digest="d",
        setup_digest="s",
        tainted=tainted,
    )


def is_tainted(scene: Scene, **fields: Any) -> bool:
    return scene.store.transcripts.past(scene.place(**fields)).tainted


@pytest.mark.parametrize("by", ["start", "result", "nothing"])
def test_a_session_that_showed_text_from_outside_says_so_to_its_later_turns(scene: Scene, by: str) -> None:
    held = scene.running()
    held.write(started(tainted=by == "start"))
    held.write(ToolFinished(call_id="c", name="web_fetch", content="x", is_error=False, tainted=by == "result"))
    order = scene.store.orders.get(held.order_id)
    assert not scene.store.transcripts.past(order).tainted, "of the turns before it"
    held.finish()
    for _ in range(2):
        assert is_tainted(scene, session_id=order.session_id) == (by != "nothing")
    assert not is_tainted(scene), "another session"


def test_pruning_leaves_what_counts_and_what_waits(scene: Scene) -> None:
    held, other = scene.running(), scene.running()
    write(scene, held, 0, "1", waits=False)
    write(scene, held, 1, "2", waits=False)
    write(scene, held, 2, "3")
    decide(scene, 3, "reject")
    write(scene, other, 0, "4")
    scene.clock.advance(3_600)
    list(scene.store.retention.clear(scene.clock.now()))
    assert [note.text for note in scene.store.notes.history(PROJECT, "memory", "build")] == ["4", "2"]

"""Notes: versions, repeated calls, search by words, fencing by the order's row; on every store."""

from datetime import timedelta

import pytest

from mcc.contracts.ids import call_id
from mcc.contracts.journal import ToolStarted
from mcc.contracts.notes import MAX_NOTES, NewNote, Note
from mcc.store.database.errors import StoreFenced, TooManyNotes, UnknownNote
from mcc.store.rows.note_rows import words_of
from mcc.store.work.notes import Writing
from tests.conformance.store.scene import Held, Scene

PROJECT = "project-1"


def writing(held: Held, index: int = 0, project: str = PROJECT) -> Writing:
    return Writing(held.order_id, held.epoch, held.origin, call_id(held.origin.record_id or "", 1, index), project)


def memory(name: str, text: str, **more: object) -> NewNote:
    return NewNote.model_validate({"kind": "memory", "name": name, "text": text, **more})


def write(scene: Scene, held: Held, index: int, name: str, text: str, **more: object) -> Note:
    return scene.store.notes.write(writing(held, index), memory(name, text, **more))


def names(scene: Scene, question: str, project: str = PROJECT) -> list[str]:
    return [note.name for note in scene.store.notes.search(project, question)]


def test_a_note_says_who_wrote_it_and_from_which_entry(scene: Scene) -> None:
    held = scene.running()
    call = writing(held).call_id
    held.write(ToolStarted(call_id=call, round=1, index=0, name="memory_write", arguments={}, idempotent=True))
    written = write(scene, held, 0, "build", "make check takes a minute")
    assert (written.order_id, written.record_id, written.agent) == (held.order_id, held.origin.record_id, "master")
    assert (written.version, written.seq) == (1, held.last_seq)
    assert scene.store.notes.get(PROJECT, "memory", "build") == written


def test_a_new_text_is_a_new_version_and_the_old_one_is_kept(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "build", "slow")
    write(scene, held, 1, "build", "fast", title="How it is built")
    assert [(one.version, one.text) for one in scene.store.notes.history(PROJECT, "memory", "build")] == [
        (2, "fast"),
        (1, "slow"),
    ]
    assert [one.title for one in scene.store.notes.list(PROJECT, "memory")] == ["How it is built"]


def test_the_same_text_again_verifies_the_note(scene: Scene) -> None:
    held = scene.running()
    first = write(scene, held, 0, "build", "slow")
    scene.clock.advance(60)
    again = write(scene, held, 1, "build", "slow")
    assert (again.version, again.written_at) == (1, first.written_at)
    assert again.verified_at == first.verified_at + timedelta(seconds=60)
    assert scene.store.notes.get(PROJECT, "memory", "build") == again


def test_a_call_that_is_repeated_writes_once(scene: Scene) -> None:
    held = scene.running()
    first = write(scene, held, 0, "build", "slow")
    write(scene, held, 1, "build", "fast")
    assert write(scene, held, 0, "build", "slow") == first
    assert scene.store.notes.get(PROJECT, "memory", "build").text == "fast"


def test_a_fenced_order_writes_no_note(scene: Scene) -> None:
    held = scene.running()
    scene.lose()
    with pytest.raises(StoreFenced):
        write(scene, held, 0, "build", "slow")
    with pytest.raises(StoreFenced):
        scene.store.notes.delete(writing(held), "memory", "build")
    assert scene.store.notes.list(PROJECT, "memory") == []


def test_words_are_found_whatever_their_case_and_what_parts_them(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "build", "Run `make check`; see src/app.py")
    write(scene, held, 1, "summer", "ÉTÉ")
    write(scene, held, 2, "names", "read_file is a tool")
    assert names(scene, "MAKE") == ["build"]
    assert names(scene, "app") == ["build"]
    assert names(scene, "été") == ["summer"]
    assert names(scene, "file") == ["names"]
    assert names(scene, "nothing of this") == []


def test_what_says_more_of_the_question_comes_first(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "one", "release notes, and much else that is about other things altogether")
    write(scene, held, 1, "both", "release branch")
    assert names(scene, "release branch")[0] == "both"


@pytest.mark.parametrize("question", ["", "'\"", 'a" OR "b', "x' | 'y", "NEAR(a b)", "\x00 \ud800", "(" * 50, "-make"])
def test_no_question_is_a_command(scene: Scene, question: str) -> None:
    held = scene.running()
    write(scene, held, 0, "build", "make")
    assert names(scene, question) == (["build"] if "make" in question else [])


def test_a_project_sees_nothing_of_another(scene: Scene) -> None:
    held = scene.running()
    scene.store.notes.write(writing(held, 0, "other"), memory("build", "make"))
    assert names(scene, "make") == []
    assert scene.store.notes.list(PROJECT, "memory") == []
    with pytest.raises(UnknownNote):
        scene.store.notes.get(PROJECT, "memory", "build")


def test_what_was_deleted_is_not_found_and_can_be_written_anew(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "build", "make")
    assert scene.store.notes.delete(writing(held, 1), "memory", "build").deleted
    assert names(scene, "make") == []
    assert scene.store.notes.list(PROJECT, "memory") == []
    with pytest.raises(UnknownNote):
        scene.store.notes.delete(writing(held, 2), "memory", "build")
    assert write(scene, held, 3, "build", "make again").version == 3
    assert names(scene, "make") == ["build"]


def test_what_has_expired_is_neither_listed_nor_found(scene: Scene) -> None:
    held = scene.running()
    write(scene, held, 0, "build", "make", expires_at=scene.clock.now() + timedelta(hours=1))
    assert names(scene, "make") == ["build"]
    scene.clock.advance(3_601)
    assert names(scene, "make") == []
    assert scene.store.notes.list(PROJECT, "memory") == []
    assert scene.store.notes.get(PROJECT, "memory", "build").text == "make"


def test_notes_without_a_name_are_numbered(scene: Scene) -> None:
    held = scene.running()
    for index in range(3):
        task = NewNote(kind="task", title=f"step {index}", status="open")
        assert scene.store.notes.write(writing(held, index), task).name == str(index + 1)
    done = scene.store.notes.write(writing(held, 3), NewNote(kind="task", name="2", status="done"))
    assert (done.title, done.status, done.version) == ("step 1", "done", 2)


def test_a_note_that_is_not_there_needs_a_title_or_a_text(scene: Scene) -> None:
    with pytest.raises(UnknownNote):
        scene.store.notes.write(writing(scene.running()), NewNote(kind="task", name="9", status="done"))


def test_a_project_has_so_many_notes_of_a_kind(scene: Scene) -> None:
    held = scene.running()
    for index in range(MAX_NOTES):
        write(scene, held, index, f"note {index}", "x")
    with pytest.raises(TooManyNotes):
        write(scene, held, MAX_NOTES, "one more", "x")
    assert write(scene, held, MAX_NOTES + 1, "note 5", "y").version == 2


def test_words_are_runs_of_letters_and_digits() -> None:
    assert words_of("src/App.py: 1.5 Straße_x") == ["src", "app", "py", "1", "5", "strasse", "x"]

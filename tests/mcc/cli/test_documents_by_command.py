"""The commands `mcc documents` against a service that listens on a port."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcc.contracts.callers import Actor
from mcc.documents.blueprint import Blueprint
from mcc.store.store import Store, open_store
from mcc.testing import temporary_store
from mcc.testing.served import Served
from tests.mcc.api.test_documents_over_http import COURSE
from tests.mcc.api.test_orders_over_http import NOBODY
from tests.mcc.cli.test_commands import Done, mcc

LESSON = '{"command": "add_child", "node": "/", "component": "lesson", "metadata": {"focus": "Green"}}'


@dataclass(frozen=True)
class Desk:
    """A person at a terminal, with a document in the service."""

    served: Served
    store: Store
    home: Path
    id: str

    def __call__(self, *arguments: str, given: str | None = None) -> Done:
        told = {"MCC_URL": self.served.url, "MCC_TOKEN": self.served.token}
        return mcc("documents", *arguments, data_dir=self.home / "data", cwd=self.home, given=given, **told)

    @property
    def version(self) -> int:
        return self.store.documents.summary(self.id).version


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Desk]:
    store = temporary_store()
    made = store.documents.create(Blueprint.parse(COURSE), by=Actor("operator"), metadata={"topic": "Light"})
    with Served(store, tmp_path / "data") as served:
        yield Desk(served, store, tmp_path, made.document.id)
    store.close()


def test_documents_are_listed_and_shown_by_any_of_their_names(documents: Desk) -> None:
    listed = documents("list").stdout
    assert documents.id in listed and "short_course" in listed and "Light" in listed
    for name in (documents.id, "@last", documents.id[-8:], documents.id[:30]):
        assert f"id         {documents.id}\n" in documents("show", name).stdout
    assert documents("show", "12").code == 2
    assert json.loads(documents("list", "--json", "--status", "done").stdout)["items"] == []


def test_a_document_is_changed_and_its_nodes_say_what_they_lack(documents: Desk) -> None:
    added = documents("run", "@last", "-", given=f"[{LESSON}, {LESSON}]")
    assert (added.code, added.stdout) == (0, "/lesson-1\n/lesson-2\n")
    assert added.stderr == "version 2, pending; changed: /lesson-1, /lesson-2, /\n"
    assert documents("set", "@last", "/lesson-2", "minutes=40", "focus=Red", "builds_on=/lesson-1").code == 0
    tree = documents("show", "@last").stdout.partition("\n\n")[2]
    assert tree == ("· /  pending: props.title, rules[0]\n  · lesson-1  pending: props.minutes\n  ✓ lesson-2\n")
    node = documents("show", "@last", "--node", "/lesson-2").stdout
    assert "  minutes: 40  (person at version 3, held)\n" in node
    assert "  grade: 7  (binding of / metadata.grade)\n" in node and "  focus: Red" in node
    assert documents("set", "@last", "/lesson-2", "minutes=null").code == 0
    assert "· lesson-2  pending: props.minutes" in documents("show", "@last").stdout
    assert "✓ lesson-2" in documents("show", "@last", "--version", "3").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("set", "@last", "/", "titel=x"), 2, 'did you mean "title"'),
        (("set", "@last", "/", "grade=many"), 2, "'many' is no number"),
        (("set", "@last", "/lesson-9", "minutes=5"), 1, "/lesson-9"),
        (("run", "@last", "nowhere.json"), 2, "cannot be read"),
        (("show", "@last", "--version", "99"), 1, "no version 99"),
        (("export", "@last", "--out", "x.pdf"), 2, "ends in none of"),
        (("accept", "@last", "/", "--field", "title"), 2, "mcc: props.title of /"),
        (("accept", "@last", "/", "--field", "nope"), 2, "mcc: a course has no nope."),
    ],
)
def test_what_cannot_be_done_is_a_sentence(documents: Desk, arguments: tuple[str, ...], code: int, words: str) -> None:
    told = documents(*arguments)
    assert (told.code, told.stdout) == (code, ""), told.stderr
    assert words in told.stderr
    assert documents.version == 1


def test_what_was_done_and_what_differs_is_told_and_taken_back(documents: Desk) -> None:
    documents("run", "@last", "-", given=LESSON)
    documents("set", "@last", "/", "title=Light and leaves", "grade=8")
    history = documents("history", "@last").stdout.splitlines()
    assert history[0].split() == ["AT", "VERSION", "BY", "COMMAND", "NODE", "VALUES"]
    assert "props.title – → Light and leaves" in "\n".join(history)
    assert documents("diff", "@last", "2").stdout == (
        "~ /  course\n    metadata.grade: 7 → 8\n    props.title: – → Light and leaves\n"
        "~ /lesson-1  lesson\n    props.grade: 7 → 8\n"
    )
    assert documents("undo", "@last").code == 0
    assert documents("diff", "@last", "2").stderr == "Nothing differs between version 2 and version 4.\n"
    assert documents("redo", "@last").code == 0
    assert json.loads(documents("show", "@last", "--json").stdout)["nodes"][0]["props"]["title"] == "Light and leaves"


def test_values_are_released_and_held_again(documents: Desk) -> None:
    def held() -> bool:
        return documents.store.documents.state(documents.id).root.provenance["metadata.topic"].held

    assert held()
    assert documents("release", "@last").code == 0 and not held()
    assert documents("accept", "@last", "/", "--field", "metadata.topic").code == 0 and held()


def test_a_node_that_changed_meanwhile_is_named(documents: Desk) -> None:
    documents("run", "@last", "-", given=LESSON)
    documents("set", "@last", "/lesson-1", "minutes=5")
    command = '{"command": "set_value", "node": "/lesson-1", "values": {"minutes": 10}}'
    told = documents("run", "@last", "-", "--expected-version", "2", given=command)
    assert told.code == 1 and "/lesson-1" in told.stderr


@pytest.mark.parametrize(("name", "words"), [("x.json", '"path":"/"'), ("x.md", "Light"), ("x.html", "<html")])
def test_a_document_is_exported_as_the_file_says(documents: Desk, name: str, words: str) -> None:
    told = documents("export", "@last", "--out", name)
    assert (told.code, told.stdout, told.stderr) == (0, "", f"written: {name}\n")
    assert words in (documents.home / name).read_text()


def test_without_a_file_the_export_is_on_stdout(documents: Desk) -> None:
    assert json.loads(documents("export", "@last").stdout)["id"] == documents.id
    assert '"component":"course"' in documents("export", "@last", "--format", "jsonl").stdout


def test_a_deleted_document_is_gone(documents: Desk) -> None:
    assert documents("delete", documents.id).code == 0
    assert documents("show", documents.id).code == 1
    assert documents("list").stdout == "No document.\n"


def test_where_nothing_waits_the_inbox_says_so(documents: Desk) -> None:
    told = {"MCC_URL": documents.served.url, "MCC_TOKEN": documents.served.token}
    here = {"data_dir": documents.home / "data", "cwd": documents.home, **told}
    assert mcc("inbox", **here).stdout == "Nothing waits for you.\n"  # type: ignore[arg-type]
    refused = mcc("orders", "approve", "@last", **here)  # type: ignore[arg-type]
    assert refused.code == 1 and "mcc inbox" in refused.stderr


def test_without_a_service_documents_are_read_from_the_database(tmp_path: Path) -> None:
    assert mcc("db", "upgrade", data_dir=tmp_path).code == 0
    store = open_store(f"sqlite:///{tmp_path / 'mcc.db'}")
    made = store.documents.create(Blueprint.parse(COURSE), by=Actor("operator"), metadata={"topic": "Light"})
    store.close()
    assert made.document.id in mcc("documents", "list", data_dir=tmp_path).stdout
    assert "topic: Light" in mcc("documents", "show", "@last", "--node", "/", data_dir=tmp_path).stdout
    assert "create" in mcc("documents", "history", made.document.id[-6:], data_dir=tmp_path).stdout
    assert mcc("documents", "diff", "@last", "1", data_dir=tmp_path).code == 0
    assert json.loads(mcc("documents", "export", "@last", data_dir=tmp_path).stdout)["title"] == "Light"
    for wrong in (("show", "@last", "--node", "/x"), ("show", "@last", "--version", "9"), ("show", NOBODY)):
        told = mcc("documents", *wrong, data_dir=tmp_path)
        assert told.code == 1 and "Traceback" not in told.stderr
    assert mcc("documents", "delete", "@last", data_dir=tmp_path).code == 3

"""Approvals and questions of a followed order, asked at the terminal, and the effect of each answer."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import pytest

from mcc.cli.inbox import Prompt, whole_of
from mcc.client import MCC
from mcc.contracts.approvals import AnyItem
from mcc.contracts.callers import Actor
from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked, ShownPreview
from mcc.contracts.invisible import escape_invisible
from mcc.contracts.order import NewOrder
from mcc.contracts.permission import SavedRule, Why
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import Served
from mcc.view.inbox import PREVIEW_LINES, in_full

CALL = ApprovalRequested(
    approval_id="a1",
    call_id="c1",
    tool="write_file",
    arguments={"path": "out\x1b[2J.txt"},
    digest="sha256:0",
    preview=ShownPreview(kind="diff", text="+written"),
    would_save=SavedRule(key="write_file"),
)
QUESTION = QuestionAsked(question_id="q1", call_id="c2", question="Which?", choices=("one", "two"), default="one")


class Desk:
    def __init__(self, store: Store, client: MCC) -> None:
        self.store, self.client = store, client
        placed = store.orders.place(NewOrder(prompt="Go."), by=Actor("operator")).order
        self.held: HeldOrder = HandDrone(store).claim(placed.id)
        self.held.start("Go.")

    def asked(self, fact: ApprovalRequested | QuestionAsked, *lines: str) -> AnyItem:
        """The item, after the person has typed these lines, and then the end of input."""
        self.held.write(fact)
        typed = iter(lines)
        prompt = Prompt(self.client, self.held.id, lambda *_: next(typed, None))
        for entry in self.store.journal.read(self.held.id):
            prompt.see(entry, nullcontext)
        return self.store.inbox.list().items[0]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = temporary_store()
    with Served(store, tmp_path / "data") as served, MCC(served.url, token=served.token) as client:
        yield Desk(store, client)
    store.close()


@pytest.mark.parametrize(
    ("lines", "status", "note", "granted"),
    [
        (("y",), "approved", None, 0),
        (("", "YES"), "approved", None, 0),
        (("a",), "approved", None, 1),
        (("n",), "denied", None, 0),
        (("Not on Fridays",), "denied", "Not on Fridays", 0),
        ((), "pending", None, 0),
    ],
)
def test_a_call_is_decided_as_the_person_types(
    desk: Desk,
    capsys: pytest.CaptureFixture[str],
    lines: tuple[str, ...],
    status: str,
    note: str | None,
    granted: int,
) -> None:
    item = desk.asked(CALL, *lines)
    assert item.kind == "approval" and (item.status, item.note) == (status, note)
    assert len(desk.client.grants.list().items) == granted
    shown = capsys.readouterr().err
    assert "write_file" in shown and "+written" in shown and "\x1b" not in shown


def test_v_shows_all_of_a_preview_that_was_cut(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    whole = "".join(f"line {number}\x1b]0;\u202e\n" for number in range(5_000)) + "; touch x\n"
    artifact = desk.store.texts.keep(whole, owner=desk.held.id)
    digest = sha256(whole.encode()).hexdigest()
    cut = ShownPreview(kind="text", text="line 0\n[…]\n", artifact=artifact, sha256=digest, hidden=10_000)
    item = desk.asked(CALL.model_copy(update={"preview": cut}), "v", "y")
    assert item.kind == "approval" and item.status == "approved"
    first, _, second = capsys.readouterr().err.partition("wants to use")[2].partition("wants to use")
    assert "touch x" not in first and f"sha256 {digest}" in first and "10,000 characters" in first
    assert escape_invisible(whole) in second and "[cut" not in second


def test_v_shows_what_did_not_fit_the_prompt(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(f"+line {number}" for number in range(PREVIEW_LINES + 1))
    desk.asked(CALL.model_copy(update={"preview": ShownPreview(kind="diff", text=text)}), "v", "n")
    first, _, second = capsys.readouterr().err.partition("wants to use")[2].partition("wants to use")
    assert f"+line {PREVIEW_LINES}\n" not in first and "1 more lines" in first
    assert f"+line {PREVIEW_LINES}\n" in second


def test_nothing_is_approved_by_looking(desk: Desk) -> None:
    assert desk.asked(CALL, "v", "view").status == "pending"


def test_an_item_is_shown_whole_where_its_preview_was_cut(desk: Desk) -> None:
    whole = "x" * 30_000 + "\u202e; touch x"
    artifact = desk.store.texts.keep(whole, owner=desk.held.id)
    item = desk.asked(CALL.model_copy(update={"preview": ShownPreview(kind="text", text="x", artifact=artifact)}))
    assert whole_of(desk.client, item) == whole
    assert "⟦U+202E⟧; touch x" in in_full(item, whole=whole)


@pytest.mark.parametrize(("lines", "answer"), [(("2",), "two"), (("",), "one"), (("neither",), "neither"), ((), None)])
def test_a_question_is_answered_by_a_number_a_text_or_the_default(
    desk: Desk, lines: tuple[str, ...], answer: str | None
) -> None:
    item = desk.asked(QUESTION, *lines)
    assert item.kind == "question" and item.answer == answer


def test_what_was_decided_elsewhere_is_not_asked_here(desk: Desk) -> None:
    desk.held.write(CALL)
    desk.client.inbox.deny("a1")
    read: list[str] = []

    def line(prompt: str, is_over: Callable[[], bool]) -> str | None:
        read.append(prompt)
        return "y"

    for entry in desk.store.journal.read(desk.held.id):
        Prompt(desk.client, desk.held.id, line).see(entry, nullcontext)
    assert read == [] and desk.store.approvals.get("a1").status == "denied"


def test_a_question_that_was_decided_elsewhere_meanwhile_is_taken_back(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.held.write(CALL)

    def line(prompt: str, is_over: Callable[[], bool]) -> str | None:
        assert not is_over()
        desk.client.inbox.approve("a1")
        assert is_over()
        return None

    for entry in desk.store.journal.read(desk.held.id):
        Prompt(desk.client, desk.held.id, line).see(entry, nullcontext)
    assert "Nothing to answer any more" in capsys.readouterr().err


def test_a_long_rule_is_broken_between_its_words_and_what_would_be_done_is_not_broken_at_all(desk: Desk) -> None:
    rule = 'argv[0] == "git" && size(argv) > 1 && argv[1] == "push" && args.command.startsWith("git push origin")'
    preview = ShownPreview(kind="diff", text="+" + "a long line of a file " * 8)
    fields = {"why": Why(layer="order", key="run_shell", when=rule), "preview": preview}
    item = desk.asked(CALL.model_copy(update=fields))
    lines = in_full(item, width=80).split("\n")
    assert preview.text in lines and max(len(line) for line in lines if line != preview.text) <= 80
    rest = "\n".join(line for line in lines if line != preview.text)
    assert rule in " ".join(rest.split())


def test_the_terminal_is_read_only_until_it_is_over() -> None:
    ours, theirs = os.pipe()
    program = "from mcc.view.prompting import read_line; print(read_line('? ', lambda: True))"
    child = subprocess.run([sys.executable, "-c", program], stdin=ours, capture_output=True, timeout=30, text=True)
    os.close(ours)
    os.close(theirs)
    assert child.stdout == "None\n", "nothing was typed, and the input did not end"

"""`mcc inbox ID`: what decides an item stands below it, and where the wrong command was given."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.ids import call_id
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.notes import NewNote
from mcc.contracts.order import NewOrder
from mcc.contracts.questions import OneQuestion
from mcc.store.work.notes import Writing
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner

Mcc = Callable[..., Result]
TWO = (OneQuestion(id="db", question="Which database?"), OneQuestion(id="the port", question="Which port?"))


@pytest.fixture
def held() -> Iterator[HeldOrder]:
    store = temporary_store()
    claimed = HandDrone(store).claim(store.orders.place(NewOrder(prompt="Go."), by=Actor("test")).order.id)
    claimed.start()
    claimed.write(QuestionAsked(question_id="que-1", call_id="c", question="Which database?", questions=TWO))
    call = call_id(claimed.master.record_id or "", 1, 0)
    writing = Writing(claimed.id, claimed.claim.epoch, claimed.master, call, "project", tainted=True, pending=True)
    store.notes.write(writing, NewNote(kind="memory", name="to deploy", text="Everybody deploys."))
    yield claimed
    store.close()


@pytest.fixture
def mcc(held: HeldOrder, tmp_path: Path) -> Iterator[Mcc]:
    with Served(held.store, tmp_path) as served:
        environment = {"MCC_URL": served.url, "MCC_TOKEN": TOKEN}
        yield lambda *words: CliRunner().invoke(app, words, env=environment)


def test_each_item_says_which_command_decides_it(mcc: Mcc) -> None:
    ids = {item["kind"]: item["id"] for item in json.loads(mcc("inbox", "--json").stdout)["items"]}
    answers = "mcc orders answer que-1 db=TEXT 'the port=TEXT' (or --decline)"
    for kind, decides in (("question", answers), ("note", "mcc notes accept 'to deploy' (or reject)")):
        shown = mcc("inbox", ids[kind]).stdout.splitlines()[-1].strip()
        assert shown == decides
        refused = mcc("orders", "approve", ids[kind])
        assert refused.exit_code == 2 and decides in refused.stderr
        command = shlex.split(decides.removeprefix("mcc ").partition(" (")[0].replace("TEXT", "x"))
        assert mcc(*command).exit_code == 0, command
        assert "(or" not in mcc("inbox", ids[kind], "--status", "all").stdout, "it is decided"


def test_who_answers_a_note_is_told_how_it_is_accepted(mcc: Mcc) -> None:
    note_id = next(item["id"] for item in json.loads(mcc("inbox", "--json").stdout)["items"] if item["kind"] == "note")
    refused = mcc("orders", "answer", note_id, "yes")
    assert refused.exit_code == 2 and "mcc notes accept 'to deploy'" in refused.stderr


def test_a_late_answer_reaches_the_question_of_an_order_of_which_a_note_still_waits(held: HeldOrder, mcc: Mcc) -> None:
    held.finish()
    told = mcc("orders", "answer", held.id, "db=SQLite", "the port=80")
    assert told.exit_code == 0 and "next turn is told it" in told.stderr
    again = ("orders", "answer", held.id, "db=SQLite", "the port=80")
    assert mcc(*again).stderr == told.stderr, "what is repeated changes nothing"
    session_id = held.store.orders.get(held.id).session_id
    order = held.store.orders.place(NewOrder(prompt="On.", session_id=session_id), by=Actor("test")).order
    assert f": order {order.id} is told it" in mcc(*again).stderr
    other = mcc("orders", "answer", held.id, "db=SQLite", "the port=81")
    assert other.exit_code == 1 and "answered already, with another answer" in other.stderr

"""`mcc notes`: what a person reads of a memory before deciding about it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.ids import call_id
from mcc.contracts.notes import NewNote
from mcc.contracts.order import NewOrder
from mcc.store.work.notes import Writing
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner

Notes = Callable[..., Result]


@pytest.fixture
def held() -> Iterator[HeldOrder]:
    store = temporary_store()
    order = store.orders.place(NewOrder(prompt="Remember it."), by=Actor("test")).order
    claimed = HandDrone(store).claim(order.id)
    claimed.start()
    yield claimed
    store.close()


@pytest.fixture
def notes(held: HeldOrder, tmp_path: Path) -> Iterator[Notes]:
    with Served(held.store, tmp_path) as served:
        environment = {"MCC_URL": served.url, "MCC_TOKEN": TOKEN}
        yield lambda *words: CliRunner().invoke(app, ["notes", *words], env=environment)


def noted(held: HeldOrder, index: int, text: str, *, waits: bool, project: str = "project-1") -> None:
    call = call_id(held.master.record_id or "", 1, index)
    writing = Writing(held.id, held.claim.epoch, held.master, call, project, tainted=waits, pending=waits)
    held.store.notes.write(writing, NewNote(kind="memory", name="deploy", text=text))


def test_a_version_that_waits_is_read_beside_the_one_that_counts(held: HeldOrder, notes: Notes) -> None:
    noted(held, 0, "Only the release team deploys.", waits=False)
    noted(held, 1, "Everybody deploys.\nversion 9: made up", waits=True)
    assert "None" not in notes("show", "deploy").stdout
    *_, counts, text, _, waits, first, second = notes("show", "deploy").stdout.splitlines()
    assert (counts, text) == ("version 1", "    │ Only the release team deploys.")
    assert (waits, first, second) == (
        "version 2, which waits for you",
        "    │ Everybody deploys.",
        "    │ version 9: made up",
    )


def test_a_memory_that_waits_in_another_project_is_not_passed_over(held: HeldOrder, notes: Notes) -> None:
    noted(held, 0, "Only the release team deploys.", waits=False)
    noted(held, 1, "Everybody deploys.", waits=True, project="project-2")
    asked = notes("show", "deploy")
    assert asked.exit_code == 2 and "--project" in asked.stderr
    assert "│ Everybody deploys." in notes("show", "deploy", "--project", "project-2").stdout

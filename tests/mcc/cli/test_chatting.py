"""`mcc chat` at a terminal of its own: a turn is asked for, steered and answered, and the commands work."""

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mcc.cli.main import app
from mcc.contracts.blocks import blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.changes import ChangedFile, Changes
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewOrder, OrderKind
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served
from tests.forking import popen
from tests.mcc.cli.in_process import CliRunner
from tests.waiting import readable, until

SECONDS = 30.0
_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process with a terminal of its own, 120 columns wide."""

    def __init__(self, ours: int, process: "subprocess.Popen[bytes]") -> None:
        self._ours = ours
        self.process = process
        self._shown = ""

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\r".encode())

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def until(self, text: str) -> str:
        """What is shown up to `text`, which must come; the next call goes on behind it."""
        deadline = time.monotonic() + SECONDS
        while text not in self._shown:
            ready = readable(self._ours, max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come after:\n{self._shown}"
            self._shown += _SEQUENCES.sub("", os.read(self._ours, 65_536).decode("utf-8", "replace"))
        before, _, self._shown = self._shown.partition(text)
        return before


@contextmanager
def chat(service: Served, work: Path, *options: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
    # The terminal of a test does not answer where its cursor is.
    here = {
        "MCC_URL": service.url,
        "MCC_TOKEN": TOKEN,
        "MCC_DATA_DIR": str(work.parent / "data"),
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    window = {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [sys.executable, "-m", "mcc.cli.main", "chat", *options]
    with popen.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**own, **here, **window}, cwd=work
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            os.close(ours)


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    for name in ("data", "work"):
        (tmp_path / name).mkdir()
    with Served(store, tmp_path / "data") as service:
        yield service


def replied(text: str) -> ModelReplied:
    usage = Usage(input_tokens=5, output_tokens=1, model_calls=1)
    return ModelReplied(
        round=1, attempt=1, model="offline", blocks=blocks_of(text=text), finish_reason="stop", usage=usage
    )


def begun(store: Store, drone: HandDrone) -> HeldOrder:
    """The order that was just asked for, claimed and started."""
    [order] = store.orders.list(status=OrderStatus.QUEUED).items
    held = drone.claim(order.id)
    held.start()
    return held


def test_a_turn_is_asked_for_steered_answered_and_ends_with_what_it_changed(
    served: Served, store: Store, tmp_path: Path
) -> None:
    drone = HandDrone(store, workspace_roots=(str(tmp_path),))
    with chat(served, tmp_path / "work") as terminal:
        terminal.until("you>")
        terminal.type("Fix it")
        terminal.until("steer>")
        held = begun(store, drone)
        held.write(replied("I look \x1b[2Jfirst."))
        terminal.until("I look ⟦U+001B⟧[2Jfirst.")
        terminal.type("be quick")
        terminal.until("steer>")
        terminal.type("/nothing")
        terminal.until("There is no command /nothing")
        assert [control.message for control in store.controls.of_order(held.id)] == ["be quick"]
        held.write(
            ToolStarted(call_id="q", round=1, index=0, name="ask_user", arguments={}, idempotent=True),
            QuestionAsked(question_id="q1", call_id="q", question="Which one?", choices=("Ann", "Bo")),
        )
        terminal.until("Which one?")
        terminal.until("Answer:")
        terminal.type("2")
        until(lambda: store.inbox.list("answered").items, "the answer")
        [item] = store.inbox.list("answered").items
        assert item.kind == "question" and item.answer == "Bo"
        held.write(ToolFinished(call_id="q", name="ask_user", content="Bo", is_error=False))
        held.claim = replace(held.claim, control_seq=store.controls.of_order(held.id)[-1].number)
        diff = store.texts.keep("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", owner=held.id)
        file = ChangedFile(path="x", change="modified", added=1, removed=1)
        held.finish("It is fixed.", changes=Changes(workspace="/w", files=(file,), diff=diff))
        terminal.until("It is fixed.")
        terminal.until(f"mcc orders diff {held.id[-12:]}")
        terminal.until("you>")
        terminal.type("/diff x")
        terminal.until("+b")
        terminal.type("/cost")
        terminal.until("1 turn: 6 tokens")
        terminal.type("/compact")
        terminal.until("The session is compacted by order ")
        [order] = store.orders.list(kind=OrderKind.COMPACT).items
        assert order.compacts == store.orders.get(held.id).session_id
        terminal.type("/quit")
        assert terminal.process.wait(SECONDS) == 0
        assert store.orders.get(held.id).workspace == str(tmp_path / "work")


def test_a_session_goes_on_with_another_agent_and_ctrl_c_stops_a_turn(
    served: Served, store: Store, tmp_path: Path
) -> None:
    drone = HandDrone(store, agents=("master", "scout"), workspace_roots=(str(tmp_path),))
    earlier = store.orders.place(NewOrder(prompt="before"), by=Actor("test")).order
    held = drone.claim(earlier.id)
    held.start()
    held.finish("the answer before")
    with chat(served, tmp_path / "work", "--session", earlier.session_id[-12:]) as terminal:
        terminal.until("turn 1: before")
        terminal.until("the answer before")
        terminal.type("/agent")
        terminal.until("agent: the default; there is master, scout, and default for none of them")
        terminal.type("/agent scot")
        terminal.until('agent: scot; no live drone lists it (did you mean "scout"?)')
        terminal.type("/agent default")
        terminal.until("agent: the default")
        terminal.type("/agent scout")
        terminal.until("agent: scout")
        terminal.type("/mode nonsense")
        terminal.until("mcc: mode: ")
        terminal.type("/mode")
        terminal.until("mode: the default; there is develop, plan, ")
        terminal.type("Go on")
        terminal.until("steer>")
        [order] = store.orders.list(status=OrderStatus.QUEUED).items
        assert (order.session_id, order.session_seq, order.agent) == (earlier.session_id, 2, "scout")
        terminal.press(b"\x03")
        terminal.until("cancelled: stopped from the keyboard")
        terminal.until("you>")
        terminal.type("/new")
        terminal.until("begins a new session")
        terminal.type("Afresh")
        terminal.until("steer>")
        [order] = store.orders.list(status=OrderStatus.QUEUED).items
        assert (order.session_id != earlier.session_id, order.session_seq) == (True, 1)
        terminal.press(b"\x04")
        terminal.until("the order goes on")
        assert terminal.process.wait(SECONDS) == 0
    assert store.orders.get(order.id).status is OrderStatus.QUEUED


def test_the_next_turn_is_given_the_files_that_were_attached(served: Served, store: Store, tmp_path: Path) -> None:
    HandDrone(store, workspace_roots=(str(tmp_path),))
    (tmp_path / "work" / "server log.txt").write_text("It broke at noon.")
    (tmp_path / "work" / "program").write_bytes(b"\x7fELF\x00\xff")
    with chat(served, tmp_path / "work") as terminal:
        terminal.until("you>")
        terminal.type("/attach nothing.png")
        terminal.until("/attach: nothing.png cannot be read")
        terminal.type("/attach")
        terminal.until("The next turn is given no file.")
        terminal.type("/attach program")
        terminal.until("The next turn is given program.")
        terminal.type("Look at it")
        terminal.until("program: This file is neither PNG")
        terminal.until("No file waits for the next turn any more")
        terminal.type("/attach 'server log.txt'")
        terminal.until("The next turn is given server log.txt.")
        terminal.type("Why did it break?")
        terminal.until("steer>")
        [order] = store.orders.list(status=OrderStatus.QUEUED).items
        [file] = [store.artifacts.of_order(order.id, id) for id in order.attachments]
        assert (file.name, b"".join(store.artifacts.pieces(file.id))) == ("server log.txt", b"It broke at noon.")
        terminal.press(b"\x03")
        terminal.until("cancelled: stopped from the keyboard")
        terminal.until("you>")
        terminal.type("Once more")
        terminal.until("steer>")
        [order] = store.orders.list(status=OrderStatus.QUEUED).items
        assert order.attachments == (), "a file is given to one turn"


def test_nothing_typed_is_the_default_of_a_question(served: Served, store: Store, tmp_path: Path) -> None:
    drone = HandDrone(store, workspace_roots=(str(tmp_path),))
    with chat(served, tmp_path / "work") as terminal:
        terminal.until("you>")
        terminal.type("Ask me")
        terminal.until("steer>")
        held = begun(store, drone)
        held.write(
            ToolStarted(call_id="q", round=1, index=0, name="ask_user", arguments={}, idempotent=True),
            QuestionAsked(question_id="q1", call_id="q", question="Which port?", default="5432"),
        )
        terminal.until("Answer (5432):")
        terminal.type("")
        until(lambda: store.inbox.list("answered").items, "the answer")
        [item] = store.inbox.list("answered").items
        assert item.kind == "question" and item.answer == "5432"


def test_without_a_terminal_it_is_said_what_to_do_instead() -> None:
    told = CliRunner().invoke(app, ["chat"], input="hello\n")
    assert told.exit_code == 2 and "mcc run --session" in told.stderr

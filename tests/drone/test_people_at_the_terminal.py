"""Approvals and questions of `drone run`: asked at a terminal, denied without one, by the same gate as elsewhere."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from drone.local_run import AtTerminal, order_from, run_here
from drone.settings import Settings
from mcc.contracts.approvals import AnyItem, ApprovalItem, NewDecision, QuestionItem
from mcc.contracts.permission import SavedRule
from mcc.contracts.questions import NewAnswer
from mcc.contracts.shape import now
from mcc.view.screens import Shown
from tests.forking import popen
from tests.mcc.view.test_live import Terminal

SCRIPT = {
    "rules": [
        {
            "match": "Look around",
            "replies": [
                {"tool_calls": [{"name": "list_files", "arguments": {}}]},
                {"tool_calls": [{"name": "list_files", "arguments": {"path": "pier"}}]},
                {"text": "I have looked."},
            ],
        }
    ]
}
ASK = '{"list_files": "ask"}'


def call(id: str, saves: str | None = None) -> AnyItem:
    """A tool call that needs approval. `saves`: the rule that remembering it would save."""
    fields = dict.fromkeys(("effects", "profile", "workspace", "preview", "why", "again"))
    rule = None if saves is None else SavedRule(key="send", when=saves)
    place: dict[str, Any] = {"order_id": "o", "record_id": None, "agent": "clerk", "depth": 0, "requested_at": now()}
    told = {"call_id": id, "tool": "send", "arguments": {}, "digest": "sha256:0", "status": "pending"}
    return ApprovalItem.model_validate({**fields, **place, **told, "id": id, "would_save": rule})


def question() -> AnyItem:
    place: dict[str, Any] = {"order_id": "o", "record_id": None, "agent": "clerk", "depth": 0, "requested_at": now()}
    asked = {"id": "q", "call_id": "q", "question": "Which?", "choices": ("one", "two"), "status": "pending"}
    return QuestionItem.model_validate({**place, **asked})


class Desk:
    """A terminal at which these lines are typed. `drawn`: whether a tree is being drawn on it."""

    def __init__(self, *typed: str) -> None:
        self._typed = iter(typed)
        self.drawn, self.asked = True, 0
        self.ask = AtTerminal(self._aside, self._read)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        assert self.drawn, "two things are asked at the same time"
        self.drawn = False
        yield
        self.drawn = True

    def _read(self, prompt: str, over: Callable[[], bool]) -> str | None:
        assert not self.drawn and not over()
        self.asked += 1
        return next(self._typed, None)


async def test_calls_side_by_side_are_asked_one_after_the_other() -> None:
    desk = Desk("y", "not on Fridays", "2")
    said = tuple(await asyncio.gather(desk.ask(call("a")), desk.ask(call("b")), desk.ask(question())))
    denied = NewDecision(decision="deny", note="not on Fridays")
    assert said == (NewDecision(decision="approve"), denied, NewAnswer(answer="two"))


async def test_what_is_let_stand_is_asked_once_also_of_calls_that_wait_already() -> None:
    desk = Desk("a", "n")
    said = await asyncio.gather(desk.ask(call("a", "x")), desk.ask(call("b", "x")), desk.ask(call("c", "y")))
    decisions = [one.decision for one in said if isinstance(one, NewDecision)]
    assert decisions == ["approve", "approve", "deny"] and desk.asked == 2


async def test_a_terminal_whose_input_has_ended_decides_nothing() -> None:
    with pytest.raises(TimeoutError):
        await Desk().ask(call("a"))


async def test_the_terminal_is_let_go_when_the_order_is_cancelled() -> None:
    reads = asyncio.Event()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read(prompt: str, over: Callable[[], bool]) -> str | None:
        loop.call_soon_threadsafe(reads.set)
        while not over():
            pass
        loop.call_soon_threadsafe(ended.set)
        return None

    def aside() -> AbstractContextManager[None]:
        return Desk()._aside()

    asking = asyncio.ensure_future(AtTerminal(aside, read)(call("a")))
    await reads.wait()
    asking.cancel()
    await asyncio.wait([asking])
    await asyncio.wait_for(ended.wait(), 30)


def place(root: Path) -> Path:
    """A workspace, and beside it a configuration whose model is scripted."""
    (root / "harbour" / "pier").mkdir(parents=True)
    (root / "script.json").write_text(json.dumps(SCRIPT))
    (root / "mcc.toml").write_text(f'[models.played]\nprovider = "scripted"\nmodel = "{root / "script.json"}"\n')
    return root / "harbour"


def test_the_person_at_the_terminal_decides(tmp_path: Path) -> None:
    workspace = place(tmp_path)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "drone.cli", "run", "Look around", "--model", "played", "--permission", ASK]
    environment = {**os.environ, "MCC_CONFIG": str(tmp_path / "mcc.toml"), "TERM": "xterm", "COLUMNS": "100"}
    with popen.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment, cwd=workspace
    ) as process:
        os.close(theirs)
        terminal = Terminal(ours)
        terminal.until(r"(?s)master wants to use list_files.*asked because the order says so of list_files.*May it\?")
        os.write(ours, b"y\n")
        terminal.until(r"(?s)path: pier.*May it\?")
        os.write(ours, b"The pier is wet\n")
        assert process.stdout is not None
        assert "I have looked." in process.stdout.read().decode()
        shown = terminal.rest()
        os.close(ours)
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert process.returncode == 0 and "· list_files" in plain and "✗ list_files" in plain


@pytest.mark.parametrize("said", [None, "wait", "deny"])
async def test_where_nobody_can_be_asked_the_call_is_denied(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], said: str | None
) -> None:
    workspace = place(tmp_path)
    script = {"played": {"provider": "scripted", "model": str(tmp_path / "script.json")}}
    settings = Settings.model_validate(
        {"models": script, "workspace_roots": (workspace,), "data_dir": tmp_path / "data"}
    )
    permission = {"permission": json.loads(ASK), "on_ask": said}
    order = order_from("Look around", workspace, model="played", fields=permission)
    assert await run_here(settings, order, Shown.JSON)
    *entries, last = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert {one["type"] for one in entries} == {"entry"} and (last["type"], last["id"]) == ("order", order.id)
    calls = [one["data"] for one in entries if one["kind"] == "tool.finished"]
    assert [one["outcome"] for one in calls] == ["denied", "denied"]
    assert all("nobody is asked" in one["content"] for one in calls)
    assert "approval.requested" not in {one["kind"] for one in entries}

"""Answers of workers, journal entries and processes as parts of a snapshot."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mcc.contracts.entry import ORDER, Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import call_id, root_record_id
from mcc.contracts.journal import AgentFinished, ControlApplied, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.open_calls import OpenCall
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.contracts.wire import RUN_ORDER_TASK
from mcc.dispatch.broker import DispatchUnavailable, RedisAt
from mcc.doctor.installation import ask_nodes, nodes_of, within
from mcc.findings.snapshot import (
    TICKS,
    OpenCalls,
    ProcessState,
    RunningTask,
    open_calls,
    process_state,
    processes_of,
)
from tests.mcc.doctor.snapshots import NOW, drone, order_id

ROOT = root_record_id(order_id())
MASTER, CHILD = Origin(record_id=ROOT, agent="master"), Origin(record_id="child", agent="scout")


def entries(*told: tuple[Origin, Fact]) -> list[Entry]:
    drafts = [Draft(at=NOW, origin=origin, data=fact) for origin, fact in told]
    return [draft.numbered(order_id(), seq) for seq, draft in enumerate(drafts, start=1)]


def asked(round_number: int = 1) -> ModelStarted:
    return ModelStarted.model_validate({"round": round_number, "try": 1, "model": "fast"})


def replied(round_number: int = 1) -> ModelReplied:
    said = {"round": round_number, "try": 1, "model": "fast", "finish_reason": "stop", "usage": Usage()}
    return ModelReplied.model_validate(said)


def called(name: str = "read_file") -> ToolStarted:
    fields = {"call_id": call_id(ROOT, 1, 0), "round": 1, "index": 0, "name": name, "arguments": {}}
    return ToolStarted.model_validate({**fields, "idempotent": True})


def returned() -> ToolFinished:
    return ToolFinished(call_id=call_id(ROOT, 1, 0), name="read_file", content="", is_error=False)


def control(kind: str) -> ControlApplied:
    return ControlApplied(control_id="c", control=kind)


def names(found: OpenCalls) -> list[str]:
    return [call.name for call in found.calls]


def test_what_was_answered_is_not_open() -> None:
    told = entries((MASTER, asked()), (MASTER, replied()), (MASTER, called()), (MASTER, returned()))
    assert open_calls(told) == OpenCalls()


def test_a_call_without_an_answer_is_open_with_its_name_and_agent() -> None:
    assert open_calls(entries((MASTER, asked()))).calls == (OpenCall("model", "fast", "master", NOW),)
    assert open_calls(entries((MASTER, called("run_shell")))).calls == (OpenCall("tool", "run_shell", "master", NOW),)


def test_a_call_asked_again_is_one_call_that_waits_as_announced() -> None:
    again = ModelRetried.model_validate({"round": 1, "try": 1, "model": "fast", "error": "429", "wait_seconds": 9})
    [call] = open_calls(entries((MASTER, asked()), (MASTER, again))).calls
    assert call.waits_seconds == 9
    assert open_calls(entries((MASTER, again), (MASTER, asked()))).calls[0].waits_seconds == 0


def test_rounds_of_different_records_are_different_calls_and_the_newest_is_last() -> None:
    told = entries((MASTER, called("subagents_run")), (CHILD, asked()), (MASTER, asked()), (MASTER, replied()))
    assert names(open_calls(told)) == ["subagents_run", "fast"]


def test_an_agent_that_ended_waits_for_nothing() -> None:
    end = AgentFinished(status=RecordStatus.CANCELLED)
    assert names(open_calls(entries((CHILD, asked()), (MASTER, called()), (CHILD, end)))) == ["read_file"]


def test_only_a_pause_of_the_whole_order_counts_until_it_is_resumed() -> None:
    assert open_calls(entries((MASTER, control("pause")))).paused
    assert open_calls(entries((ORDER, control("pause")))).paused
    assert not open_calls(entries((MASTER, control("pause")), (ORDER, control("resume")))).paused
    assert not open_calls(entries((CHILD, control("pause")))).paused
    assert open_calls(entries((ORDER, control("pause")), (CHILD, control("resume")))).paused


def test_answers_of_workers_become_nodes() -> None:
    mine = {"name": RUN_ORDER_TASK, "args": [order_id()], "time_start": 90.0}
    odd = [{"name": "else", "args": [order_id()]}, {"name": RUN_ORDER_TASK, "args": [1]}, {"name": RUN_ORDER_TASK}]
    [first, second] = nodes_of(
        ["b@drone", "a@drone"],
        {"a@drone": {"pid": 7}},
        {"a@drone": [mine, *odd]},
        {"a@drone": [{"name": "default"}, {"name": "canary.x"}]},
        100.0,
    )
    assert (first.name, first.pid, list(first.queues)) == ("a@drone", 7, ["default", "canary.x"])
    assert list(first.tasks) == [RunningTask(order_id(), 10.0), *[RunningTask(None, 0.0)] * 3]
    assert (second.name, second.pid, list(second.tasks)) == ("b@drone", None, [])


def test_nobody_is_waited_for_longer_than_agreed() -> None:
    never = threading.Event()
    with pytest.raises(DispatchUnavailable, match="within"):
        within(0.05, never.wait)
    never.set()
    assert within(60, lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


@contextmanager
def black_hole() -> Iterator[str]:
    """The address of a server that accepts connections and never sends anything."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


def test_a_broker_that_accepts_and_says_nothing_ends_the_question() -> None:
    with black_hole() as url, pytest.raises(DispatchUnavailable):
        ask_nodes(RedisAt(url), ("default",), seconds=0.2)


def proc(tmp_path: Path, state: str, started: float, pid: int = 11) -> Path:
    """A /proc with one process, `started` seconds after boot, 1,000 seconds ago."""
    (tmp_path / "uptime").write_text("1000.0 1.0")
    folder = tmp_path / str(pid)
    folder.mkdir()
    fields = [state, *["0"] * 18, str(int(started * TICKS)), "0"]
    (folder / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}")
    return tmp_path


@pytest.mark.parametrize(
    ("letter", "state"),
    [
        ("S", ProcessState.RUNS),
        ("R", ProcessState.RUNS),
        ("T", ProcessState.STOPPED),
        ("t", ProcessState.STOPPED),
        ("Z", ProcessState.GONE),
    ],
)
def test_a_process_is_what_the_kernel_says_of_it(tmp_path: Path, letter: str, state: ProcessState) -> None:
    started_now = drone(started_at=NOW.replace(year=2999))
    assert process_state(started_now, proc(tmp_path, letter, 10)) is state


def test_a_pid_that_somebody_else_has_by_now_is_gone(tmp_path: Path) -> None:
    assert process_state(drone(started_at=NOW.replace(year=1990)), proc(tmp_path, "S", 10)) is ProcessState.GONE


def test_a_pid_that_nobody_has_is_gone_and_another_system_knows_nothing(tmp_path: Path) -> None:
    assert process_state(drone(pid=12), proc(tmp_path, "S", 10)) is ProcessState.GONE
    assert process_state(drone(), tmp_path / "nothing") is ProcessState.UNKNOWN


def test_only_processes_of_this_host_are_looked_for(tmp_path: Path) -> None:
    far = drone("far", host="elsewhere")
    assert list(processes_of([drone(), far], "here", proc(tmp_path, "S", 10))) == [drone().incarnation]

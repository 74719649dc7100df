"""A side process answers questions, and is killed when it exceeds its limits or its parent is gone."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mcc.side_process import ANSWER_BYTES, MEMORY_BYTES, CutOff, SideProcess
from tests.mcc import side_work
from tests.waiting import readable

ROOT = Path(__file__).parents[2]


def wait_until_gone(pid: int) -> None:
    """Returns when the process has ended; the time limit of the tests is the only other way out."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        readable(watch, 3600)
    finally:
        os.close(watch)


def test_one_process_answers_questions_one_after_the_other() -> None:
    with closing(SideProcess(side_work.echo)) as side:
        assert [side.ask(question, 5) for question in (1, ["\ud800", "é"], {"a": None})] == [
            1,
            ["\ud800", "é"],
            {"a": None},
        ]
        assert side.ask("x" * 3_000_000, 5) == "x" * 3_000_000
        assert side.starts == 1


def test_questions_work_with_more_than_a_thousand_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 2_000:
        pytest.skip("this machine lets a process open fewer")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2_000, hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        with closing(SideProcess(side_work.echo)) as side:
            assert side.ask("x" * 300_000, 5) == "x" * 300_000
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_process_has_no_environment_and_lower_priority() -> None:
    with closing(SideProcess(side_work.who)) as side:
        told = side.ask(None, 5)
    assert told["pid"] != os.getpid() and told["nice"] > os.nice(0)
    assert set(told["environment"]) <= {"LC_CTYPE"} and told["cwd"] == "/"


def test_it_writes_no_file_once_it_has_a_question(tmp_path: Path) -> None:
    with closing(SideProcess(side_work.writing)) as side, pytest.raises(CutOff, match="OSError"):
        side.ask(str(tmp_path / "new"), 5)
    assert not (tmp_path / "new").exists() or not (tmp_path / "new").read_bytes()


WRITES = """\
import sys
from mcc.side_process import CutOff, SideProcess
from tests.mcc import side_work
side = SideProcess(side_work.writing)
try:
    side.ask(sys.argv[1], 5)
except CutOff:
    side.close()
"""


@pytest.mark.parametrize("kept", [True, False])
def test_what_it_compiles_is_kept_where_its_parent_keeps_it_or_nowhere(tmp_path: Path, kept: bool) -> None:
    options = ("-X", f"pycache_prefix={tmp_path / 'compiled'}", *(() if kept else ("-B",)))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = (sys.executable, *options, "-c", WRITES, str(tmp_path / "new"))
    subprocess.run(words, env={**environment, "PYTHONPATH": str(ROOT)}, check=True)
    assert bool([*tmp_path.rglob("colorsys.*.pyc")]) == kept


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    """A named pipe that work which never ends opens: a test that opens it too knows that the work has begun."""
    os.mkfifo(tmp_path / "begun")
    return str(tmp_path / "begun")


def begun(pipe: str) -> None:
    os.close(os.open(pipe, os.O_RDONLY))


def test_a_question_that_takes_too_long_is_cut_off_and_the_next_one_answered_by_another_process(pipe: str) -> None:
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with closing(SideProcess(side_work.spin)) as side:
        first = side.ask("", 5)
        with pytest.raises(CutOff, match="too long"):
            side.ask(pipe, 0.2)
        wait_until_gone(first)
        assert side.ask("", 5) != first and side.starts == 2
    os.close(reader)


def test_work_that_only_sleeps_is_cut_off_too() -> None:
    with closing(SideProcess(side_work.sleep)) as side, pytest.raises(CutOff, match="too long"):
        side.ask(600, 0.1)


def test_memory_and_answers_have_a_bound() -> None:
    with closing(SideProcess(side_work.greedy)) as side, pytest.raises(CutOff, match="memory"):
        side.ask(MEMORY_BYTES, 5)
    with closing(SideProcess(side_work.long)) as side, pytest.raises(CutOff, match="too much"):
        side.ask(ANSWER_BYTES + 1, 5)


def test_refusals_and_failures_of_the_work_are_reported() -> None:
    with closing(SideProcess(side_work.picky)) as side:
        with pytest.raises(ValueError, match="not this one"):
            side.ask("value", 5)
        with pytest.raises(CutOff, match="TypeError"):
            side.ask("other", 5)


def test_a_stop_ends_the_wait_for_an_answer(pipe: str) -> None:
    stop = threading.Event()
    with closing(SideProcess(side_work.spin, stop)) as side:
        pid = side.ask("", 5)
        stop.set()
        with pytest.raises(CutOff, match="nobody waits"):
            side.ask(pipe, 300)
        wait_until_gone(pid)


@contextmanager
def asked(pipe: str, seconds: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """A parent that has asked a question which never ends, and the pid of its side process."""
    script = str(Path(__file__).with_name("asking_parent.py"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen((sys.executable, script, pipe, seconds), stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        begun(pipe)
        try:
            yield parent, pid
        finally:
            parent.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_process_ends_with_its_parent(pipe: str, number: signal.Signals) -> None:
    with asked(pipe, "300") as (parent, pid):
        parent.send_signal(number)
        parent.wait()
        wait_until_gone(pid)


def test_the_process_ends_by_itself_while_its_parent_is_stopped(pipe: str) -> None:
    with asked(pipe, "0.5") as (parent, pid):
        parent.send_signal(signal.SIGSTOP)
        wait_until_gone(pid)

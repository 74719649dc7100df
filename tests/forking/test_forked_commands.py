"""A forked command is what an executed one is, and what cannot be forked faithfully is executed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcc.local import launch
from tests.forking import popen
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")

PROBE = [sys.executable, "-m", "tests.forking.probe"]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def plain(directory: Path, **more: str) -> dict[str, str]:
    """Little more than what the interpreter of this process was started with."""
    own = {name: value for name, value in popen.AT_START.items() if name.startswith(popen.OF_THE_INTERPRETER)}
    return {
        **own,
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "TZ": "Asia/Tokyo",
        "TMPDIR": str(directory),
        **more,
    }


def told(run: Run, words: list[str], directory: Path, **options: Any) -> dict[str, Any]:
    options = {"env": plain(directory), "cwd": directory, "input": "typed", **options}
    done = run(words, capture_output=True, text=True, **options)
    assert (done.returncode, done.stderr) == (7, "typed\n"), done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("python", [["-P"], []], ids=["safe path", "its own directory"])
@pytest.mark.parametrize("more", [{}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONSAFEPATH": "1"}], ids=str)
@pytest.mark.parametrize("own_session", [True, False])
def test_a_forked_process_sees_what_an_executed_one_sees(
    tmp_path: Path, python: list[str], more: Mapping[str, str], own_session: bool
) -> None:
    reader, writer = os.pipe()
    words = [sys.executable, *python, "-m", "tests.forking.probe", "go on", "ä\udcff"]
    answers = []
    for run in (popen.run, subprocess.run):
        environment = plain(tmp_path, DESCRIPTOR=str(reader), **more)
        options = {"env": environment, "pass_fds": [reader], "umask": 0o027, "start_new_session": own_session}
        os.write(writer, b"handed over")
        answers.append(told(run, words, tmp_path, **options))
    forked, executed = answers
    assert (forked["forked"], executed["forked"]) == (True, False)
    assert forked["same"] == executed["same"] and forked["same"]["inherited"] == "handed over"
    assert forked["parent"] == executed["parent"] == os.getpid()
    os.close(reader)
    os.close(writer)


def test_each_draws_its_own_random_numbers(tmp_path: Path) -> None:
    assert len({told(popen.run, PROBE, tmp_path)["drawn"] for _ in range(3)}) == 3


@pytest.mark.parametrize(
    "more", [{"PYTHONPATH": "/nowhere"}, {"LC_ALL": "POSIX"}, {"PYTHONWARNINGS": "error::SyntaxWarning"}], ids=str
)
def test_what_an_interpreter_reads_at_its_start_is_read_by_one(tmp_path: Path, more: Mapping[str, str]) -> None:
    assert not told(popen.run, PROBE, tmp_path, env=plain(tmp_path, **more))["forked"]


@pytest.mark.parametrize(
    "words", [["-I", "-m", "mcc.cli.main"], ["-m", "mcc"], ["-c", "pass"], ["-m"], []], ids=" ".join
)
def test_other_programs_and_options_are_executed(words: list[str]) -> None:
    assert popen.Command.read([sys.executable, *words]) is None
    assert popen.Command.read(["/bin/true", *words]) is None


def test_the_installed_commands_are_known_by_their_names() -> None:
    directory = Path(sys.executable).parent
    read = popen.Command.read([str(directory / "mcc"), "orders", "list"])
    assert read == popen.Command("mcc.cli.main", ["orders", "list"], safe_path=True)
    assert popen.Command.read([str(directory / "drone"), "walls"]) == popen.Command("drone.cli", ["walls"], True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_it_as_it_ends_any_process(tmp_path: Path, number: signal.Signals) -> None:
    with popen.Popen([*PROBE, "wait"], stdout=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        assert json.loads(process.stdout.readline())["forked"]  # type: ignore[union-attr]
        process.send_signal(number)
        assert process.wait(20) == -number


LAUNCHER = """
import json, os, sys
from tests.forking import popen
words = [sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), sys.executable, "-m", "tests.forking.probe", "wait"]
child = popen.Popen(words, stdout=-1, text=True, start_new_session=True)
print(child.pid, json.loads(child.stdout.readline())["forked"], flush=True)
sys.stdin.read()
"""


def test_a_launched_one_dies_with_the_process_that_started_it() -> None:
    command = [sys.executable, "-c", LAUNCHER, launch.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, forked = parent.stdout.readline().split()
        assert forked == "True" and Path(f"/proc/{pid}").exists()
        parent.kill()
        until(lambda: not _runs(int(pid)), "the child is gone")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_loop_is_told_how_its_forked_child_ended(tmp_path: Path) -> None:
    async def ended(words: list[str]) -> tuple[int | None, bool | None]:
        nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*words, cwd=tmp_path, stdin=nothing, stdout=pipe)
        said, _ = await child.communicate()
        return child.returncode, json.loads(said)["forked"] if said else None

    with popen.forking_loops():
        assert asyncio.run(ended(PROBE)) == (7, True)
        assert asyncio.run(ended(["sh", "-c", "exit 3"])) == (3, None)
    assert asyncio.run(ended(PROBE)) == (7, False)

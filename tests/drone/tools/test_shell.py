"""Commands in the sandbox: how they end, their output, the files they change, and commands that are refused."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from drone.agent.ports.model import Ask
from drone.agent.turns.toolset import Preview, StartedCall, preview_of
from drone.models.scripted import Line, Said, call
from drone.tools.shell.output import HEAD_BYTES, TAIL_BYTES
from mcc.contracts.journal import Outcome
from tests.drone.sandbox.machine import found_shell
from tests.drone.tools.shell_bench import WHO, ShellBench
from tests.faults.commands import orphans
from tests.parity.world import World

SECRET = "hunter2-hunter2-hunter2"
SHOWN = ("exit_code", "signal", "timed_out", "output", "bytes", "artifact", "profile", "changed", "job")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ShellBench]:
    async with ShellBench(tmp_path, SECRET) as bench:
        yield bench


async def test_both_outputs_come_in_their_order_and_a_status_is_no_error(bench: ShellBench) -> None:
    answer = await bench.run("echo one; echo two >&2; echo three; exit 3")
    assert {name: answer[name] for name in SHOWN} == {
        "exit_code": 3,
        "signal": None,
        "timed_out": False,
        "output": "one\ntwo\nthree\n",
        "bytes": 14,
        "artifact": None,
        "profile": "workspace-write",
        "changed": [],
        "job": None,
    }
    assert answer["seconds"] >= 0
    assert (await bench.call("run_shell", command="exit 3")).exit_code == 3


async def test_it_is_a_shell_of_its_own_and_what_looks_like_an_option_is_a_command(bench: ShellBench) -> None:
    assert (await bench.run("shopt -s extglob; a=(x y); echo ${a[1]} $#"))["output"] == "y 0\n"
    assert "command not found" in (await bench.run("-x"))["output"]
    assert (await bench.run("cat; tty"))["output"] == "not a tty\n"


async def test_of_a_long_output_both_ends_are_told_and_the_whole_is_kept(bench: ShellBench) -> None:
    answer = await bench.run("seq 1 40000")
    said = "".join(f"{number}\n" for number in range(1, 40_001))
    head, gap, tail = answer["output"].partition("\n… [")
    left_out, _, tail = tail.partition(" bytes left out] …\n")
    assert gap and said.startswith(head) and said.endswith(tail)
    assert int(left_out.replace(",", "")) == answer["bytes"] - len(head) - len("\n") - len(tail)
    assert len(head) <= HEAD_BYTES and len(tail) <= TAIL_BYTES and answer["bytes"] == len(said)
    assert await bench.artifact(answer["artifact"]) == said


async def test_what_a_terminal_would_obey_and_what_is_no_text_is_taken_out(bench: ShellBench) -> None:
    answer = await bench.run(r"printf 'a\033[31mb\033]52;c;aGk=\007c\rd\000\377\n'")
    assert answer["output"] == "d\ufffdc\n" and answer["bytes"] == 25


async def test_a_secret_is_in_nothing_that_a_command_says(bench: ShellBench) -> None:
    says = f"printf {SECRET[:9]}; sleep 0.3; echo {SECRET[9:]}; seq 1 20000; echo {SECRET} | base64; sleep 0.3"
    output = await bench.call("run_shell", command=says)
    answer = json.loads(output.content)
    kept = await bench.artifact(answer["artifact"])
    assert "[redacted]" in answer["output"] and "[redacted]" in kept and "[redacted]" in bench.live_output
    for text in (output.content, kept, bench.live_output):
        assert SECRET[:9] not in text and SECRET[9:] not in text and "aHVudGVyMi" not in text


async def test_how_a_signal_ended_it_is_told(bench: ShellBench) -> None:
    answer = await bench.run("kill -TERM $$")
    assert (answer["exit_code"], answer["signal"], answer["timed_out"]) == (143, "SIGTERM", False)


async def test_at_the_end_of_its_time_it_is_killed_and_what_it_had_said_is_told(bench: ShellBench) -> None:
    output = await bench.call("run_shell", command="echo first; trap '' TERM; sleep 60 & sleep 60", timeout_seconds=0.3)
    answer = json.loads(output.content)
    assert (answer["exit_code"], answer["signal"], answer["timed_out"]) == (None, "SIGKILL", True)
    assert answer["output"] == "first\n"
    assert (output.is_error, output.outcome, output.exit_code) == (False, Outcome.TIMEOUT, None)


async def test_what_it_changed_is_told_and_who_may_not_write_changes_nothing(bench: ShellBench) -> None:
    (bench.root / "old").write_text("old\n")
    answer = await bench.run("echo new > new; rm old; mkdir a; echo x > a/b")
    assert (sorted(answer["changed"]), answer["profile"]) == (["a", "a/b", "new", "old"], "workspace-write")
    answer = await bench.run("echo more > more; echo more >> new", read_only=True)
    assert (answer["changed"], answer["profile"]) == ([], "read-only")
    assert "Read-only file system" in answer["output"]
    assert sorted(path.name for path in bench.root.iterdir() if not path.name.startswith(".")) == ["a", "new"]
    assert (bench.root / "new").read_text() == "new\n"


async def test_what_it_made_of_what_is_protected_is_told(bench: ShellBench) -> None:
    answer = await bench.run("mkdir sub; echo x > sub/.env; echo y > fine")
    assert len(answer["undone"]) == 1 and answer["undone"][0].startswith("sub/.env is protected")
    assert "undone" not in await bench.run("true")


async def test_of_many_changes_some_are_named_and_the_others_counted(bench: ShellBench) -> None:
    answer = await bench.run("for n in $(seq 1 150); do : > file-$n; done")
    assert (len(answer["changed"]), answer["changed_beside_these"]) == (100, 50)


async def test_it_begins_in_the_directory_that_is_named(bench: ShellBench) -> None:
    (bench.root / "src" / "app").mkdir(parents=True)
    (bench.root / "link").symlink_to("src/app")
    assert (await bench.run("pwd", cwd="src/app"))["output"] == "/workspace/src/app\n"
    assert (await bench.run("pwd", cwd="link"))["output"] == "/workspace/src/app\n"
    assert (await bench.run("pwd", cwd=str(bench.root / "src")))["output"] == "/workspace/src\n"
    missing = await bench.call("run_shell", command="pwd", cwd="srk")
    assert missing.is_error and missing.content == "srk does not exist. There is src."


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("  \n", "is empty"),
        ("echo a\0b", "U+0000"),
        ("echo \ud800", "not valid Unicode"),
        ("x" * 100_001, "write it into a file"),
    ],
)
async def test_what_cannot_be_a_command_is_said(bench: ShellBench, command: str, said: str) -> None:
    output = await bench.call("run_shell", command=command)
    assert output.is_error and said in output.content


async def test_what_it_says_is_seen_before_it_ends(bench: ShellBench) -> None:
    running = asyncio.create_task(bench.run("echo begun; while ! test -e go; do sleep 0.02; done; echo over"))
    while not bench.journal.deltas:  # noqa: ASYNC110 - the journal has no event
        await asyncio.sleep(0.01)
    first = bench.journal.deltas[0]
    assert (first.kind, first.text, first.offset, first.call_id) == ("tool.progress", "begun\n", 0, "call-1")
    assert first.call is not None and first.call.name == "run_shell"
    (bench.root / "go").touch()
    assert (await running)["output"] == "begun\nover\n"


async def test_a_person_sees_the_command_before_it_runs(bench: ShellBench) -> None:
    async def preview(**arguments: object) -> object:
        return await preview_of(bench.tools, StartedCall("c", "run_shell", arguments, WHO, bench.turn))

    (bench.root / "src").mkdir()
    assert await preview(command="make", cwd="src") == Preview(
        "text", "$ make\n[workspace-write in src, at most 120 s]"
    )
    said = Preview("text", "$ ./serve\n[workspace-write, until the order ends]")
    assert await preview(command="./serve", background=True) == said


async def test_a_job_goes_on_beside_others_and_is_told_and_stopped_by_its_handle(bench: ShellBench) -> None:
    begun = await bench.call("run_shell", command="echo up; touch up; sleep 60", background=True)
    assert (json.loads(begun.content)["job"], json.loads(begun.content)["state"]) == ("job-1", "running")
    assert begun.job == "job-1"
    await bench.run("while ! test -e up; do sleep 0.02; done")
    shown = await bench.ask_jobs(job="job-1")
    assert (shown["state"], shown["output"], shown["bytes"], shown["exit_code"]) == ("running", "up\n", 3, None)
    stopped = await bench.ask_jobs(job="job-1", stop=True)
    assert (stopped["state"], stopped["exit_code"], stopped["signal"]) == ("stopped", None, "SIGKILL")
    assert stopped["changed"] == ["up"]
    [listed] = (await bench.ask_jobs())["jobs"]
    assert (listed["job"], listed["state"], listed["command"]) == ("job-1", "stopped", "echo up; touch up; sleep 60")


async def test_whoever_waits_for_a_job_hears_how_it_ended(bench: ShellBench) -> None:
    await bench.run("seq 1 20000; exit 4", background=True)
    output = await bench.call("shell_jobs", job="job-1", wait_seconds=60)
    answer = json.loads(output.content)
    assert (answer["state"], answer["exit_code"], output.exit_code, output.is_error) == ("exited", 4, 4, False)
    assert (await bench.artifact(answer["artifact"])).endswith("19999\n20000\n")
    await bench.run("sleep 60", background=True, timeout_seconds=0.2)
    late = await bench.ask_jobs(wait_seconds=60)
    assert [(one["state"], one["timed_out"]) for one in late["jobs"]] == [("exited", False), ("exited", True)]


async def test_an_order_has_so_many_jobs_and_no_more(bench: ShellBench) -> None:
    for _ in range(bench.jobs.most):
        await bench.run("sleep 60", background=True)
    refused = await bench.call("run_shell", command="sleep 60", background=True)
    assert refused.outcome is Outcome.DENIED and "stop one with shell_jobs" in refused.content
    await bench.ask_jobs(job="job-2", stop=True)
    assert (await bench.run("sleep 60", background=True))["job"] == "job-5"


async def test_jobs_of_another_drone_are_lost_and_their_handles_are_not_given_again(tmp_path: Path) -> None:
    async with ShellBench(tmp_path, known=("job-1", "job-2")) as bench:
        assert [(one["job"], one["state"]) for one in (await bench.ask_jobs())["jobs"]] == [
            ("job-1", "lost"),
            ("job-2", "lost"),
        ]
        assert (await bench.ask_jobs(job="job-2", wait_seconds=5))["state"] == "lost"
        assert (await bench.run("true", background=True))["job"] == "job-3"
        unknown = await bench.call("shell_jobs", job="job-9")
        assert unknown.is_error and "job-1, job-2, job-3" in unknown.content


async def test_a_job_ends_with_its_order_even_when_that_is_cancelled_meanwhile(tmp_path: Path) -> None:
    async with ShellBench(tmp_path) as bench:
        await bench.run("touch begun; sleep 60 & sleep 60", background=True)
        ending = asyncio.create_task(bench.jobs.end())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        [job] = bench.jobs.all
        assert (job.over, job.state) == (True, "stopped")


async def test_an_order_whose_commands_fail_again_and_again_goes_on_and_ends_its_jobs(tmp_path: Path) -> None:
    found_shell()
    mark = uuid4().hex

    def play(task: str, replies: int, ask: Ask) -> Said:
        if replies == 0:
            return Line(calls=(call("run_shell", command=f"export MARK={mark}; sleep 60", background=True),))
        return Line(calls=(call("run_shell", command="echo no; exit 1"),)) if replies < 9 else "It still fails."

    world = World(tmp_path, play)
    outcome = await world.run(agent="general")
    assert (outcome.status, outcome.answer) == ("succeeded", "It still fails.")
    began, *failed = world.results()
    assert began.job == "job-1" and [step.exit_code for step in failed] == [1] * 8
    assert not any(step.is_error for step in failed) and orphans(mark) == 0

"""Rows 19 to 23, 40 and 41: a model that runs whatever it likes gets no further than its workspace."""

import asyncio
import json
import os
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcc.contracts.journal import Outcome
from tests.drone.tools.shell_bench import ShellBench
from tests.faults.commands import orphans

SECRET = "sk-live-9f2c71d0-hunter2"
SUID = 0o4000


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ShellBench]:
    async with ShellBench(tmp_path, SECRET) as bench:
        yield bench


def beside(bench: ShellBench) -> list[str]:
    """What is beside the workspace, in the directory that holds it."""
    return sorted(path.name for path in bench.root.parent.iterdir() if path.name != "checkpoints")


READERS = (
    "sort --compress-program='touch /usr/out' -S1k /usr/share/common-licenses/* -o /workspace/../out",
    "sed -n '1e touch /workspace/out /usr/out' a.txt; sed 'w /workspace/../out' a.txt",
    "awk 'BEGIN { system(\"touch /usr/out /out out\") }'",
    "find . -exec touch /usr/out /out out {} +",
)


@pytest.mark.parametrize("command", READERS)
async def test_row_19_a_program_that_only_reads_writes_nowhere_whatever_it_is_told(
    bench: ShellBench, command: str
) -> None:
    (bench.root / "a.txt").write_text("1\n")
    answer = await bench.run(command, read_only=True)
    assert answer["profile"] == "read-only"
    assert beside(bench) == ["workspace"] and "out" not in os.listdir("/usr")
    assert {path.name for path in bench.root.iterdir()} <= {"a.txt", ".mcc-workspace"}


TRICKS = (
    "X=touch;Y=../../out;$X$IFS$Y; eval \"$(printf 'tou%s ../../out' ch)\"",
    "$(echo touch) ../../out; `echo touch` ../../out; x='$(touch ../../out)'; : \"${x@P}\"",
    "touch\t../../out\ntouch ../../out",
    "exec 7> ../../out; echo x >&7; cat > ../../out <<'EOF'\nx\nEOF",
    "cd .. && cd .. && touch out; ln -s / root && touch root/out root/usr/out; : > /proc/self/cwd/../../out",
    "; ".join(["true"] * 51) + f"; true {'x' * 20_000}; touch ../../out",
)


@pytest.mark.parametrize("command", TRICKS, ids=lambda command: command[:24])
async def test_row_20_nothing_rests_on_what_a_command_looks_like(bench: ShellBench, command: str) -> None:
    await bench.run(command)
    assert beside(bench) == ["workspace"]


LINGERING = (
    "env -i PATH=$PATH MARK=$MARK setsid nohup sleep 300 > /dev/null 2>&1 &",
    "(sleep 300 &) ; ( (sleep 300) & ) ; setsid sh -c 'setsid sleep 300 &' & disown -a",
    "echo 'sleep 300' | at now; (echo '* * * * * sleep 300') | crontab -; sudo sleep 300",
)


@pytest.mark.parametrize("command", LINGERING, ids=lambda command: command[:24])
async def test_row_21_nothing_that_a_command_starts_outlives_it(bench: ShellBench, command: str) -> None:
    mark = f"row-21-{os.getpid()}-{abs(hash(command))}"
    answer = await bench.run(f"export MARK={mark}; {command}\nexit 0")
    assert answer["exit_code"] == 0 and orphans(mark) == 0


async def test_row_21_no_program_gains_rights(bench: ShellBench) -> None:
    answer = await bench.run(
        "grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status; cp /bin/sh s; chmod 4755 s; ./s -c id"
    )
    assert "NoNewPrivs:\t1" in answer["output"] and answer["output"].count("0000000000000000") == 2
    assert (bench.root / "s").stat().st_mode & SUID == 0 or "euid" not in answer["output"]


@pytest.mark.parametrize("cwd", ["/", "..", "../..", "sub/../..", "/workspace-evil", "/proc/self/root", "link", "/tmp"])
@pytest.mark.parametrize("background", [False, True])
async def test_row_22_no_directory_outside_is_where_a_command_begins(
    bench: ShellBench, cwd: str, background: bool
) -> None:
    (bench.root / "sub").mkdir()
    (bench.root / "link").symlink_to("/etc")
    output = await bench.call("run_shell", command="touch here", cwd=cwd, background=background)
    assert (output.is_error, output.outcome) == (True, Outcome.DENIED), output.content
    assert bench.jobs.all == ()


async def test_row_22_a_directory_that_is_put_in_its_place_meanwhile_leads_nowhere(bench: ShellBench) -> None:
    (bench.root / "sub").mkdir()
    running = asyncio.create_task(bench.call("run_shell", command="touch here", cwd="sub"))
    await asyncio.sleep(0)
    (bench.root / "sub").rmdir()
    (bench.root / "sub").symlink_to(bench.root.parent)
    await running
    assert beside(bench) == ["workspace"]


async def test_row_23_no_other_process_is_seen_signalled_or_read(bench: ShellBench) -> None:
    answer = await bench.run(
        f"ls /proc | grep -c '^[0-9]'; kill -9 {os.getpid()}; cat /proc/{os.getpid()}/environ; kill -9 -1; echo still"
    )
    assert answer["output"].count("No such") >= 2 and int(answer["output"].split()[0]) <= 6


FORMS = (
    "printf %s '{0}'",
    "printf 'x%s' '{0}' | base64",
    "printf %s '{0}' | od -An -tx1; printf %s '{0}' | rev",
    "printf '{0:.9}'; sleep 0.3; printf '%s\\n' '{1}'",
    "printf '{{\"key\": \"%s\"}}' '{0}'",
    "printf 'postgres://u:%s@db/x' '{0}' >&2",
)


@pytest.mark.parametrize("command", FORMS)
async def test_row_40_a_secret_that_a_command_prints_is_told_to_nobody(bench: ShellBench, command: str) -> None:
    said = command.format(SECRET, SECRET[9:])
    output = await bench.call("run_shell", command=f"{said}; echo; seq 1 9000")
    answer = json.loads(output.content)
    kept = await bench.artifact(answer["artifact"])
    for text in (output.content, kept, bench.live_output):
        assert SECRET not in text and SECRET[9:] not in text and SECRET[::-1] not in text
    assert "[redacted]" in answer["output"] and "[redacted]" in kept


async def test_row_40_a_job_tells_no_secret_either(bench: ShellBench) -> None:
    await bench.run(f"echo {SECRET}", background=True)
    assert (await bench.ask_jobs(job="job-1", wait_seconds=30))["output"] == "[redacted]\n"


TERMINAL = {
    "\x1b[2J\x1b[31m\x1b]52;c;aGVsbG8=\x07": "cb",
    "\x1b]8;;http://evil.example/\x1b\\\x1bP+q544e\x1b\\": "cb",
    "\x9b31m\x9d0;title\x9c\x1bc\x07\x08": "c",
}
"""What stands between a and b, and what is left of the line when a c is written over its beginning."""


@pytest.mark.parametrize("sent", TERMINAL, ids=ascii)
async def test_row_41_no_terminal_is_commanded_by_an_output(bench: ShellBench, sent: str) -> None:
    octal = "".join(f"\\{byte:03o}" for byte in sent.encode())
    answer = await bench.run(f"printf 'a{octal}b\\rc\\n'; seq 1 9000; sleep 0.3")
    assert answer["output"].startswith(f"{TERMINAL[sent]}\n1\n2\n")
    for text in (answer["output"], await bench.artifact(answer["artifact"]), bench.live_output):
        assert text and not any(one not in "\n\t" and unicodedata.category(one) == "Cc" for one in text)

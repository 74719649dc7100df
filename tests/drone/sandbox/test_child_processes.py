"""A child in the sandbox sees little, reaches nothing, has bounded output, and never outlives its caller."""

import asyncio
import gc
import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds, Captured, EndedProgram, Leash
from drone.sandbox.custody import Custody, left_behind
from drone.sandbox.limits import DEFAULT
from drone.sandbox.places.paths import Workspace

SOON = Bounds(20.0)
NAP = str(100_000 + os.getpid())
"""Seconds that no other test process sleeps for: tests run side by side."""

FOREVER = f"echo started; (setsid sleep {NAP} </dev/null >/dev/null 2>&1 &); sleep {NAP}"


async def shell(sandbox: Bubblewrap, workspace: Path, script: str, bounds: Bounds = SOON) -> EndedProgram:
    return await sandbox.run(("sh", "-c", script), Workspace(workspace), bounds)


def sleepers() -> list[str]:
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", process, "cmdline").read_bytes()
        except OSError:
            continue
        if command == f"sleep\0{NAP}\0".encode():
            found.append(process)
    return found


async def test_output_and_status_are_those_of_the_program(sandbox: Bubblewrap, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    ended = await shell(sandbox, tmp_path, "pwd; cat file; echo wrong >&2; exit 7")
    assert (ended.status, ended.timed_out) == (7, False)
    assert ended.stdout.head == b"/workspace\ncontent"
    assert ended.stderr.head == b"wrong\n"


async def test_no_shell_interprets_the_arguments(sandbox: Bubblewrap, tmp_path: Path) -> None:
    ended = await sandbox.run(("printf", "%s|", "$(id)", "; id #", "-x"), Workspace(tmp_path), SOON)
    assert ended.stdout.head == b"$(id)|; id #|-x|"


@pytest.mark.parametrize("place", ["/workspace/new", "/usr/new", "/new", "/etc/new", "/workspace/file"])
async def test_nothing_can_be_written_but_a_private_tmp(sandbox: Bubblewrap, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("content")
    ended = await shell(sandbox, tmp_path, f"echo x > /tmp/mine && cat /tmp/mine; echo x > {place}")
    assert ended.stdout.head == b"x\n"
    assert ended.status != 0 and b"ead-only" in ended.stderr.head
    assert "mine" not in os.listdir("/tmp")
    assert (tmp_path / "file").read_text() == "content"


async def test_the_drones_environment_and_files_are_not_visible(
    sandbox: Bubblewrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "outside").write_text("secret")
    script = f"env; cat {tmp_path}/outside; cat ../outside; ls /root /home /var /run /work; cat /proc/1/environ"
    ended = await shell(sandbox, tmp_path / "workspace", script)
    assert b"PATH=" in ended.stdout.head and b"secret" not in ended.stdout.head
    assert ended.stderr.head.count(b"No such file") >= 5


async def test_there_is_no_network_no_other_process_and_no_capability(sandbox: Bubblewrap, tmp_path: Path) -> None:
    script = "cat /proc/net/dev; cat /proc/self/status; kill -9 -1; ls -d /proc/[0-9]*"
    text = (await shell(sandbox, tmp_path, script)).stdout.head.decode()
    assert text.split("NoNewPrivs")[0].count(":") and "eth" not in text and text.splitlines()[2].startswith("    lo:")
    assert "NoNewPrivs:\t1" in text and "CapEff:\t0000000000000000" in text and "CapBnd:\t0000000000000000" in text
    assert f"/proc/{os.getpid()}\n" not in text


async def test_limits_hold_for_the_program(sandbox: Bubblewrap, tmp_path: Path) -> None:
    text = (await shell(sandbox, tmp_path, "cat /proc/self/limits")).stdout.head.decode()
    soft = {line[:26].strip(): line[26:].split()[0] for line in text.splitlines()}
    assert soft["Max core file size"] == "0"
    for name, limit in {"Max address space": resource.RLIMIT_AS, "Max open files": resource.RLIMIT_NOFILE}.items():
        assert int(soft[name]) <= DEFAULT.of_each()[limit]


async def test_a_long_output_keeps_its_two_ends(sandbox: Bubblewrap, tmp_path: Path) -> None:
    script = "echo begin; head -c 3000000 /dev/zero; echo end"
    captured = (await shell(sandbox, tmp_path, script, Bounds(20.0, 8, 4))).stdout
    assert (captured.head, captured.tail, captured.total) == (b"begin\n\0\0", b"end\n", 3_000_010)
    assert captured.left_out == 3_000_010 - 12


@pytest.mark.parametrize("size", [0, 1, 5, 6, 9, 10, 11, 200_000])
@pytest.mark.parametrize("piece", [1, 7, 65_536])
def test_captured_output_is_complete_until_it_exceeds_the_bounds(size: int, piece: int) -> None:
    data = bytes(index % 251 for index in range(min(size, 20_000)))
    captured = Captured(6, 4)
    for start in range(0, len(data), piece):
        captured.add(data[start : start + piece])
    assert captured.total == len(data)
    assert captured.head == data[:6] and captured.tail == data[6:][-4:]
    assert captured.left_out == max(0, len(data) - 10)


async def test_a_program_that_takes_too_long_is_killed_with_all_its_children(
    sandbox: Bubblewrap, tmp_path: Path
) -> None:
    ended = await shell(sandbox, tmp_path, FOREVER, Bounds(1.0))
    assert ended.timed_out and ended.status != 0
    assert ended.stdout.head == b"started\n"
    assert sleepers() == []


async def test_a_program_that_floods_its_output_is_killed_too(sandbox: Bubblewrap, tmp_path: Path) -> None:
    ended = await shell(sandbox, tmp_path, "yes", Bounds(0.3, 100, 100))
    assert ended.timed_out and len(ended.stdout.head) == 100


async def test_cancelling_kills_the_whole_tree_and_waits(sandbox: Bubblewrap, tmp_path: Path) -> None:
    task = asyncio.create_task(shell(sandbox, tmp_path, FOREVER))
    while len(sleepers()) < 2:
        await asyncio.to_thread(os.sched_yield)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sleepers() == []


async def test_cancelling_at_any_moment_leaves_no_process(sandbox: Bubblewrap, tmp_path: Path) -> None:
    for turns in range(40):
        task = asyncio.create_task(shell(sandbox, tmp_path, FOREVER))
        for _ in range(turns):
            await asyncio.to_thread(os.sched_yield)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sleepers() == []


async def test_many_programs_at_once_all_end(sandbox: Bubblewrap, tmp_path: Path) -> None:
    ended = await asyncio.gather(*(shell(sandbox, tmp_path, f"echo {number}") for number in range(30)))
    assert [one.stdout.head for one in ended] == [f"{number}\n".encode() for number in range(30)]


async def test_no_descriptor_is_left_open(sandbox: Bubblewrap, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    await shell(sandbox, tmp_path, "true")
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await sandbox.run(("true",), Workspace(tmp_path), SOON, instead={"file": b"other"})
    assert set(os.listdir("/proc/self/fd")) <= before  # what other tests left may be closed meanwhile


def test_it_works_on_a_loop_in_another_thread(sandbox: Bubblewrap, tmp_path: Path) -> None:
    ended: list[EndedProgram] = []
    thread = threading.Thread(target=lambda: ended.append(asyncio.run(shell(sandbox, tmp_path, "exit 3"))))
    thread.start()
    thread.join(30)
    assert [one.status for one in ended] == [3]


async def test_a_file_can_be_seen_with_another_content(sandbox: Bubblewrap, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config").write_text("theirs")
    ended = await sandbox.run(("cat", "a/config"), Workspace(tmp_path), SOON, instead={"a/config": b"ours"})
    assert ended.stdout.head == b"ours"
    assert (tmp_path / "a" / "config").read_text() == "theirs"


async def test_a_missing_program_is_reported_by_its_status(sandbox: Bubblewrap, tmp_path: Path) -> None:
    ended = await sandbox.run(("no-such-program",), Workspace(tmp_path), SOON)
    assert ended.status != 0 and b"no-such-program" in ended.stderr.head


def test_the_reason_for_no_sandbox_is_a_sentence(tmp_path: Path) -> None:
    assert Bubblewrap.found(str(tmp_path)) is None
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'no permission to make namespaces' >&2\nexit 1\n")
    broken.chmod(0o755)
    found = Bubblewrap.found(str(tmp_path))
    assert found is not None
    assert found.problem() == f"{broken} cannot make a sandbox here: no permission to make namespaces"
    assert "does not work" in (Bubblewrap(str(tmp_path / "nothing")).problem() or "")


async def test_a_command_whose_drone_is_killed_before_it_may_start_never_starts(
    sandbox: Bubblewrap, tmp_path: Path
) -> None:
    leash = Leash()
    words = (
        *leash.options,
        "--ro-bind",
        "/",
        "/",
        "--unshare-pid",
        "--die-with-parent",
        "--bind",
        str(tmp_path),
        "/tmp",
    )
    process = await asyncio.create_subprocess_exec(
        sandbox.program, *words, "--", "touch", "/tmp/begun", pass_fds=leash.descriptors, start_new_session=True
    )
    leash.handed_over()
    assert await leash.ready(DEFAULT.of_each()) is not None
    leash.close()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await process.wait()
    os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    assert not (tmp_path / "begun").exists()


async def test_the_record_of_a_dead_drone_lists_the_first_process_of_its_sandbox(
    tmp_path: Path, sandbox: Bubblewrap
) -> None:
    record, found = tmp_path / "children" / "record", list[list[int]]()
    custody = Custody()
    custody.guard(lambda: float("inf"), margin_seconds=60.0, record=record)
    try:
        own = Bubblewrap.found()
        assert own is not None
        own.custody = custody
        await own.run(
            ("sh", "-c", "echo begun"),
            Workspace(tmp_path),
            SOON,
            on_output=lambda piece: found.append([one.pid for one in left_behind(record)]),
        )
    finally:
        custody.close()
    assert len(found[0]) == 2 and left_behind(record) == []


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "as in a drone"])
@pytest.mark.parametrize("merged", [True, False])
def test_a_program_inherits_no_descriptor_but_its_three_streams(
    sandbox: Bubblewrap, tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop], merged: bool
) -> None:
    loop, (kept, other) = new_loop(), os.pipe()
    os.set_inheritable(other, True)
    (tmp_path / ".git").mkdir()
    script = "ls /proc/self/fd; ls /proc/1/fd | wc -l; echo wrong >&2"
    program = ("sh", "-c", script)
    try:
        ended = loop.run_until_complete(
            sandbox.run(program, Workspace(tmp_path), Bounds(20.0), profile=Profile(write=True), merged=merged)
        )
    finally:
        loop.close()
        os.close(kept)
        os.close(other)
    # The listing has the directory itself open; pid 1 is bubblewrap, which waits with one descriptor more.
    assert ended.stdout.head.split()[:5] == [b"0", b"1", b"2", b"3", b"4"], ended.stdout.head
    assert ended.status == 0 and ended.stdout.head.endswith(b"wrong\n") is merged

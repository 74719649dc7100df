"""Background programs in the sandbox: what they may write, and where their output goes."""

import asyncio
import math
import os
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace

SOON = Bounds(20.0)
FOR_EVER = Bounds(math.inf)


@pytest.fixture(params=[True, False], ids=["by descriptor", "by name"])
def either(sandbox: Bubblewrap, request: pytest.FixtureRequest) -> Bubblewrap:
    """Bubblewrap with directories mounted by descriptor, as newer versions can, and by path."""
    return Bubblewrap(sandbox.program, by_descriptor=request.param)


def test_a_profile_has_a_name() -> None:
    assert (Profile().name, Profile(write=True).name) == ("read-only", "workspace-write")


async def test_a_workspace_is_written_only_where_the_profile_says_so(either: Bubblewrap, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    command = ("sh", "-c", "pwd; echo new > made")
    for write in (False, True):
        ended = await either.run(command, Workspace(tmp_path), SOON, profile=Profile(write=write), cwd="sub")
        assert ended.stdout.head == b"/workspace/sub\n"
        assert (ended.status == 0) is write and (tmp_path / "sub" / "made").exists() is write


async def test_further_directories_are_seen_and_written_only_as_they_say(either: Bubblewrap, tmp_path: Path) -> None:
    for name in ("workspace", "one", "two"):
        (tmp_path / name).mkdir()
    one, two = (Workspace(tmp_path / name) for name in ("one", "two"))
    mounts = (Mount(one.fd, "/one"), Mount(two.fd, "/two/deep", write=True))
    command = ("sh", "-c", "echo x > /two/deep/x; echo y > /one/y; ls /one /two/deep")
    ended = await either.run(command, Workspace(tmp_path / "workspace"), SOON, mounts=mounts)
    assert ended.stdout.head == b"/one:\n\n/two/deep:\nx\n" and b"/one/y: Read-only" in ended.stderr.head
    assert (tmp_path / "two" / "x").read_text() == "x\n"


async def test_merged_output_keeps_its_order_and_is_passed_on_at_once(sandbox: Bubblewrap, tmp_path: Path) -> None:
    heard: list[bytes] = []
    command = ("sh", "-c", "echo one; echo two >&2; echo three")
    ended = await sandbox.run(command, Workspace(tmp_path), Bounds(20.0, 4, 0), merged=True, on_output=heard.append)
    assert b"".join(heard) == b"one\ntwo\nthree\n"
    assert (ended.stdout.head, ended.stdout.total, ended.stderr.total) == (b"one\n", 14, 0)


async def test_a_piped_program_is_talked_to_through_its_streams(sandbox: Bubblewrap, tmp_path: Path) -> None:
    running = await sandbox.start(("cat",), Workspace(tmp_path), FOR_EVER, stdin=True)
    assert running.stdin is not None and running.stdout is not None
    for line in (b"hello\n", b"again\n"):
        running.stdin.write(line)
        assert await running.stdout.readline() == line
    running.stdin.close()
    assert await running.stdout.read() == b""
    assert (await running.wait()).status == 0


async def test_a_killed_program_is_gone_with_its_children_though_its_output_is_unread(
    sandbox: Bubblewrap, tmp_path: Path
) -> None:
    running = await sandbox.start(("sh", "-c", "yes & yes"), Workspace(tmp_path), FOR_EVER, stdin=True)
    ended = await running.kill()
    assert ended.status == 137 and not ended.timed_out
    assert await running.kill() is ended


async def test_cancelling_a_wait_leaves_the_program_running(sandbox: Bubblewrap, tmp_path: Path) -> None:
    heard = asyncio.Event()
    command = ("sh", "-c", "echo here; sleep 1000")
    running = await sandbox.start(command, Workspace(tmp_path), FOR_EVER, on_output=lambda piece: heard.set())
    waiting = asyncio.create_task(running.wait())
    await heard.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    ended = await running.kill()
    assert ended.stdout.head == b"here\n" and ended.status == 137


async def test_a_program_that_cannot_be_started_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-bwrap"):
        await Bubblewrap(str(tmp_path / "no-bwrap")).start(("true",), Workspace(tmp_path), SOON)


async def test_a_background_program_is_killed_when_its_time_is_over(sandbox: Bubblewrap, tmp_path: Path) -> None:
    running = await sandbox.start(("sleep", "1000"), Workspace(tmp_path), Bounds(0.5))
    assert (await running.wait()).timed_out


class Way:
    """A network that records the calls to it, and whose `attach` may fail."""

    environment = {"WAY": "this"}  # noqa: RUF012
    files = {"/etc/way/file": b"content"}  # noqa: RUF012
    denied = ()

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[str] = []
        self._refuses = refuses

    async def prepare(self) -> None:
        """Does nothing."""

    async def attach(self, first: int) -> None:
        self.asked.append("attach")
        assert os.fstat(first)
        if self._refuses:
            raise OSError("no way")

    async def detach(self) -> None:
        self.asked.append("detach")


async def test_the_network_is_attached_before_the_program_starts(sandbox: Bubblewrap, tmp_path: Path) -> None:
    way = Way()
    command = ("sh", "-c", "echo $WAY; cat /etc/way/file; echo > /etc/way/file")
    ended = await sandbox.run(command, Workspace(tmp_path), SOON, profile=Profile(egress=way))
    assert ended.stdout.head == b"this\ncontent" and ended.status != 0
    assert way.asked == ["attach", "detach"] and Profile(egress=way).name == "read-only+network"


async def test_a_program_whose_network_cannot_be_attached_does_not_start(sandbox: Bubblewrap, tmp_path: Path) -> None:
    way = Way(refuses=True)
    profile = Profile(write=True, egress=way)
    for starting in (sandbox.run, sandbox.start):
        with pytest.raises(OSError, match="no way"):
            await starting(("touch", "begun"), Workspace(tmp_path), SOON, profile=profile)
    assert not (tmp_path / "begun").exists() and way.asked == ["attach", "detach"] * 2

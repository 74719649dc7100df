"""The lock on a workspace of one machine: shared by readers, exclusive for writers, taken from those that lost it."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from drone.sandbox.host_lock import Holder, HostLock, Overtaken, locks_of_this_host
from drone.sandbox.reaper import Process
from tests.waiting import until

ROOT = Path(__file__).parents[3]
NAP = "7200"
MINE = "incarnation-of-mine"


class Other:
    """Another process that holds the lock and has a child."""

    def __init__(self, folder: Path, how: str, order: str = "theirs") -> None:
        self.incarnation = f"incarnation-of-{order}"
        arguments = (str(folder), "key", order, self.incarnation, how, str(folder / f"children-of-{order}"), NAP)
        command = (sys.executable, "-m", "tests.drone.sandbox.lock_holder", *arguments)
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stdout is not None
        child = Process.of(int(self.process.stdout.readline().split()[1]))
        assert child is not None
        self.child = child

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        me = Process.of(self.process.pid)
        assert me is not None
        until(lambda: me.stopped, "it stands still")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.child.kill()


class Scene:
    """Locks of this process in one directory. `live`: the incarnations whose lease holds."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.live = {MINE}
        self._stack = stack

    def lock(self, how: str, order: str = "mine", epoch: int = 1, key: str = "key", service: str = "") -> HostLock:
        me = Holder.here(order, epoch, MINE, self.folder / "children-of-mine", service)
        lock = HostLock(self.folder, key, me, exclusive=how == "exclusive", live=lambda: self.live)
        self._stack.callback(lock.release)
        return lock

    def other(self, how: str, order: str = "theirs") -> Other:
        other = Other(self.folder, how, order)
        self._stack.callback(other.end)
        self.live.add(other.incarnation)
        return other

    def fence(self, other: Other) -> None:
        self.live.discard(other.incarnation)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path, stack)


def test_readers_hold_it_together_and_a_writer_alone(scene: Scene) -> None:
    first, second, writer = (scene.lock(how, how + str(n)) for n, how in enumerate(["shared", "shared", "exclusive"]))
    assert first.take() and second.take()
    assert not writer.take()
    first.release()
    assert not writer.take()
    second.release()
    assert writer.take()
    assert not first.take()


def test_another_workspace_is_another_lock(scene: Scene) -> None:
    assert scene.lock("exclusive", "one").take()
    assert scene.lock("exclusive", "two", key="other").take()


def test_a_released_lock_leaves_no_page(scene: Scene) -> None:
    lock = scene.lock("shared")
    lock.take()
    assert [page.name for page in scene.folder.glob("key/*.json")] == ["mine.json"]
    lock.release()
    assert list(scene.folder.glob("key*")) == []


@pytest.mark.parametrize("how", ["shared", "exclusive"])
def test_a_lock_that_another_process_made_anew_is_left_alone(scene: Scene, how: str) -> None:
    """The case of a fenced holder, after a clean-up of temporary files deleted its lock."""
    fenced, later = scene.lock(how), scene.lock("exclusive", epoch=2)
    assert fenced.take()
    shutil.rmtree(scene.folder / "key")
    assert later.take()
    fenced.release()
    assert sorted(file.name for file in scene.folder.glob("key/*")) == ["lock", "mine.json"]
    assert not scene.lock("exclusive", "third").take()


def test_a_writer_leaves_the_page_of_another_and_nothing_of_its_own(scene: Scene) -> None:
    """A holder on another machine, or in another pid namespace, may still live: that cannot be determined here."""
    writer, reader = scene.lock("exclusive"), scene.lock("shared", "reader")
    assert writer.take()
    elsewhere = replace(Holder.here("theirs", 1, "i", scene.folder / "c"), space="elsewhere")
    page = scene.folder / "key" / "theirs.json"
    page.write_text(json.dumps(asdict(elsewhere)))
    writer.release()
    assert [file.name for file in scene.folder.glob("key/*.json")] == ["theirs.json"]
    assert reader.take()
    reader.release()
    assert page.exists()


def test_a_lock_released_before_its_thread_takes_it_is_given_back(scene: Scene) -> None:
    left, next_one = scene.lock("exclusive", "left"), scene.lock("exclusive", "next")
    left.release()
    assert not left.take()
    assert list(scene.folder.glob("key*")) == []
    assert next_one.take()


def test_a_refused_holder_can_take_the_lock_once_it_is_released(scene: Scene) -> None:
    first, second, third = (scene.lock("exclusive", order) for order in ("a", "b", "c"))
    assert first.take() and not second.take()
    first.release()
    assert second.take() and not third.take()


def test_a_holder_of_another_service_is_waited_for_and_never_ended(scene: Scene) -> None:
    """The leases in its database cannot be looked up here."""
    other = scene.other("exclusive")
    scene.fence(other)
    lock = scene.lock("exclusive", service="another database")
    assert not lock.take() and not lock.end_others() and other.child.there
    other.process.kill()
    other.process.wait()
    assert lock.take() and not other.child.there


def test_drones_with_data_directories_of_their_own_share_the_locks_of_their_host(tmp_path: Path) -> None:
    assert locks_of_this_host(tmp_path / "one") == locks_of_this_host(tmp_path / "two")


def test_an_earlier_holder_of_an_order_cannot_take_the_lock_after_a_later_one(scene: Scene) -> None:
    assert scene.lock("shared", epoch=7).take()
    with pytest.raises(Overtaken):
        scene.lock("shared", epoch=6).take()


def test_children_of_a_holder_that_was_killed_are_ended_before_the_next_one_begins(scene: Scene) -> None:
    other = scene.other("exclusive")
    other.process.kill()
    other.process.wait()
    assert other.child.there
    assert scene.lock("exclusive").take()
    assert not other.child.there
    assert [page.name for page in scene.folder.glob("key/*.json")] == ["mine.json"]


def test_a_stopped_fenced_reader_loses_its_children_and_is_left_alone(scene: Scene) -> None:
    other = scene.other("shared")
    other.stop()
    scene.fence(other)
    assert scene.lock("shared").take()
    assert not other.child.there
    assert other.process.poll() is None


def test_a_fenced_holder_that_blocks_the_lock_is_killed_with_its_children(scene: Scene) -> None:
    other = scene.other("exclusive")
    other.stop()
    scene.fence(other)
    lock = scene.lock("exclusive")
    assert not lock.take()
    assert lock.end_others()
    assert other.process.wait(30) == -signal.SIGKILL
    until(lock.take, "the lock is free")
    assert not other.child.there


@pytest.mark.parametrize("stopped", [True, False])
def test_a_holder_whose_lease_holds_is_never_ended(scene: Scene, stopped: bool) -> None:
    other = scene.other("exclusive")
    if stopped:
        other.stop()
    lock = scene.lock("exclusive")
    assert not lock.take()
    assert not lock.end_others()
    assert other.process.poll() is None and other.child.there


def test_a_holder_never_kills_itself(scene: Scene) -> None:
    assert scene.lock("exclusive", "first").take()
    scene.live.clear()
    lock = scene.lock("exclusive", "second")
    assert not lock.take() and not lock.end_others()


def test_a_process_that_reuses_the_pid_of_a_holder_is_not_killed(scene: Scene) -> None:
    other = scene.other("shared")
    scene.fence(other)
    page = scene.folder / "key" / "theirs.json"
    started = Process.of(other.process.pid)
    assert started is not None
    page.write_text(page.read_text().replace(str(started.started), str(started.started + 1)))
    lock = scene.lock("exclusive")
    assert not lock.take()
    lock.end_others()
    assert other.process.poll() is None


def test_an_unreadable_page_counts_as_no_holder(scene: Scene) -> None:
    (scene.folder / "key").mkdir()
    for name, content in {"a": "", "b": "[]", "c": '{"pid": 1}', "d": "\x00"}.items():
        (scene.folder / "key" / f"{name}.json").write_text(content)
    assert scene.lock("exclusive").take()

"""The turn of `drone run` shares its workspace with whatever else writes there on this machine: one at a time."""

import asyncio
import os
from pathlib import Path

import pytest

from drone.agent.ports.write_access import HoldRefused, WriteHold
from drone.local_writing import LocalWriteAccess
from drone.sandbox.host_lock import Holder, HostLock, locks_of_this_host
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.workspace_key import workspace_key


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


def drones_lock(workspace: Path, live: frozenset[str]) -> HostLock:
    """The lock of a drone's order, whose database knows these incarnations."""
    me = Holder.here("order-of-a-drone", 1, "incarnation", workspace / "children", "database")
    key = workspace_key(Workspace(workspace)).text
    directory = locks_of_this_host(workspace.parent / "data/run/workspaces")
    return HostLock(directory, key, me, exclusive=True, live=lambda: live)


async def test_it_waits_for_a_drone_and_says_once_for_whom(workspace: Path) -> None:
    said: list[str] = []
    access = LocalWriteAccess("turn", workspace, workspace.parent / "data", said.append)
    lock = drones_lock(workspace, frozenset())
    assert lock.take()
    refusals = [await access.acquire() for _ in range(2)]
    assert refusals[0] == refusals[1] == HoldRefused(*said)
    assert str(workspace) in said[0] and "writes" in said[0]
    lock.release()
    assert isinstance(held := await access.acquire(), WriteHold) and held.waited_seconds > 0
    assert await access.acquire() == held
    access.release()
    assert drones_lock(workspace, frozenset()).take()


async def test_a_drone_waits_for_it_and_does_not_end_it(workspace: Path) -> None:
    access = LocalWriteAccess("turn", workspace, workspace.parent / "data", print)
    assert isinstance(await access.acquire(), WriteHold)
    lock = drones_lock(workspace, frozenset({"incarnation"}))
    assert not lock.take() and not lock.end_others()
    access.release()
    assert lock.take()
    lock.release()


def test_another_process_is_named_with_its_order(workspace: Path) -> None:
    lock = drones_lock(workspace, frozenset())
    assert lock.take()
    child = os.fork()
    if not child:
        other = LocalWriteAccess("turn", workspace, workspace.parent / "data", print)
        refused = asyncio.run(other.acquire())
        said = refused.message if isinstance(refused, HoldRefused) else ""
        os._exit(0 if "order-of-a-drone" in said and str(os.getppid()) in said else 1)
    assert os.waitpid(child, 0)[1] == 0
    lock.release()

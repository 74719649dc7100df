"""The directory of a workspace is deleted while an order works in it: every tool says so, and so does the outcome."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from drone.agent.ports.model import WantedCall
from drone.models.scripted import call
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Roots, Workspace
from drone.worker.site import Site
from drone.worker.workspaces import Workspaces
from mcc.contracts.status import OrderStatus
from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene
from tests.drone.worker.bench_of_orders import Bench
from tests.hostile.orders import Orders

CALLS = (
    call("environment_detect"),
    call("list_files"),
    call("find_files", pattern="*"),
    call("search_text", pattern="one"),
    call("read_file", path="a.py"),
    call("outline", path="a.py"),
    call("rules_list"),
    WantedCall("rules_read", {"name": "AGENTS.md"}),
    call("write_file", path="sub/b.txt", content="x"),
    call("edit_file", path="a.py", old="one", new="two"),
    call("apply_patch", patch="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one = 1\n+two = 2\n"),
    call("move_file", source="a.py", target="b.py"),
    call("delete_file", path="a.py"),
    call("run_shell", command="ls"),
    call("run_shell", command="ls", background=True),
    call("git_status"),
    call("git_diff"),
    call("git_log"),
    call("git_add", paths=["a.py"]),
    call("git_commit", message="x"),
)

SAID = "The directory of this workspace was deleted while the order was at work"


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    found_sandbox()
    Scene(tmp_path / "roots" / "work").commit("first", {"a.py": "one = 1\n", "AGENTS.md": "# Rules\n"})
    groups = ("workspace_write", "git_write", "shell_write")
    return Orders(tmp_path, tmp_path / "roots", tools=groups)


async def test_every_tool_says_that_it_is_gone_and_the_order_goes_on(orders: Orders, tmp_path: Path) -> None:
    work = tmp_path / "roots" / "work"

    def deleted() -> Iterable[WantedCall]:
        shutil.rmtree(work)
        work.mkdir()  # what has its name now is another one
        return CALLS

    outcome, steps = await orders.run(work, [call("environment_detect"), call("read_file", path="a.py")], deleted)
    assert outcome.status is OrderStatus.SUCCEEDED and list(work.iterdir()) == []
    told = [one for one in steps if SAID in (one.content or "")]
    assert len(told) == len(CALLS) == len(steps) - 2 and all(one.is_error for one in told)


async def test_what_was_changed_there_is_told_as_lost(orders: Orders, tmp_path: Path) -> None:
    work = tmp_path / "roots" / "work"
    upgrade(url := f"sqlite:///{tmp_path / 'mcc.db'}")

    def deleted() -> Iterable[WantedCall]:
        shutil.rmtree(work)
        return (call("list_files"),)

    orders.play([call("environment_detect")], [call("write_file", path="b.txt", content="x")], deleted)

    def workspaces(bench: Bench) -> Workspaces:
        return Workspaces(bench.async_store, orders.crew, bench.trust, Site(Roots([work.parent]), tmp_path / "locks"))

    async with Bench(open_store(url), crew=orders.crew, workspaces=workspaces) as bench:
        order = bench.place("go", workspace=str(work))
        await bench.runner.work(order.id)
        kept = bench.store.orders.get(order.id)
    assert kept.status is OrderStatus.SUCCEEDED and kept.changes is None
    assert kept.detail == f"Its workspace, {work}, was deleted while it worked: if it changed anything, that is lost."


async def test_no_program_is_started_in_a_directory_that_is_gone(tmp_path: Path) -> None:
    sandbox = found_sandbox()
    (tmp_path / "work").mkdir()
    workspace = Workspace(tmp_path / "work")
    (tmp_path / "work").rmdir()
    with pytest.raises(OSError, match="the directory that it would run in was deleted"):
        await sandbox.run(("true",), workspace, Bounds(5.0))

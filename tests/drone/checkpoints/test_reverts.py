"""Orders of kind revert: what they restore, what they leave, and that they can be interrupted and reverted."""

import os
import shutil
import stat
from collections.abc import Collection
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.restore import plan_restore
from drone.checkpoints.revert import Revert
from drone.checkpoints.summary import PathChange
from drone.checkpoints.tree import TreeEntry
from drone.sandbox.places.paths import Workspace
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import OrderKind, OrderOrigin, OrderOutcome, WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus
from tests.drone.tools.failing_records import WHY, UnclosedCheckpoints

STOP = Event()
Picture = dict[str, Any]


def revert_order(origin: OrderOrigin, order_id: str = "") -> WorkOrder:
    return WorkOrder.model_construct(
        id=order_id or fresh_id(),
        kind=OrderKind.REVERT,
        origin=origin,
        created_at=now(),
        session_id=fresh_id(),
        session_seq=1,
        status=OrderStatus.RUNNING,
    )


class Site:
    """A workspace in which orders make changes and are reverted."""

    def __init__(self, path: Path) -> None:
        self.root, self.data = path / "shop", path / "data"
        self.root.mkdir()

    def order(self, order_id: str = "order-1") -> OrderCheckpoints:
        return OrderCheckpoints(Workspace(self.root), self.data, order_id)

    def picture(self) -> Picture:
        """Type, mode and content of every path in the workspace."""
        found: Picture = {}
        for path in sorted(self.root.rglob("*")):
            if ".mcc-workspace" in path.parts:
                continue
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            mode = 0 if path.is_symlink() else stat.S_IMODE(status.st_mode)
            found[os.fsdecode(os.path.relpath(path, self.root))] = (stat.S_IFMT(status.st_mode), mode, content)
        return found

    async def revert(
        self, order_id: str = "order-1", *, own: str = "", overwrite: bool = False, reached: Collection[str] = ()
    ) -> OrderOutcome:
        origin = OrderOrigin.model_construct(kind="revert", order_id=order_id, overwrite=overwrite)
        made = revert_order(origin, own)
        turn = Turn.begun(MemoryJournal(made.id), Budget(Limits()))
        return await Revert(made, origin, self.order(made.id), turn, reached).run()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    root = site.root
    (root / ".git/objects/aa").mkdir(parents=True)
    (root / ".git/index").write_text("index")
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / "src/deep").mkdir(parents=True)
    (root / "empty").mkdir(mode=0o711)
    (root / ".gitignore").write_text("*.log\n")
    (root / "run.log").write_bytes(b"ignored \xff\0")
    (root / "untracked").write_text("never committed")
    (root / "src/a.py").write_bytes(b"a\r\n")
    (root / "src/deep/b").write_text("b")
    (root / "tool").write_text("#!/bin/sh\n")
    os.chmod(root / "tool", 0o755)
    os.symlink("src/a.py", root / "link")
    os.symlink("/nowhere", root / "dangling")
    (root / os.fsdecode(b"caf\xe9")).write_text("latin")
    return site


def destroy(root: Path) -> None:
    """Do what a bad command does: delete everything and make other files."""
    for path in root.iterdir():
        if path.name != ".mcc-workspace":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (root / "src").write_text("a file where a directory was")
    (root / "tool").mkdir()
    (root / "tool/inside").write_text("x")
    (root / "new/er").mkdir(parents=True)
    os.symlink("/etc", root / "link")


def by_a_call(site: Site, call_id: str = "c1", order_id: str = "order-1") -> None:
    order = site.order(order_id)
    order.begin(call_id, None, STOP)
    destroy(site.root)
    order.close(call_id, STOP)


async def test_a_destroyed_workspace_comes_back_byte_for_byte(site: Site) -> None:
    before = site.picture()
    by_a_call(site)
    outcome = await site.revert()

    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    assert site.picture() == before


async def test_a_revert_can_be_reverted(site: Site) -> None:
    by_a_call(site)
    after = site.picture()
    await site.revert(own="revert-1")
    outcome = await site.revert("revert-1")
    assert outcome.status is OrderStatus.SUCCEEDED and site.picture() == after


async def test_changes_of_others_to_other_files_stay(site: Site) -> None:
    order = site.order()
    order.begin("c1", [b"src/a.py"], STOP)
    (site.root / "src/a.py").write_text("the order's")
    order.close("c1", STOP)
    (site.root / "untracked").write_text("a person's")
    outcome = await site.revert()
    assert outcome.answer == "1 file of order order-1 is as before its first write."
    assert (site.root / "src/a.py").read_bytes() == b"a\r\n" and (site.root / "untracked").read_text() == "a person's"


async def test_files_changed_since_by_others_are_listed_and_nothing_is_reverted(site: Site) -> None:
    before = site.picture()
    by_a_call(site)
    (site.root / "src").write_text("mended by a person")
    (site.root / "tool/theirs").write_text("x")
    (site.root / "new/theirs").write_text("x")
    there = site.picture()

    outcome = await site.revert()
    assert (outcome.status, outcome.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
    assert outcome.result == {"order_id": "order-1", "changed": ["src", "tool"]} and "src, tool" in (
        outcome.detail or ""
    )
    assert site.picture() == there

    again = await site.revert(overwrite=True, own="revert-1")
    assert again.status is OrderStatus.SUCCEEDED, again.detail
    theirs = {"new", "new/theirs"}
    assert {path: what for path, what in site.picture().items() if path not in theirs} == before
    back = await site.revert("revert-1")
    assert back.status is OrderStatus.SUCCEEDED and site.picture() == there, "and what was overwritten was kept"


async def test_only_changes_after_an_entry_are_reverted(site: Site) -> None:
    order = site.order()
    for number in range(3):
        order.begin(f"c{number}", [b"src/a.py"], STOP)
        (site.root / "src/a.py").write_text(f"version {number}")
        order.close(f"c{number}", STOP)
    await site.revert(reached=["c0"])
    assert (site.root / "src/a.py").read_text() == "version 0"


async def test_git_objects_are_kept_and_changes_of_the_index_do_not_count(site: Site) -> None:
    order = site.order()
    order.begin("c1", None, STOP)
    (site.root / ".git/objects/aa/new").write_text("a commit's")
    (site.root / ".git/HEAD").write_text("ref: refs/heads/other\n")
    (site.root / ".git/index").write_text("staged")
    order.close("c1", STOP)
    (site.root / ".git/index").write_text("looked at by a person")

    outcome = await site.revert()
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    assert (site.root / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    assert (site.root / ".git/index").read_text() == "index"
    assert (site.root / ".git/objects/aa/new").exists()


async def test_an_interrupted_revert_is_finished(site: Site) -> None:
    before = site.picture()
    by_a_call(site)
    site.order("revert-1").begin("revert-1", None, STOP)
    (site.root / "src").unlink()
    (site.root / "src").mkdir()
    (site.root / "src/.mcc-new-0123456789abcdef").write_text("half")
    (site.root / "untracked").write_text("never committed")

    outcome = await site.revert(own="revert-1")
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    assert site.picture() == before


async def test_reverting_an_order_without_checkpoints_here_fails_with_a_reason(site: Site) -> None:
    outcome = await site.revert("order-of-elsewhere")
    assert outcome.reason is FailureReason.INVALID and "on another host" in (outcome.detail or "")


def test_the_summary_lists_what_an_order_changed(site: Site) -> None:
    order = site.order()
    order.begin("c1", None, STOP)
    (site.root / "src/a.py").write_bytes(b"a\r\nb\r\n")
    os.rename(site.root / "untracked", site.root / "src/tracked")
    (site.root / "run.log").unlink()
    (site.root / "empty").rmdir()
    (site.root / "made").write_text("1\n2\n")
    (site.root / ".git/HEAD").write_text("x")
    order.note_entry(order.known()[0].id, 18)
    found = order.summary(STOP)

    assert found is not None
    assert [(one.path, one.change, one.source, one.added, one.removed) for one in found.files] == [
        ("made", "added", None, 2, 0),
        ("run.log", "deleted", None, 0, 0),
        ("src/a.py", "modified", None, 1, 0),
        ("src/tracked", "renamed", "untracked", 0, 0),
    ]
    assert [one.after for one in found.checkpoints] == [17]
    assert "+++ b/src/a.py\n@@ -1 +1,2 @@\n a\r\n+b\r\n" in found.diff and "rename from untracked" in found.diff
    assert order.known()[0].after is not None, "calls that were cut off are over with their order"


def test_a_file_name_adds_no_line_to_the_diff(site: Site) -> None:
    order = site.order()
    order.begin("c1", None, STOP)
    os.rename(site.root / "untracked", site.root / "moved\n+++ b\udcff")
    os.chmod(site.root / "src/a.py", 0o600)
    os.rename(site.root / "src/a.py", site.root / "mode\nx")
    order.note_entry(order.known()[0].id, 18)
    found = order.summary(STOP)
    assert found is not None and "rename to moved\\n+++ b\\udcff\n" in found.diff
    assert "mode\\nx" in found.diff and "\nx" not in found.diff


def test_an_order_without_changes_has_no_summary(site: Site) -> None:
    assert site.order().summary(STOP) is None
    order = site.order()
    order.begin("c1", None, STOP)
    (site.root / "made").write_text("")
    order.close("c1", STOP)
    order.begin("c2", None, STOP)
    (site.root / "made").unlink()
    assert order.summary(STOP) is None


def test_planning_a_restore_of_many_files_reads_each_directory_once() -> None:
    names = [b"d/%d" % number for number in range(500)]
    file, kept = TreeEntry("file", 0o644, 0, bytes(32)), dict[bytes, dict[bytes, TreeEntry]]()
    kept[b"d"] = {name[2:]: file for name in names}
    kept[b"top"] = {b"d": TreeEntry("directory", 0o755, 0, b"d")}
    reads: list[bytes] = []

    def trees(digest: bytes) -> dict[bytes, TreeEntry]:
        reads.append(digest)
        return kept[digest]

    wanted = {name: PathChange(name, None, file) for name in names}
    assert len(plan_restore(trees, wanted, b"top", overwrite=False).targets) == 500
    assert sorted(reads) == [b"d", b"top"]


def crowd(site: Site, *names: str) -> None:
    """Directories with three files each."""
    for name in names:
        (site.root / name).mkdir()
        for number in range(3):
            (site.root / name / f"f{number}").write_text(f"{name} {number}")


async def test_a_revert_of_a_workspace_with_unwatched_directories_ends_as_partial(tmp_path: Path) -> None:
    site = Site(tmp_path)
    crowd(site, "a", "b", "y", "z")
    order = OrderCheckpoints(Workspace(site.root), site.data, "order-1", most_names=8)
    order.begin("c1", None, STOP)
    (site.root / "a/f0").write_text("changed")
    (site.root / "z/f1").write_text("changed")
    order.close("c1", STOP)
    outcome = await site.revert()

    assert outcome.status is OrderStatus.SUCCEEDED and isinstance(outcome.result, dict)
    assert (outcome.result["restored"], outcome.result["partial"]) == (["a/f0"], True)
    assert outcome.answer is not None and outcome.answer.startswith("Partial: 1 file")
    assert "2 directories are not watched (y, z)" in outcome.answer
    assert (site.root / "a/f0").read_text() == "a 0" and (site.root / "z/f1").read_text() == "changed"


async def test_what_a_flood_of_new_names_left_unwatched_makes_a_revert_partial(tmp_path: Path) -> None:
    site = Site(tmp_path)
    crowd(site, "m")
    order = OrderCheckpoints(Workspace(site.root), site.data, "order-1", most_names=8)
    order.begin("c1", None, STOP)
    crowd(site, "!junk", "~junk")
    (site.root / "m/f2").write_text("changed")
    closed = order.close("c1", STOP)
    assert "m/f2" in closed.paths and "(~junk)" in closed.unwatched
    outcome = await site.revert()
    assert isinstance(outcome.result, dict) and outcome.result["partial"]
    assert (site.root / "m/f2").read_text() == "m 2" and not (site.root / "!junk").exists()
    assert (site.root / "~junk").exists() and "(~junk)" in (outcome.answer or "")


async def test_a_whole_revert_is_not_called_partial(site: Site) -> None:
    by_a_call(site)
    outcome = await site.revert()
    assert isinstance(outcome.result, dict) and outcome.result["partial"] is False
    assert "artial" not in (outcome.answer or "")


async def test_a_revert_whose_end_cannot_be_recorded_has_reverted_all_the_same(site: Site) -> None:
    before = site.picture()
    by_a_call(site)
    origin = OrderOrigin.model_construct(kind="revert", order_id="order-1", overwrite=False)
    made = revert_order(origin)
    turn = Turn.begun(MemoryJournal(made.id), Budget(Limits()))
    own = UnclosedCheckpoints(Workspace(site.root), site.data, made.id)
    outcome = await Revert(made, origin, own, turn, ()).run()
    assert outcome.status is OrderStatus.SUCCEEDED and site.picture() == before
    assert isinstance(outcome.result, dict) and outcome.result["partial"]
    assert f"was not recorded: {WHY}" in (outcome.answer or "")


def writes(site: Site, call_id: str, text: str, order_id: str = "order-1", path: str = "src/a.py") -> None:
    """A call that is the only one at work writes this file."""
    order = site.order(order_id)
    order.begin(call_id, [path.encode()], STOP)
    (site.root / path).write_text(text)
    order.close(call_id, STOP)


async def test_what_another_order_wrote_between_two_calls_is_somebody_elses(site: Site) -> None:
    writes(site, "c1", "first")
    writes(site, "c1", "theirs", "order-2")
    writes(site, "c2", "last")
    refused = await site.revert()
    assert (refused.status, refused.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
    assert "changed since by somebody else: src/a.py" in str(refused.detail)
    assert (site.root / "src/a.py").read_text() == "last"
    assert (await site.revert(overwrite=True)).status is OrderStatus.SUCCEEDED
    assert (site.root / "src/a.py").read_bytes() == b"a\r\n"


async def test_what_another_order_wrote_elsewhere_between_two_calls_does_not_matter(site: Site) -> None:
    before = site.picture()
    writes(site, "c1", "first")
    writes(site, "c1", "theirs", "order-2", "untracked")
    writes(site, "c2", "last")
    assert (await site.revert()).status is OrderStatus.SUCCEEDED
    assert site.picture()["src/a.py"] == before["src/a.py"]
    assert (site.root / "untracked").read_text() == "theirs"


async def test_what_calls_of_one_order_write_at_the_same_time_is_its_own(site: Site) -> None:
    before, order = site.picture(), site.order()
    for call_id in ("c1", "c2"):
        order.begin(call_id, None, STOP)
    for call_id in ("c2", "c1"):
        (site.root / "src/a.py").write_text(f"by {call_id}")
        order.close(call_id, STOP)
    assert (await site.revert()).status is OrderStatus.SUCCEEDED
    assert site.picture() == before

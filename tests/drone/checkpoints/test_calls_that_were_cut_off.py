"""A call whose process was lost has left what is there when the next order begins to write, above or below as well."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.store import CheckpointStore
from drone.checkpoints.summary import path_changes
from drone.sandbox.places.paths import Workspace

STOP = Event()
FILE = b"in/tally"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "shop" / "in").mkdir(parents=True)
    (tmp_path / "shop" / "in" / "tally").write_text("begun\n")
    return tmp_path / "shop"


def process(root: Path, order_id: str = "order-1") -> OrderCheckpoints:
    """The order as a new process has it, in this workspace."""
    return OrderCheckpoints(
        Workspace(root), root.parent / "data" if root.name == "shop" else root.parents[1] / "data", order_id
    )


def write(root: Path, order: OrderCheckpoints, call_id: str, line: str, paths: Sequence[bytes] | None) -> None:
    """A call that adds a line to the tally of `root`."""
    order.begin(call_id, paths, STOP)
    file = next(path for path in (root / "in/tally", root / "tally") if path.exists())
    file.write_text(f"{file.read_text()}{line}\n")
    order.close(call_id, STOP)


def befores(root: Path) -> dict[bytes, bytes | None]:
    """What each path of order-1 is brought back to."""
    order = process(root)
    with CheckpointStore.opened(order.path) as store:
        changes = path_changes(store.tree, store.checkpoints("order-1")).values()
        return {one.path: one.before and store.content(one.before.digest, 100) for one in changes if not one.shared}


@pytest.mark.parametrize("paths", [None, [FILE]])
@pytest.mark.parametrize("effect", ["", "half\n"])
def test_what_another_order_wrote_before_it_goes_on_is_not_its_own(
    root: Path, paths: Sequence[bytes] | None, effect: str
) -> None:
    process(root).begin("lost", paths, STOP)
    (root / "in/tally").write_text(f"begun\n{effect}")
    write(root, process(root, "order-2"), "theirs", "theirs", [FILE])
    assert befores(root) == ({FILE: b"begun\n"} if effect else {})
    write(root, process(root), "next", "ours", [FILE])
    # What it had changed itself was changed by the other one since; else it has found theirs there.
    assert befores(root) == ({} if effect else {FILE: b"begun\ntheirs\n"})


@pytest.mark.parametrize(("lost", "other"), [("shop", "shop/in"), ("shop/in", "shop")])
def test_what_an_order_of_a_workspace_above_or_below_wrote_is_not_its_own(root: Path, lost: str, other: str) -> None:
    first, second = root.parent / lost, root.parent / other
    path = {"shop": FILE, "shop/in": b"tally"}
    process(first).begin("lost", None, STOP)
    write(second, process(second, "order-2"), "theirs", "theirs", [path[other]])
    write(first, process(first), "next", "ours", [path[lost]])
    assert befores(first)[path[lost]] == b"begun\ntheirs\n"


def test_one_that_goes_on_by_itself_keeps_what_its_lost_call_did(root: Path) -> None:
    process(root).begin("lost", None, STOP)
    (root / "in/tally").write_text("half\n")
    write(root, process(root), "next", "ours", [FILE])
    assert befores(root) == {FILE: b"begun\n"}


def test_an_order_that_has_ended_leaves_no_trace_for_its_neighbours(root: Path) -> None:
    order = process(root)
    write(root, order, "call", "ours", [FILE])
    links = root.parent / "data" / "unfinished"
    assert [link.readlink() for link in links.iterdir()] == [root]
    order.summary(STOP)
    assert list(links.iterdir()) == []

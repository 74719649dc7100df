"""What a checkpoint holds, and the changes since that it finds."""

import os
import stat
from pathlib import Path
from threading import Event

import pytest

from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.scan import stamp_of
from drone.checkpoints.store import Checkpoint, CheckpointStore
from drone.checkpoints.tree import TreeEntry, at, entries
from drone.sandbox.places.paths import Workspace

STOP = Event()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / ".gitignore").write_text("secret.txt\n")
    (root / "secret.txt").write_text("ignored")
    (root / "src/a.py").write_bytes(b"x = 1\r\n")
    os.chmod(root / "src/a.py", 0o755)
    os.symlink("../secret.txt", root / "src/link")
    os.close(os.open(os.fsencode(root) + b"/caf\xe9", os.O_CREAT | os.O_WRONLY))
    return root


@pytest.fixture
def order(root: Path, tmp_path: Path) -> OrderCheckpoints:
    return OrderCheckpoints(Workspace(root), tmp_path / "data", "order")


def nodes(order: OrderCheckpoints, root: bytes) -> dict[bytes, TreeEntry]:
    with CheckpointStore.opened(order.path) as store:
        return dict(entries(store.tree, root))


def checkpoints(order: OrderCheckpoints) -> list[Checkpoint]:
    with CheckpointStore.opened(order.path) as store:
        return store.checkpoints("order")


def test_everything_except_the_marker_is_kept(order: OrderCheckpoints) -> None:
    begun = order.begin("c1", None, STOP)

    found = nodes(order, begun.checkpoint.before)
    assert set(found) == {b".gitignore", b"caf\xe9", b"empty", b"secret.txt", b"src", b"src/a.py", b"src/link"}
    assert found[b"src/a.py"].mode == 0o755
    assert (found[b"empty"].kind, found[b"src/link"].kind) == ("directory", "link")
    with CheckpointStore.opened(order.path) as store:
        assert store.content(found[b"src/a.py"].digest, 100) == b"x = 1\r\n"
        assert store.content(found[b"src/link"].digest, 100) == b"../secret.txt"
    assert (begun.report.files, begun.report.sentence) == (5, "")


def test_the_changes_of_a_call_are_answered_in_order(order: OrderCheckpoints, root: Path) -> None:
    order.begin("c1", None, STOP)
    (root / "src/a.py").write_text("x = 2\n")
    (root / "new").mkdir()
    (root / "new/b").write_text("b")
    (root / "secret.txt").unlink()
    os.chmod(root / "empty", 0o700)

    assert order.close("c1", STOP).paths == ("empty", "new", "new/b", "secret.txt", "src/a.py")


def test_placeholders_are_not_part_of_a_checkpoint(order: OrderCheckpoints, root: Path) -> None:
    os.mknod(root / ".env", stat.S_IFSOCK)
    os.mknod(root / "mine", stat.S_IFSOCK | 0o600)
    begun = order.begin("c1", None, STOP)
    assert b".env" not in nodes(order, begun.checkpoint.before) and b"mine" in nodes(order, begun.checkpoint.before)


def test_a_call_that_begins_again_keeps_its_first_checkpoint(order: OrderCheckpoints, root: Path) -> None:
    first = order.begin("c1", None, STOP).checkpoint
    (root / "src/a.py").write_text("half done")

    again = OrderCheckpoints(Workspace(root), order.path.parent, "order").begin("c1", None, STOP).checkpoint
    assert again == first


def test_with_named_paths_only_those_are_scanned(order: OrderCheckpoints, root: Path) -> None:
    order.begin("c1", None, STOP)
    order.close("c1", STOP)
    (root / "elsewhere").write_text("a person's")
    (root / "src/a.py").write_text("a person's, too")
    begun = order.begin("c2", [b"src/a.py", b"deep/er/file"], STOP).checkpoint
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/file").write_text("made")

    assert order.close("c2", STOP).paths == ("deep", "deep/er", "deep/er/file")
    with CheckpointStore.opened(order.path) as store:
        assert at(store.tree, begun.before, b"elsewhere") is None
        node = at(store.tree, begun.before, b"src/a.py")
        assert node is not None and store.content(node.digest, 100) == b"a person's, too"


def test_the_next_call_closes_the_checkpoint_of_a_lost_one(order: OrderCheckpoints, root: Path) -> None:
    order.begin("lost", None, STOP)
    (root / "src/a.py").write_text("half done")
    OrderCheckpoints(Workspace(root), order.path.parent, "order").begin("next", [b"new"], STOP)

    lost, following = checkpoints(order)
    assert lost.after == following.before and lost.after != lost.before


def test_an_unchanged_file_is_not_read_again(order: OrderCheckpoints, root: Path) -> None:
    old = root / "secret.txt"
    order.begin("c1", None, STOP)
    with CheckpointStore.opened(order.path) as store, store.changing():
        fresh = store.seen()
        assert fresh == {}, "what was touched a moment ago may change once more within the same time"
        status = old.stat()
        store.replace_seen({b"secret.txt": (stamp_of(status), b"k" * 32)}, {})

    assert nodes(order, order.begin("c2", None, STOP).checkpoint.before)[b"secret.txt"].digest == b"k" * 32
    os.utime(old, ns=(0, 0))
    assert nodes(order, order.begin("c3", None, STOP).checkpoint.before)[b"secret.txt"].digest != b"k" * 32


def test_files_that_cannot_be_kept_are_counted_and_named(order: OrderCheckpoints, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with open(root / "huge", "wb") as file:
        file.truncate(300_000_000)

    report = order.begin("c1", None, STOP).report
    assert sum(report.left_out.values()) == 2
    assert "larger than 256,000,000 bytes" in report.sentence and "pipe" in report.sentence


def test_a_large_file_is_kept_in_pieces(order: OrderCheckpoints, root: Path) -> None:
    data = os.urandom(9_000_000)
    (root / "large").write_bytes(data)

    begun = order.begin("c1", None, STOP).checkpoint
    node = nodes(order, begun.before)[b"large"]
    with CheckpointStore.opened(order.path) as store:
        assert [len(piece) for piece in store.pieces(node.digest)] == [4 << 20, 4 << 20, 9_000_000 - (8 << 20)]
        assert store.content(node.digest, 10_000_000) == data
    assert checkpoints(order)[0].before == begun.before

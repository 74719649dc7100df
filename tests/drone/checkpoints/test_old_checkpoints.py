"""Pruning deletes old checkpoints, with the contents that no other one needs."""

import sqlite3
from pathlib import Path
from threading import Event

from drone.checkpoints.directory import CheckpointDirectory, PrunedCheckpoints
from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.store import CheckpointStore
from drone.sandbox.places.paths import Workspace

STOP = Event()


def test_contents_that_only_an_old_order_needs_are_pruned(tmp_path: Path) -> None:
    root, data = tmp_path / "shop", tmp_path / "data"
    (root / "deep").mkdir(parents=True)
    (root / "deep/a").write_text("of the old one alone")
    (root / "b").write_text("of both")
    old, young = (OrderCheckpoints(Workspace(root), data, name) for name in ("old", "young"))
    old.begin("c1", None, STOP)
    (root / "deep/a").write_text("of both")
    old.close("c1", STOP)
    young.begin("c2", None, STOP)
    with sqlite3.connect(old.path) as connection:
        connection.execute("UPDATE calls SET at = at - 86400 * 8 WHERE order_id = 'old'")

    assert CheckpointDirectory(data).prune(9) == CheckpointDirectory(data).prune(0) == PrunedCheckpoints()
    assert CheckpointDirectory(data).prune(7) == PrunedCheckpoints(orders=1, contents=1)
    assert old.known() == [] and CheckpointDirectory(data).prune(7) == PrunedCheckpoints()
    with CheckpointStore.opened(young.path) as store:
        (checkpoint,) = store.checkpoints("young")
        node = store.tree(store.tree(checkpoint.before)[b"deep"].digest)[b"a"]
        assert store.content(node.digest, 100) == b"of both"


def test_a_file_that_is_not_a_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database, " * 100)
    assert CheckpointDirectory(tmp_path).prune(1) == PrunedCheckpoints()
    assert CheckpointDirectory(tmp_path / "nowhere").prune(1) == PrunedCheckpoints()

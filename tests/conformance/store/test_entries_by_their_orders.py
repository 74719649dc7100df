"""The cost of an append depends on the size of the group, not on the number of running orders."""

import sqlite3
from contextlib import closing
from pathlib import Path

from mcc.store.work.journal import ADVANCE
from mcc.testing.store import migrated_copy


def test_sqlite_finds_the_order_of_each_batch_by_its_id_and_not_among_all_that_run(tmp_path: Path) -> None:
    with closing(sqlite3.connect(migrated_copy(tmp_path / "mcc.db"))) as raw:
        steps = [str(row[3]) for row in raw.execute(f"EXPLAIN QUERY PLAN {ADVANCE['sqlite']}", ("[]",))]
    assert len(steps) == 2
    assert steps[0].startswith("SCAN json_each")
    assert steps[1].startswith("SEARCH s USING ") and steps[1].endswith("(order_id=?)")

"""A workspace of 10,000 files: its first checkpoint, one without changes, one after a call, and a revert."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.revert import Revert
from drone.sandbox.places.paths import Workspace
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import OrderKind, OrderOrigin, WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus

FILES, DIRECTORIES, BYTES = 10_000, 200, 3_000
TARGET_SECONDS = 5.0
"""The most that a checkpoint or a restore of `FILES` files should take."""

STOP = Event()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "workspace")
        print(f"{FILES:,} files of {BYTES:,} bytes in {DIRECTORIES} directories")
        _make_files(root)
        source = fresh_id()
        order = OrderCheckpoints(Workspace(root), Path(directory, "data"), source)
        with _timed("first checkpoint"):
            order.begin("first", None, STOP)
        with _timed("checkpoint without changes"):
            order.close("first", STOP)
        order.begin("second", None, STOP)
        _delete_files(root)
        with _timed("checkpoint after a call's deletions"):
            order.close("second", STOP)
        with _timed("revert: checkpoint, restore, compare"):
            asyncio.run(_revert(order, source))
        assert sum(len(files) for _, _, files in os.walk(root / "d")) == FILES


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    print(
        f"{what:36}{seconds:7.2f} s{'' if seconds <= TARGET_SECONDS else f'   target: <= {TARGET_SECONDS:g} s, missed'}"
    )


def _make_files(root: Path) -> None:
    for number in range(FILES):
        path = root / "d" / str(number % DIRECTORIES) / f"file-{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{number}\n".encode() * (BYTES // (len(str(number)) + 1)))


def _delete_files(root: Path) -> None:
    shutil.rmtree(root / "d")


async def _revert(order: OrderCheckpoints, source: str) -> None:
    origin = OrderOrigin(kind="revert", order_id=source)
    made = WorkOrder.model_construct(id=fresh_id(), kind=OrderKind.REVERT, origin=origin, created_at=now())
    turn = Turn.begun(MemoryJournal(made.id), Budget(Limits()))
    own = OrderCheckpoints(order.workspace, order.directory, made.id)
    outcome = await Revert(made, origin, own, turn, ()).run()
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail

"""This room is for refusals: telling the receipts of controls why nothing comes of them, while the run goes on."""

import asyncio
from functools import partial

import structlog

from drone.worker.writer import patiently
from mcc.store.offload import Offload
from mcc.store.ports import Controls

log = structlog.get_logger("drone.refusals")


class Refusals:
    """Kept in the background, however often the database is away. Use on one event loop only.

    `epoch` is the one under which the order is held: a former holder speaks no more.
    """

    def __init__(self, controls: Controls, offload: Offload, epoch: int | None = None) -> None:
        self._controls = controls
        self._offload = offload
        self._epoch = epoch
        self._keeping: set[asyncio.Task[None]] = set()

    def refuse(self, control_id: str, why: str) -> None:
        """Close a receipt with this sentence; one that is closed already stays as it is."""
        task = asyncio.create_task(self._keep(control_id, why))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def kept(self) -> None:
        """Return when all of them are in the database."""
        while self._keeping:
            await asyncio.wait(self._keeping)

    async def _keep(self, control_id: str, why: str) -> None:
        try:
            await patiently(self._offload, partial(self._controls.refuse, control_id, why, epoch=self._epoch))
        except Exception:
            log.exception("a receipt stays open until its order ends", control_id=control_id)

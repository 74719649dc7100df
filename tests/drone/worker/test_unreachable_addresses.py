"""Orders on git addresses that cannot be fetched: unreachable ones are tried again for a day, wrong ones end."""

from datetime import timedelta
from pathlib import Path

import pytest

from drone.checkouts.mirror import CannotFetch, NotNow
from drone.checkouts.sessions import Checkouts
from drone.sandbox.places.paths import Roots, Workspace
from drone.threads import OwnThreads
from drone.worker.site import Site, fetch_again
from drone.worker.workspaces import Workspaces
from mcc.configuration.workspaces import GitAddress
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from tests.drone.worker.bench_of_orders import Bench

ADDRESS = "https://git.example.org/team/shop"


class Away(Checkouts):
    """Checkouts whose fetch always fails with this problem."""

    problem: CannotFetch

    @classmethod
    def of(cls, problem: CannotFetch) -> "Away":
        made = cls.__new__(cls)
        object.__setattr__(made, "problem", problem)
        return made

    def name(self, address: GitAddress, session_id: str) -> str:
        return "0" * 40

    def has(self, name: str) -> bool:
        return False

    async def opened(self, workspace: str, ref: str | None, session_id: str, threads: OwnThreads) -> Workspace:
        raise self.problem


async def worked(folder: Path, problem: CannotFetch) -> WorkOrder:
    def workspaces(bench: Bench) -> Workspaces:
        return Workspaces(
            bench.async_store, bench.crew, bench.trust, Site(Roots(()), folder, checkouts=Away.of(problem))
        )

    async with Bench(workspaces=workspaces) as bench:
        order = bench.place("write", workspace=ADDRESS)
        await bench.runner.work(order.id)
        return bench.store.orders.get(order.id)


async def test_an_order_on_an_unreachable_address_waits_and_is_tried_again(tmp_path: Path) -> None:
    order = await worked(tmp_path, NotNow(f"{ADDRESS} cannot be fetched: it took too long"))
    assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.WORKSPACE)
    assert "took too long" in str(order.detail)
    block = fetch_again(order, "away.")
    assert block is not None and block.until is not None and block.until > now() and block.message == "away"


async def test_an_address_that_does_not_exist_ends_the_order_at_once(tmp_path: Path) -> None:
    order = await worked(tmp_path, CannotFetch(f"{ADDRESS} has no branch 'x'."))
    assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.INVALID)


@pytest.mark.parametrize("given", [{"started_at": timedelta(days=-2)}, {"expires_at": timedelta(seconds=-1)}])
async def test_an_unreachable_address_is_not_tried_for_ever(tmp_path: Path, given: dict[str, timedelta]) -> None:
    order = await worked(tmp_path, NotNow("away"))
    late = order.model_copy(update={field: now() + after for field, after in given.items()})
    assert fetch_again(late, "away") is None

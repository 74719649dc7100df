"""Claims requested while another is under way share one transaction, each with its own result."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from drone.worker.claiming import GroupedClaims
from mcc.store.database.errors import StoreUnavailable, WorkspaceNeeded
from mcc.store.rows.values import Claim, ClaimingDrone, ClaimRequest
from mcc.store.work.claiming import ClaimAnswer
from mcc.store.work.claims import Claims
from tests.drone.worker.bench_of_orders import Bench


@dataclass
class CountedClaims:
    """The store's claims, recording the sizes of `groups`; claiming a group with an order in `broken` fails, and the
    next `lost` answers are lost after their commit."""

    claims: Claims
    groups: list[int] = field(default_factory=list)
    broken: frozenset[str] = frozenset()
    lost: int = 0

    def claim_together(self, asked: Sequence[ClaimRequest], by: ClaimingDrone) -> Sequence[ClaimAnswer]:
        self.groups.append(len(asked))
        if self.broken & {one.order_id for one in asked}:
            raise RuntimeError("this order cannot be read")
        found = self.claims.claim_together(asked, by)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("the answer was lost")
        return found


async def claimed(bench: Bench, *orders: str, workspace_optional: bool = True) -> list[Any]:
    claims = GroupedClaims(bench.async_store, bench.claimant)
    wanted = (
        claims.claim(ClaimRequest(one, workspace_optional=workspace_optional), str(bench.trust.incarnation))
        for one in orders
    )
    return list(await asyncio.gather(*wanted, return_exceptions=True))


async def test_orders_requested_at_the_same_time_are_claimed_in_one_transaction() -> None:
    async with Bench() as bench:
        orders = [bench.place(f"p{number}").id for number in range(30)]
        counted = CountedClaims(bench.store.claims)
        bench.with_parts(claims=counted)
        found = await claimed(bench, *orders, orders[0][:-1] + "x")
        assert [one.order.id for one in found[:-1]] == orders and found[-1] is None
        assert counted.groups == [31]


async def test_a_lost_answer_is_repeated_with_the_same_claims() -> None:
    async with Bench() as bench:
        orders = [bench.place(f"p{number}").id for number in range(3)]
        counted = CountedClaims(bench.store.claims, lost=2)
        bench.with_parts(claims=counted)
        found = await claimed(bench, *orders)
        assert [(one.order.id, one.epoch) for one in found] == [(one, 1) for one in orders]
        assert counted.groups == [3, 3, 3] and all(len(bench.journal(one)) == 2 for one in orders)


async def test_an_order_that_cannot_be_claimed_does_not_affect_the_others() -> None:
    async with Bench() as bench:
        first, bad, last = (bench.place(f"p{number}").id for number in range(3))
        bench.with_parts(claims=CountedClaims(bench.store.claims, broken=frozenset({bad})))
        found = await claimed(bench, first, bad, last)
        assert isinstance(found[1], RuntimeError)
        assert [one.order.id for one in (found[0], found[2]) if isinstance(one, Claim)] == [first, last]


async def test_only_the_request_for_an_order_with_a_workspace_learns_of_the_workspace() -> None:
    async with Bench() as bench:
        named, plain = bench.place("p", workspace="/srv/work").id, bench.place("p").id
        needed, other = await claimed(bench, named, plain, workspace_optional=False)
        assert isinstance(needed, WorkspaceNeeded) and needed.order.id == named
        assert isinstance(other, Claim) and other.order.id == plain


async def test_a_request_whose_caller_was_cancelled_is_not_claimed() -> None:
    async with Bench() as bench:
        first, second = bench.place("p").id, bench.place("p").id
        claims = GroupedClaims(bench.async_store, bench.claimant)
        wanted = asyncio.create_task(claims.claim(ClaimRequest(first), str(bench.trust.incarnation)))
        await asyncio.sleep(0)
        wanted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wanted
        assert await claims.claim(ClaimRequest(second), str(bench.trust.incarnation)) is not None
        assert bench.kinds(first) == ["order.queued"]

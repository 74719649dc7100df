"""Bounds of a delivery: how long it waits for a forge, how long and how large a push may be, which hosts it reaches."""

import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from drone.access import addresses_of_forges
from drone.checkouts.mirror import CannotFetch, NotNow
from drone.checkouts.pushing import MOST_PUSHED_BYTES, PUSH_SECONDS, CannotPush
from drone.crew import Crew
from drone.sandbox.bubblewrap import Bubblewrap
from drone.settings import Settings
from drone.threads import OwnThreads
from drone.worker.site import site_of
from mcc.addresses import AddressRefused, Endpoint
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from tests.drone.checkouts.git_server import git_server
from tests.drone.checkouts.test_pushing import BRANCH, SESSION, begun
from tests.drone.delivery.forge import Failing, FakeForge
from tests.drone.delivery.scenario import Scenario, scenario
from tests.drone.delivery.test_interrupted_deliveries import asked, decide
from tests.drone.tools.git_scene import Scene

HOUR = 3_600.0


def past(here: Scenario, order: WorkOrder, hours: float) -> None:
    """Let all that stands in the order's journal be this much longer ago, as if its clock had gone on."""
    with here.bench.store.database.engine.begin() as link:
        names = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'journal'"
        for name in link.execute(sa.text(names)).scalars().all():
            # The database keeps entries from being changed; nothing else in this process would move its past.
            link.execute(sa.text(f"DROP TRIGGER {name}"))
        link.execute(
            sa.text("UPDATE journal SET at = at - :micros WHERE order_id = :order"),
            {"micros": round(hours * HOUR * 1e6), "order": order.id},
        )


async def tried_again(here: Scenario, order: WorkOrder) -> WorkOrder:
    """Once more, while the forge answers nobody."""
    here.forge.failing = [Failing(503)]
    assert here.bench.store.claims.resume(order.id, WaitingReason.DELIVERY, "its time has come")
    return await here.worked(order)


async def test_a_forge_that_is_away_for_a_day_ends_the_order_and_its_work_is_kept(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        github.failing = [Failing(503)]
        order = await here.delivered()
        past(here, order, 23.9)
        order = await tried_again(here, order)
        assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.DELIVERY)
        assert order.waits_for is not None and order.waits_for.until is not None
        began = min(entry.at for entry in here.journal(order) if "waits, and tries again" in str(entry.data))
        assert (order.waits_for.until - began).total_seconds() <= 24 * HOUR, "it does not wait for longer than a day"
        past(here, order, 0.1)
        order = await tried_again(here, order)
        assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.NOT_DELIVERED)
        assert "24 hours" in str(order.detail) and "503" in str(order.detail)
        assert order.answer and here.bench.kinds(order.id).count("order.finished") == 1
        kept = (tmp_path / "data" / "sessions").glob("*/shop/work.txt")
        assert [file.read_text() for file in kept] == ["Mend it"]


async def test_the_time_that_a_person_took_to_approve_is_no_wait_for_the_forge(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github, park_after_seconds=0.0) as here:
        order = here.place(permission={}, on_ask="wait")
        decide(here, await asked(here, order), "approve")
        past(here, order, 30.0)
        github.hear = lambda count: github.failing.append(Failing(503)) if "POST" in github.asked[-1] else None
        order = await here.worked(order)
        assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.DELIVERY)
        github.hear = lambda count: None
        assert here.bench.store.claims.resume(order.id, WaitingReason.DELIVERY, "its time has come")
        order = await here.worked(order)
        assert order.status is OrderStatus.SUCCEEDED and len(github.requests) == 1


async def test_a_push_that_takes_too_long_is_ended_and_may_be_tried_again(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene
) -> None:
    async with begun(tmp_path, sandbox) as (here, checkout, push):
        assert (push.seconds, push.most_bytes) == (PUSH_SECONDS, MOST_PUSHED_BYTES) == (300.0, 200_000_000)
        commit = checkout.commit("mended", {"a.txt": "three\n"})
        await push.look(commit, None, BRANCH)
        go_on = threading.Event()

        def hold(number: int) -> None:
            go_on.wait()

        here.served.hear = hold
        try:
            with pytest.raises(NotNow, match="took too long"):
                await replace(push, seconds=1.0).push(commit, BRANCH)
        finally:
            go_on.set()
        here.served.hear = lambda number: None
        await push.push(commit, BRANCH)
        assert served.git("rev-parse", BRANCH) == commit


async def test_a_push_of_too_many_bytes_is_not_begun_and_says_what_to_do(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene
) -> None:
    async with begun(tmp_path, sandbox) as (here, checkout, push):
        commit = checkout.commit("large", {"large.bin": random.Random(1).randbytes(300_000)})
        await push.look(commit, None, BRANCH)
        before = len(here.served.asked)
        with pytest.raises(CannotPush, match="at most 200,000 are: leave large files out"):
            await replace(push, most_bytes=200_000).push(commit, BRANCH)
        assert len(here.served.asked) == before, "nothing is sent"
        await replace(push, most_bytes=400_000).push(commit, BRANCH)


async def test_what_git_sends_in_chunks_arrives(tmp_path: Path, sandbox: Bubblewrap, served: Scene) -> None:
    async with begun(tmp_path, sandbox) as (_, checkout, push):
        commit = checkout.commit("large", {"large.bin": random.Random(1).randbytes(2_500_000)})
        await push.look(commit, None, BRANCH)
        await push.push(commit, BRANCH)
        assert served.git("rev-parse", BRANCH) == commit


async def test_private_hosts_of_forges_are_reached_where_a_table_names_them_and_by_no_other_rule(
    tmp_path: Path,
) -> None:
    table = {"kind": "gitea", "address": "https://10.1.2.3:8443", "api": "https://10.1.2.4/api/v1", "token_env": "T"}
    named, others = ("10.1.2.3", 8443), (("10.1.2.3", 443), ("10.1.2.5", 443), ("169.254.169.254", 443))
    rule = addresses_of_forges(Settings({"HOME": str(tmp_path)}, data_dir=tmp_path, forges={"own": table}))
    for host, port in (named, ("10.1.2.4", 443)):
        (address,) = await rule.resolve(Endpoint(host, port))
        assert (str(address.host), address.port) == (host, port)
    for host, port in others:
        with pytest.raises(AddressRefused):
            await rule.resolve(Endpoint(host, port))
    nobody = addresses_of_forges(Settings({"HOME": str(tmp_path)}, data_dir=tmp_path))
    with pytest.raises(AddressRefused):
        await nobody.resolve(Endpoint(*named))


@pytest.mark.parametrize("is_named", [True, False])
async def test_the_git_of_mirrors_reaches_a_private_host_only_where_a_table_of_a_forge_names_it(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, is_named: bool
) -> None:
    """By the drone's own assembly: a real proxy, and a git that asks it."""
    authority = pytest.importorskip("drone.egress.authority").Authority(["127.0.0.1"])
    with git_server(tmp_path / "served", authority.context("127.0.0.1")) as git:
        address = f"https://127.0.0.1:{git.port}"
        forges: dict[str, Any] = {"own": {"kind": "gitea", "address": address, "token_env": "T"}} if is_named else {}
        workspaces = {"git": [{"address": f"{address}/team/*"}]}
        settings = Settings({"HOME": str(tmp_path)}, data_dir=tmp_path / "drone", forges=forges, workspaces=workspaces)
        crew = Crew.from_settings(settings)
        try:
            checkouts = site_of(settings, crew).checkouts
            assert checkouts is not None
            with pytest.raises(CannotFetch) as refused:
                await replace(checkouts, pauses=()).opened(f"{address}/team/shop", None, SESSION, OwnThreads())
        finally:
            await crew.close()
        # No authority of this machine has signed the certificate of the server; that is seen once it is reached.
        assert ("certificate" in str(refused.value).lower()) == is_named, str(refused.value)
        assert is_named or "not reached" in str(refused.value) or "private" in str(refused.value)

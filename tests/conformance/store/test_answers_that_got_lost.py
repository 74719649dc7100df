"""Commits with unknown outcomes are settled by rereading, and dead connections are replaced silently."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import event, exc
from sqlalchemy.engine import Connection

from mcc.contracts.journal import AgentStep
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Appended, Parking, WorkspaceHold
from mcc.store.store import open_store
from mcc.testing import FakeClock
from tests.conformance.store.scene import LEASE_SECONDS, Scene, ended, started


@contextmanager
def losing(scene: Scene, *, committed: bool) -> Iterator[None]:
    """Cut the connection at the next commit, after or before the database carries it out."""
    engine = scene.store.database.engine
    left = [1]

    def lose(connection: Connection) -> None:
        if not left:
            return
        left.pop()
        if committed:
            connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
        reason = Exception("the server closed the connection unexpectedly")
        raise exc.OperationalError("COMMIT", {}, reason, connection_invalidated=True)

    event.listen(engine, "commit", lose)
    try:
        yield
    finally:
        event.remove(engine, "commit", lose)
    assert not left, "nothing was committed at all"


both = pytest.mark.parametrize("committed", [True, False])


@both
def test_an_append_is_there_once(scene: Scene, committed: bool) -> None:
    held = scene.running()
    with losing(scene, committed=committed):
        assert held.write(started(), AgentStep(name="a", message="b")) == Appended()
    assert scene.kinds(held.order_id) == ["order.queued", "order.claimed", "agent.started", "agent.step"]


@both
def test_a_claim_is_made_once(scene: Scene, committed: bool) -> None:
    order, drone = scene.place(), scene.drone()
    with losing(scene, committed=committed):
        claim = scene.claim(order.id, drone)
    assert claim and claim.epoch == 1
    assert scene.kinds(order.id) == ["order.queued", "order.claimed"]


@both
def test_the_order_of_a_lost_drone_is_requeued_in_the_same_sweep(scene: Scene, committed: bool) -> None:
    incarnation = scene.drone()
    held = scene.hold(scene.place().id, incarnation)
    scene.clock.advance(LEASE_SECONDS + 1)
    with losing(scene, committed=committed):
        swept = scene.store.sweeper.sweep(may_expire=True)
    assert (swept.requeued, dict(swept.failures)) == ((held.order_id,), {})
    assert swept.lost == (() if committed else (incarnation,)), "what was declared before is not declared again"


@both
def test_an_order_ends_once(scene: Scene, committed: bool) -> None:
    held = scene.running()
    held.write(started())
    with losing(scene, committed=committed):
        held.finish(OrderStatus.SUCCEEDED, ended())
    assert scene.kinds(held.order_id)[-1] == "order.finished"
    assert scene.status(held.order_id) is OrderStatus.SUCCEEDED


@both
def test_an_order_is_parked_once(scene: Scene, committed: bool) -> None:
    held = scene.running()
    with losing(scene, committed=committed):
        parking = Parking(held.order_id, held.epoch, held.last_seq, 0, WaitingReason.PAUSED, "m")
        assert scene.store.claims.park(parking) == 3
    assert scene.kinds(held.order_id) == ["order.queued", "order.claimed", "order.waiting"]


@both
def test_a_claim_with_a_workspace_is_made_once(scene: Scene, committed: bool) -> None:
    order, drone = scene.place(), scene.drone()
    hold = WorkspaceHold("key")
    with losing(scene, committed=committed):
        claim = scene.store.claims.claim(
            order.id, incarnation=drone, claim_token="t", drone="d", alone=True, workspace=hold
        )
    assert claim and claim.epoch == 1


@both
def test_a_workspace_is_acquired_once(scene: Scene, committed: bool) -> None:
    held, other = scene.running(), scene.running()
    with losing(scene, committed=committed):
        assert scene.store.workspaces.acquire(held.order_id, held.epoch, WorkspaceHold("key")) is None
    with losing(scene, committed=committed):
        taken = scene.store.workspaces.acquire(other.order_id, other.epoch, WorkspaceHold("key"))
    assert taken is not None and taken.holder == held.order_id


@both
def test_an_order_with_a_key_is_placed_once(scene: Scene, committed: bool) -> None:
    with losing(scene, committed=committed):
        placed = scene.placed(key="k")
    assert [order.id for order in scene.store.orders.list().items] == [placed.order.id]


def test_an_order_without_a_key_is_not_placed_twice(scene: Scene) -> None:
    with losing(scene, committed=True), pytest.raises(StoreUnavailable):
        scene.placed()
    assert len(scene.store.orders.list().items) == 1


@pytest.mark.parametrize("scene", ["postgresql"], indirect=True)
def test_connections_that_the_server_ended_are_replaced(scene: Scene, postgres_server: str) -> None:
    held = scene.running()
    for act in (lambda: held.write(started()), scene.place, lambda: scene.store.orders.get(held.order_id)):
        _end_connections(scene, postgres_server)
        act()
    assert scene.fold(held.order_id).last_seq == 3


def _end_connections(scene: Scene, server: str) -> None:
    name = scene.store.database.url.database
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])


def test_a_server_that_is_not_there_is_unavailable() -> None:
    store = open_store("postgresql://postgres@127.0.0.1:1/postgres")
    with pytest.raises(StoreUnavailable, match="connection to the database"):
        store.orders.list()
    with pytest.raises(StoreUnavailable):
        store.leases.renew("x", lease_seconds=1, active=0)
    store.close()


def test_a_database_without_a_schema_says_what_to_do(tmp_path: object) -> None:
    store = open_store(f"sqlite:///{tmp_path}/empty.db", clock=FakeClock())
    with pytest.raises(StoreUnavailable, match="mcc db upgrade"):
        store.orders.list()
    store.close()


def test_a_file_that_is_no_database_says_so(tmp_path: object) -> None:
    path = f"{tmp_path}/notes.db"
    with open(path, "wb") as file:
        file.write(b"these are notes and no database" * 100)
    store = open_store(f"sqlite:///{path}")
    with pytest.raises(StoreUnavailable, match="database"):
        store.orders.list()
    store.close()


@pytest.mark.parametrize("address", ["", "nonsense", "mysql://x/y", "/tmp/file.db", "sqlite://", "sqlite:///:memory:"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///PATH"):
        open_store(address)

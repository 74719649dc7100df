"""I9 of workspaces: orders are there together, and one of them writes at a time."""

import pytest

from tests.faults.invariants.evidence import Entry, Evidence, Order
from tests.faults.invariants.orders import one_holder
from tests.faults.script import MASTER


def ran(
    name: str,
    begin: float,
    end: float,
    *,
    writes_at: float | None = None,
    reverts_at: float | None = None,
    workspace: str = "/harbour",
) -> Order:
    """An order in a session of its own, which ran from `begin` to `end`, and wrote since `writes_at`, or is a revert
    that had looked at the workspace by `reverts_at`."""
    facts: list[tuple[str, float, dict[str, str]]] = [("order.claimed", begin, {"drone": "d"})]
    facts += [] if writes_at is None else [("workspace.held", writes_at, {})]
    facts += [] if reverts_at is None else [("workspace.checkpointed", reverts_at, {})]
    facts += [("order.finished", end, {})]
    entries = [
        Entry(name, seq, 1, at, kind, None, None, None, None, data) for seq, (kind, at, data) in enumerate(facts, 1)
    ]
    spec = {"kind": "chat" if reverts_at is None else "revert", "agent": MASTER, "workspace": workspace}
    return Order(name, f"of {name}", 1, spec, begin, "succeeded", None, 1, 2, {}, 0, 0, entries)


def found(*orders: Order) -> list[str]:
    evidence = Evidence(orders={order.id: order for order in orders})
    return [one.invariant for one in one_holder(evidence)]


@pytest.mark.parametrize(("at", "broken"), [(50, ["I9"]), (99.9, ["I9"]), (100, []), (140, [])])
def test_one_that_writes_is_alone_from_that_moment_on(at: float, broken: list[str]) -> None:
    first = ran("a", 0, 100, writes_at=10)
    assert found(first, ran("b", 40, 150, writes_at=at)) == broken
    assert found(first, ran("b", 40, 150, writes_at=at, workspace="/quay")) == []


@pytest.mark.parametrize(("inner", "broken"), [("/harbour/quay", ["I9"]), ("/", ["I9"]), ("/harbours", []), ("/h", [])])
def test_one_that_writes_is_alone_above_and_below_as_well(inner: str, broken: list[str]) -> None:
    assert found(ran("a", 0, 100, writes_at=10), ran("b", 40, 150, writes_at=50, workspace=inner)) == broken


def test_a_revert_writes_from_its_first_checkpoint_on() -> None:
    revert, other = ran("r", 0, 100, reverts_at=50), ran("o", 0, 60, writes_at=20)
    assert found(revert, other) == ["I9"]
    assert found(revert, ran("o", 0, 40, writes_at=20)) == []


def test_whoever_reads_is_there_beside_anybody() -> None:
    assert found(ran("a", 0, 100, writes_at=0), ran("b", 50, 150), ran("c", 60, 70)) == []


def test_a_short_one_between_does_not_hide_a_long_one() -> None:
    short, long = ran("s", 10, 20, writes_at=10), ran("l", 0, 100, writes_at=30)
    assert found(short, long, ran("w", 50, 60, writes_at=50)) == ["I9"]

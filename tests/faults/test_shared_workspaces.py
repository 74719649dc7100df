"""I9 of workspaces: those who read are there together, whoever may write is alone."""

import pytest

from tests.faults.invariants.evidence import Entry, Evidence, Order
from tests.faults.invariants.orders import one_holder
from tests.faults.script import MASTER, READER


def ran(name: str, agent: str, begin: float, end: float, workspace: str = "/harbour") -> Order:
    """An order in a session of its own, which ran from `begin` to `end`."""
    facts: tuple[tuple[str, float, dict[str, str]], ...] = (
        ("order.claimed", begin, {"drone": "d"}),
        ("order.finished", end, {}),
    )
    entries = [
        Entry(name, seq, 1, at, kind, None, None, None, None, data) for seq, (kind, at, data) in enumerate(facts, 1)
    ]
    spec = {"agent": agent, "workspace": workspace}
    return Order(name, f"of {name}", 1, spec, begin, "succeeded", None, 1, 2, {}, 0, 0, entries)


def found(*orders: Order) -> list[str]:
    evidence = Evidence(run={"writers": [MASTER]}, orders={order.id: order for order in orders})
    return [one.invariant for one in one_holder(evidence)]


@pytest.mark.parametrize(("one", "other"), [(MASTER, MASTER), (MASTER, READER), (READER, MASTER)])
def test_whoever_may_write_is_alone(one: str, other: str) -> None:
    assert found(ran("a", one, 0, 100), ran("b", other, 50, 150)) == ["I9"]
    assert found(ran("a", one, 0, 100), ran("b", other, 100, 150)) == []
    assert found(ran("a", one, 0, 100), ran("b", other, 50, 150, "/quay")) == []


def test_readers_are_there_together() -> None:
    assert found(ran("a", READER, 0, 100), ran("b", READER, 50, 150)) == []


def test_a_short_one_between_does_not_hide_a_long_one() -> None:
    short, long, late = ran("s", READER, 10, 20), ran("l", READER, 0, 100), ran("w", MASTER, 50, 60)
    assert found(short, long, late) == ["I9"]

"""The table of an order's statuses and moves."""

import pytest

from mcc.contracts import journal
from mcc.contracts.status import FINAL, MOVES, UNFINISHED, OrderStatus, sources_of


def test_nothing_leaves_a_final_status_and_everything_can_reach_one() -> None:
    assert not [move for move in MOVES if move.source in FINAL]
    reached = set(FINAL)
    for _ in OrderStatus:
        reached |= {move.source for move in MOVES if move.target in reached and move.source is not None}
    assert reached == set(OrderStatus)


def test_every_status_is_reached_from_the_beginning() -> None:
    reached: set[OrderStatus | None] = {None}
    for _ in OrderStatus:
        reached |= {move.target for move in MOVES if move.source in reached}
    assert reached == {None, *OrderStatus}


def test_a_move_is_told_by_an_entry_that_exists_and_names_are_told_apart() -> None:
    assert {move.entry for move in MOVES} <= set(journal.FACTS)
    assert len({move.name for move in MOVES}) == len(MOVES)
    assert {move.entry for move in MOVES if move.target in FINAL} == {"order.finished"}


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        (None, OrderStatus.QUEUED, True),
        (None, OrderStatus.RUNNING, False),
        (OrderStatus.QUEUED, OrderStatus.RUNNING, True),
        (OrderStatus.QUEUED, OrderStatus.SUCCEEDED, False),
        (OrderStatus.RUNNING, OrderStatus.WAITING, True),
        (OrderStatus.WAITING, OrderStatus.RUNNING, False),
        (OrderStatus.SUCCEEDED, OrderStatus.QUEUED, False),
    ],
)
def test_only_the_moves_of_the_table_are_allowed(
    source: OrderStatus | None, target: OrderStatus, allowed: bool
) -> None:
    assert any((move.source, move.target) == (source, target) for move in MOVES) is allowed


def test_a_stores_condition_comes_from_the_table() -> None:
    assert sources_of("claim") == {OrderStatus.QUEUED}
    assert sources_of("cancel", "cancel_queued", "cancel_waiting") == UNFINISHED
    assert sources_of("accept") == frozenset()

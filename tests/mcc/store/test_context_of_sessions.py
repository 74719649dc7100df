"""The part of a session that becomes the context of a turn."""

from collections.abc import Iterator

from mcc.contracts.ids import fresh_id
from mcc.contracts.order import EarlierTurn
from mcc.contracts.status import OrderStatus
from mcc.store.work.sessions import MOST_TURNS, newest


def backwards(turns: int) -> Iterator[EarlierTurn]:
    for number in range(turns, 0, -1):
        yield EarlierTurn(order_id=fresh_id(), session_seq=number, prompt="x", status=OrderStatus.SUCCEEDED, answer="y")


def test_there_are_never_more_than_so_many_turns_however_short() -> None:
    found = [turn.session_seq for turn in newest(backwards(MOST_TURNS + 1), 1_000_000)]
    assert found == list(range(2, MOST_TURNS + 2))


def test_turns_are_read_no_further_than_they_fit() -> None:
    turns = backwards(10)
    assert [turn.session_seq for turn in newest(turns, 5)] == [9, 10]
    assert next(turns).session_seq == 7

"""The table of orders, in windows and elsewhere."""

from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.waits import WaitsFor
from mcc.view.order_table import MOST, most_orders, order_rows
from mcc.view.output import clock_beside
from mcc.view.tables import Layout

AT = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
ID = "01a220f2-25db-7bb4-a7a3-b08f69d8a5bd"


def order(**fields: object) -> WorkOrder:
    known = NewOrder(prompt="Explain this repository, and what is odd in it").model_dump(exclude={"session_id"})
    kept = {"id": ID, "session_id": ID, "session_seq": 1, "created_at": AT, "started_at": AT, "drone": "drone-1"}
    return WorkOrder.model_validate({**known, **kept, "status": "succeeded", "finished_at": AT, **fields})


def drawn(columns: int, *orders: WorkOrder) -> list[str]:
    headings, rows = order_rows(orders, AT, columns)
    layout = Layout.of((headings, *rows), columns)
    return [line for row in (headings, *rows) for line in layout.lines(row)]


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_an_order_is_one_line_of_a_window_and_has_the_name_that_the_tree_gives_it(columns: int) -> None:
    lines = drawn(columns, order(), order(status="cancelled", agent="general", created_at=AT - timedelta(days=40)))
    assert len(lines) == 3 and max(map(cell_len, lines)) <= columns
    assert all(line.startswith(ID[-12:]) and "Explain this re" in line for line in lines[1:])


def test_a_wide_window_has_the_drone_and_whoever_waits_says_what_for() -> None:
    waits = WaitsFor(kind="drone", position=3, message="waits for a drone, 2 are before it")
    assert "drone-1" in drawn(200, order())[1] and "drone-1" not in drawn(80, order())[1]
    assert "2 are before it" in " ".join(drawn(80, order(status="queued", waits_for=waits)))


def test_elsewhere_ids_times_and_drones_are_whole() -> None:
    _, (row,) = order_rows([order()], AT, None)
    assert row[0] == ID and row[2] == f"{AT.astimezone():%Y-%m-%d %H:%M:%S}" and "drone-1" in row


def test_where_several_people_placed_the_orders_a_column_says_who() -> None:
    orders = [order(principal="person:5"), order(principal="operator"), order()]
    headings, rows = order_rows(orders, AT, None, {"person:5": "Ann", "operator": "operator"})
    assert [row[headings.index("WHO")] for row in rows] == ["Ann", "operator", ""]
    assert "WHO" not in order_rows(orders[:1], AT, None)[0]


def test_a_time_says_what_is_not_clear_of_itself() -> None:
    at = AT.astimezone()
    earlier = at.replace(month=2)
    assert clock_beside(at, at) == f"{at:%H:%M:%S}"
    assert clock_beside(earlier, at) == f"{earlier:%m-%d %H:%M}"
    assert clock_beside(at.replace(year=2025), at) == "2025-03-04"


def test_a_list_is_as_long_as_its_window_where_nobody_says_how_long() -> None:
    assert most_orders(None, 24) == MOST
    assert most_orders(200, 50) == 47 and most_orders(200, 200) == MOST
    assert 2 * most_orders(80, 24) <= 24 - 3 and most_orders(80, 5) == 5

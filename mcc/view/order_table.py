"""The table of orders: on a terminal a line each where the window allows it, elsewhere all that is known."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mcc.contracts.order import OrderKind
from mcc.contracts.shape import now
from mcc.view import figures
from mcc.view.output import brief, clock, clock_beside, short_id, window
from mcc.view.tables import CELL_CHARACTERS, print_table

if TYPE_CHECKING:
    from datetime import datetime

    from mcc.contracts.order import WorkOrder

GENERATOR = "generator"
"""Shown as the agent of an order that generates a document."""

WHO, DRONE, WAITS, PROMPT = "WHO", "DRONE", "WAITS FOR", "PROMPT"
WAITS_CHARACTERS = 100
WHO_CHARACTERS = 30
ROOMY = 120
"""Columns of a window in which every column has room beside a prompt that can be read."""
MOST = 50
_LEAST = 5


def most_orders(columns: int | None, rows: int) -> int:
    """How many orders a list shows whose reader did not say: what a window of so many `columns` and `rows` holds, so
    that the newest stay in sight; `MOST` where it goes elsewhere (`columns` None)."""
    if columns is None:
        return MOST
    # Heading, the word on older ones, and the line of the next command; an order that waits takes two lines.
    lines = rows - 3
    return max(_LEAST, min(MOST, lines if columns >= ROOMY else lines // 2))


def print_orders(orders: "Sequence[WorkOrder]", names: "Mapping[str, str] | None" = None) -> None:
    """A table of orders; where one of them waits, with a column that says what for; where several principals placed
    them, with one of their `names`, by principal.

    On a terminal ids are shown by their ends, as in the tree, and times without what is clear of itself; a narrow
    window has no column for drones. Elsewhere ids and times are whole.
    """
    headings, rows = order_rows(orders, now(), window(), names)
    print_table(headings, rows, empty="No order.")


def order_rows(
    orders: "Sequence[WorkOrder]", at: "datetime", columns: int | None, names: "Mapping[str, str] | None" = None
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Headings and cells for a window of so many `columns`; None = no terminal. `at`: the time now."""
    rows = [_cells(order, at, names or {}, on_terminal=columns is not None) for order in orders]
    if len({order.principal for order in orders}) < 2:
        rows = [{name: cell for name, cell in row.items() if name != WHO} for row in rows]
    if columns is not None and columns < ROOMY:
        rows = [{name: cell for name, cell in row.items() if name != DRONE} for row in rows]
    if not any(order.waits_for for order in orders):
        rows = [{name: cell for name, cell in row.items() if name != WAITS} for row in rows]
    return list(rows[0]) if rows else (), [list(row.values()) for row in rows]


def _cells(order: "WorkOrder", at: "datetime", names: "Mapping[str, str]", *, on_terminal: bool) -> dict[str, str]:
    ran = ((order.finished_at or at) - order.started_at).total_seconds() if order.started_at else None
    return {
        "ID": short_id(order.id) if on_terminal else order.id,
        "STATUS": order.status,
        "CREATED": clock_beside(order.created_at, at) if on_terminal else clock(order.created_at),
        "TIME": "" if ran is None else figures.seconds(ran),
        "COST": "?" if order.usage.cost_usd is None else figures.cost(order.usage),
        "AGENT": GENERATOR if order.kind is OrderKind.GENERATE else order.agent,
        WHO: brief(names.get(order.principal or "", order.principal or ""), WHO_CHARACTERS),
        DRONE: order.drone or "",
        WAITS: brief(order.waits_for.message, WAITS_CHARACTERS) if order.waits_for else "",
        PROMPT: (order.prompt or order.session_title)[:CELL_CHARACTERS],
    }

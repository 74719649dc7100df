"""The budget of whoever places the orders of a simulated world, and whether all that they reserved was settled."""

import json
from collections import Counter

import sqlalchemy as sa

from mcc.contracts.budgets import DayBudget
from mcc.contracts.callers import OPERATOR, Actor
from mcc.store.database.tables import BUDGET_DAYS, ORDERS
from mcc.store.rows.budget_rows import micro_usd
from mcc.store.store import Store
from tests.faults.invariants.evidence import Violation

CLIENT = Actor("person:0197f000-0000-7000-8000-00000000c11e")


def with_budget(store: Store) -> Store:
    """The store, in which everybody may spend much more a day than is spent."""
    store.budgets.make_usual(DayBudget(usd=1_000, order_usd=2), "UTC", by=Actor(OPERATOR))
    return store


def unsettled(store: Store) -> list[Violation]:
    """Where a day's budget is not what its orders used, which have all ended."""
    days = store.database.read(lambda connection: connection.execute(sa.select(BUDGET_DAYS)).all())
    rows = store.database.read(lambda connection: connection.execute(sa.select(ORDERS)).mappings().all())
    placed, spent = Counter[str](), Counter[str]()
    for row in rows:
        placed[row["budget_day"]] += 1
        cost = json.loads(row["outcome_json"])["usage"]["cost_usd"] if row["outcome_json"] else 0
        spent[row["budget_day"]] += row["reserved"] if cost is None else micro_usd(cost)
    if {day.day for day in days} != set(placed):
        return [Violation("I10", "", f"there are budgets of {days} and orders of {placed}")]
    return [
        Violation("I10", "", f"{day} is not the {placed[day.day]} orders and {spent[day.day]} that its orders used")
        for day in days
        if (day.owner, day.orders, day.reserved, day.spent) != (CLIENT.principal, placed[day.day], 0, spent[day.day])
    ]

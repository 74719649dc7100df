"""Budgets for whoever has none of their own, and what is left today."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.budgets import BudgetOfDay, DayBudget
from mcc.contracts.callers import Actor
from mcc.contracts.shape import to_json
from mcc.store.database.engine import Database
from mcc.store.database.tables import BUDGET_RULES
from mcc.store.rows.audit import add_note
from mcc.store.rows.budget_rows import USUAL, budget_of_day
from mcc.store.rows.texts import parsed

BUDGET_SET = "budget.set"

_RULE = sa.select(BUDGET_RULES).where(BUDGET_RULES.c.name == USUAL)
_PUT = sa.text(
    "INSERT INTO budget_rules (name, budget_json, timezone) VALUES (:name, :budget_json, :timezone)"
    " ON CONFLICT (name) DO UPDATE SET budget_json = excluded.budget_json, timezone = excluded.timezone"
)


def budget_json(budget: DayBudget | None) -> str | None:
    """As a column has it."""
    return None if budget is None else to_json(budget).decode()


def budget_in(row: sa.RowMapping) -> DayBudget | None:
    """Their own, in a row of people or tokens."""
    return None if row["budget_json"] is None else DayBudget.model_validate(parsed(row["budget_json"]))


def note_budget(
    connection: Connection, at: datetime, owner: str, budget: DayBudget | None, was: DayBudget | None, by: Actor
) -> None:
    """Note in the audit what an owner may spend a day from now on; None: as everybody."""
    told = {name: None if each is None else dict(each) for name, each in (("budget", budget), ("was", was))}
    add_note(connection, at, BUDGET_SET, by=by, order_id=None, detail={"of": owner, **told})


class BudgetStore:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def today(self, by: Actor) -> BudgetOfDay | None:
        """What is left of today's budget, of the tighter one where a token has its own; None for who has none."""
        at = self._database.clock.now()
        return self._database.read(lambda connection: budget_of_day(connection, by, at))

    def usual(self) -> tuple[DayBudget, str]:
        """The budget of who has none of their own, and the time zone of days; as the service said that started last."""
        row = self._database.read(lambda connection: connection.execute(_RULE).mappings().first())
        if row is None:
            return DayBudget(), "UTC"
        return DayBudget.model_validate(parsed(row["budget_json"])), row["timezone"]

    def make_usual(self, budget: DayBudget, timezone: str, *, by: Actor) -> None:
        """From now on this is the budget of who has none of their own, and days begin in this time zone."""
        at = self._database.clock.now()
        row = {"name": USUAL, "budget_json": to_json(budget).decode(), "timezone": timezone}

        def put(connection: Connection) -> None:
            before = connection.execute(_RULE).mappings().first()
            if before is not None and dict(before) == row:
                return
            if before is None and not budget.limits_anything and timezone == "UTC":
                return
            connection.execute(_PUT, row)
            was = None if before is None else {**parsed(before["budget_json"]), "timezone": before["timezone"]}
            detail = {"of": USUAL, "budget": {**dict(budget), "timezone": timezone}, "was": was}
            add_note(connection, at, BUDGET_SET, by=by, order_id=None, detail=detail)

        self._database.write(put, repeatable=True)

"""Budgets of a day: what people and tokens may spend, and what is left of it."""

from typing import Annotated

from pydantic import Field

from mcc.contracts.shape import Closed, Moment

MOST_USD = 1_000_000_000
"""Of a budget, far more than anybody has, so that sums stay exact."""

MOST_ORDERS = 1_000_000_000

Usd = Annotated[float, Field(ge=0, le=MOST_USD, allow_inf_nan=False)]
OrderUsd = Annotated[float, Field(gt=0, le=MOST_USD, allow_inf_nan=False)]
OrdersOfBudget = Annotated[int, Field(ge=0, le=MOST_ORDERS, strict=True)]


class DayBudget(Closed):
    """What may be spent a day, in US dollars and in orders; null: any amount.

    `order_usd`: what an order reserves of `usd` that names no limit `cost_usd` of its own; null: a tenth of `usd`.
    """

    usd: Usd | None = None
    orders: OrdersOfBudget | None = None
    order_usd: OrderUsd | None = None

    @property
    def limits_anything(self) -> bool:
        return self.usd is not None or self.orders is not None


class MoneyOfDay(Closed):
    """US dollars: `limit` of them may be spent, `spent` are, and `reserved` are set aside for unfinished orders."""

    limit: float
    spent: float
    reserved: float


class OrdersOfDay(Closed):
    limit: int
    used: int


class BudgetOfDay(Closed):
    """How much of a day's budget is used. `owner`: whose it is, a principal or `token:ID`; `day`: by the calendar of
    the service's time zone; `resets_at`: when the next one begins. `usd`, `orders`: null where any amount may be spent.
    """

    owner: str
    day: str
    usd: MoneyOfDay | None = None
    orders: OrdersOfDay | None = None
    resets_at: Moment

"""Tables of budgets: what each owner spent a day, and the rules for those who have no budget of their own."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row


class BudgetDayRow(Row, table=True):
    """What the orders of an owner used that were placed on a day. `owner`: a principal, or `token:ID`.

    `orders`: how many were placed. `reserved`: set aside for those that have not ended; `spent`: by those that have;
    both in millionths of a US dollar.
    """

    __tablename__ = "budget_days"

    owner: str = Field(primary_key=True)
    day: str = Field(primary_key=True)
    orders: int = Field(sa_type=sa.BigInteger)
    reserved: int = Field(sa_type=sa.BigInteger)
    spent: int = Field(sa_type=sa.BigInteger)


class BudgetRuleRow(Row, table=True):
    """The one row `usual`: the budget of whoever has none of their own, and where days begin; as the configuration of
    the service said that started last. Here, so that drones reserve by the same."""

    __tablename__ = "budget_rules"

    name: str = Field(primary_key=True)
    budget_json: str
    timezone: str


BUDGET_DAYS = Row.metadata.tables["budget_days"]
BUDGET_RULES = Row.metadata.tables["budget_rules"]

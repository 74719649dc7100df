"""The table [budgets] of mcc.toml: what everybody may spend a day, and where days begin."""

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from mcc.contracts.budgets import DayBudget


class BudgetSettings(DayBudget):
    """The table [budgets]: what everybody may spend a day who has no budget of their own, as `DayBudget` says.
    `timezone`: where its days begin."""

    timezone: Annotated[str, Field(max_length=100)] = "UTC"

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, timezone: str) -> str:
        try:
            ZoneInfo(timezone)
        except (ValueError, OSError) as error:
            raise ValueError(f"there is no time zone {timezone!r}: name one such as Europe/Berlin, or UTC") from error
        return timezone

    @property
    def budget(self) -> DayBudget:
        return DayBudget(usd=self.usd, orders=self.orders, order_usd=self.order_usd)

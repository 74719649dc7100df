"""Many orders cancelled by one request: which, and what became of it."""

from typing import Annotated, Literal

from pydantic import StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.order import Label, Path
from mcc.contracts.shape import Closed, Identifier, Moment, Name

MAX_CANCELLED = 1_000
"""Most orders that one request cancels."""


class OrdersToCancel(Closed):
    """Which unfinished orders are cancelled: those that fit everything that is given, or `all`. `since`: placed at this
    time or later; `reason` is kept in their journals."""

    label: Label | None = None
    status: Literal["queued", "running", "waiting"] | None = None
    agent: Name | None = None
    workspace: Path | None = None
    session_id: Identifier | None = None
    since: Moment | None = None
    all: bool = False
    reason: Annotated[str, StringConstraints(max_length=2_000)] | None = None

    @model_validator(mode="after")
    def _names_some(self) -> "OrdersToCancel":
        named = [value for name, value in self if name not in ("all", "reason") and value is not None]
        if self.all == bool(named):
            both = "Input names some orders and all of them: leave one out"
            neither = "Input names no order: give a label, status, agent, workspace, session_id or since; or all"
            raise PydanticCustomError("names_some", both if named else neither)
        return self


class OrdersCancelled(Closed):
    """How many orders were `requested` to end, and how many of them `ended` at once, as no drone runs them.
    `next_cursor`: more orders may fit; pass it to go on, None = these were all."""

    requested: int = 0
    ended: int = 0
    next_cursor: str | None = None

"""Lists of orders: what they are filtered by, their pages, and how many orders there are."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from mcc.contracts.answers import Listing, OrderSummary
from mcc.contracts.order import Label, ModelName, OrderKind, Path, WorkOrder
from mcc.contracts.shape import Closed, Identifier, Moment, Name
from mcc.contracts.status import OrderStatus, Reason

OrderGroup: TypeAlias = Literal["needs_input", "working", "done"]
"""`needs_input`: an item of the inbox waits for a person, or the order waits for one; `working`: it has not ended, and
nobody is waited for; `done`: it has ended."""

Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
MOST_VALUES = 50
"""Most values of one filter."""


class OrderCriteria(Closed):
    """Orders that fit all that is given; of several values of one filter, one has to fit.

    `model`: the requested one until the order has ended, then the one that its master began with. `drone`: the name of
    the drone that runs it, or held it last. `who`: the principal that placed it. `since`, `until`: placed at this time
    or later, and before this time. `fingerprint`: what failures of one cause have in common. `part`: their ids begin or
    end with it. `text`: all its words are in their prompts and answers, or begin words there; found a few seconds after
    they were placed or have ended. Orders that compact a session have the kind `compact`, and are found by it alone.
    """

    status: Annotated[tuple[OrderStatus, ...], Field(max_length=MOST_VALUES)] = ()
    agent: Annotated[tuple[Name, ...], Field(max_length=MOST_VALUES)] = ()
    model: Annotated[tuple[ModelName, ...], Field(max_length=MOST_VALUES)] = ()
    label: Annotated[tuple[Label, ...], Field(max_length=MOST_VALUES)] = ()
    drone: Annotated[tuple[Annotated[str, StringConstraints(max_length=200)], ...], Field(max_length=MOST_VALUES)] = ()
    who: Annotated[tuple[Annotated[str, StringConstraints(max_length=200)], ...], Field(max_length=MOST_VALUES)] = ()
    session_id: Annotated[tuple[Identifier, ...], Field(max_length=MOST_VALUES)] = ()
    fingerprint: Annotated[tuple[Fingerprint, ...], Field(max_length=MOST_VALUES)] = ()
    workspace: Path | None = None
    kind: OrderKind | None = None
    since: Moment | None = None
    until: Moment | None = None
    group: OrderGroup | None = None
    text: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
    part: Annotated[str, StringConstraints(pattern="^[0-9a-f-]{4,36}$")] | None = None


class OrderPage(Listing[WorkOrder]):
    """A page of orders. `searched_to`: all orders placed later than this were looked at; None = all there are."""

    searched_to: datetime | None = None


class SummaryPage(Listing[OrderSummary]):
    """As `OrderPage`, of summaries."""

    searched_to: datetime | None = None


class OrderCount(Closed):
    status: OrderStatus
    reason: Reason | None = None
    orders: int

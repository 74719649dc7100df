"""Many orders cancelled or repeated by their ids, and failures by what they have in common."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from mcc.contracts.order_lists import Fingerprint
from mcc.contracts.shape import Closed, Identifier, JsonObject, Moment, Text
from mcc.contracts.status import FailureReason, OrderStatus

MOST_BULK = 1_000
"""Most orders that one request cancels or repeats."""

BulkAction = Literal["cancel", "retry"]


class BulkRequest(Closed):
    """What is done with each of these orders: `cancel` it, or place it again (`retry`, once it has ended)."""

    action: BulkAction
    ids: Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MOST_BULK)]
    reason: Annotated[str, StringConstraints(max_length=2_000)] | None = None


class BulkItem(Closed):
    """What became of one order: its `status` afterwards, None where there is no such order; `order_id`: the order that
    repeats it; `problem`: why nothing was done."""

    id: Identifier
    status: OrderStatus | None = None
    order_id: Identifier | None = None
    problem: Text | None = None


class BulkResult(Closed):
    """One item for each order that was named, in that sequence."""

    items: tuple[BulkItem, ...]


class Failure(Closed):
    """Failures of one cause: how many, when, and the newest `orders`, five at most. `detail`: its beginning, of the
    newest."""

    fingerprint: Fingerprint
    reason: FailureReason | None = None
    agent: str
    detail: Text | None = None
    count: int
    first_at: Moment
    last_at: Moment
    orders: tuple[Identifier, ...]


MOST_VIEWS = 50
VIEW_BYTES = 8_000
"""Most views of a principal, and most bytes of the query of one."""

ViewName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]+$")]


class ViewContent(Closed):
    """Filters that are kept under a name. `position`: its place among the views; `shared`: everybody sees it."""

    query: JsonObject
    position: Annotated[int, Field(ge=0, le=1_000)] = 0
    shared: bool = False


class View(ViewContent):
    name: ViewName
    owner: str
    updated_at: Moment

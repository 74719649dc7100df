"""Webhooks: endpoints that hear of orders, and what is delivered to them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked
from mcc.contracts.order import Label, OrderKind
from mcc.contracts.order_facts import OrderFinished, OrderQueued, OrderResumed, OrderWaiting
from mcc.contracts.shape import Closed, Identifier, Moment, Name, Text
from mcc.contracts.webhook_urls import WebhookUrl

ORDERS_ENDPOINT = "orders"
"""Id and name of the endpoint that signs what goes to the `webhook_url` of an order."""

MESSAGE_ID = r"^msg_[0-9a-f]{32}$"
KEEP_SECONDS, MOST_KEEP_SECONDS = 86_400, 7 * 86_400
"""How long the former secret signs too, after a new one was made."""


class WebhookType(StrEnum):
    """What endpoints hear of: entries of orders by their kinds, instants that schedules missed, and tests."""

    QUEUED = OrderQueued.kind
    WAITING = OrderWaiting.kind
    RESUMED = OrderResumed.kind
    FINISHED = OrderFinished.kind
    APPROVAL = ApprovalRequested.kind
    QUESTION = QuestionAsked.kind
    MISSED = "schedule.missed"
    TEST = "webhook.test"


OF_ENTRIES = (
    WebhookType.QUEUED,
    WebhookType.WAITING,
    WebhookType.RESUMED,
    WebhookType.FINISHED,
    WebhookType.APPROVAL,
    WebhookType.QUESTION,
)
"""The types that are kinds of journal entries."""

OF_WEBHOOK_URLS = (WebhookType.WAITING, WebhookType.FINISHED)
"""What the `webhook_url` of an order hears of."""

Words = Annotated[tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...], Field(max_length=100)]
Types = Annotated[tuple[WebhookType, ...], Field(max_length=len(WebhookType))]


class WebhookFilters(Closed):
    """Which orders an endpoint hears of: those that have one of the values of each list; an empty list asks nothing."""

    kinds: Annotated[tuple[OrderKind, ...], Field(max_length=len(OrderKind))] = ()
    labels: Annotated[tuple[Label, ...], Field(max_length=100)] = ()
    agents: Words = ()
    principals: Words = ()
    doors: Words = ()
    sessions: Annotated[tuple[Identifier, ...], Field(max_length=100)] = ()


class NewWebhook(Closed):
    """An endpoint. `types`: what it hears of; none are named: of everything."""

    name: Name
    url: WebhookUrl
    types: Types = ()
    filters: WebhookFilters = WebhookFilters()


class WebhookChange(Closed):
    """What is given is changed. `off`: nothing is noted for it or sent to it any more, or again from now on."""

    name: Name | None = None
    url: WebhookUrl | None = None
    types: Types | None = None
    filters: WebhookFilters | None = None
    off: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> "WebhookChange":
        if not self.model_fields_set:
            raise PydanticCustomError("nothing_given", "say what is to be changed: name, url, types, filters or off")
        return self


class Webhook(Closed):
    """An endpoint. `url`: values of its query are not shown; null: the `webhook_url` of each order.

    `off_at`, `off_why`: since when and why nothing goes there. `former_until`: until then the secret before this one
    signs too. `secret_at`: when its secret was made; null: it has none.
    """

    id: str
    name: str
    url: Text | None = None
    types: tuple[WebhookType, ...] = ()
    filters: WebhookFilters = WebhookFilters()
    principal: str
    created_at: Moment
    off_at: Moment | None = None
    off_why: Text | None = None
    secret_at: Moment | None = None
    former_until: Moment | None = None


class WebhookWithSecret(Webhook):
    """An endpoint with its new secret, which nobody can read again."""

    secret: str


class NewRotation(Closed):
    """A wish for a new secret. `keep_seconds`: for so long the present one signs too."""

    keep_seconds: Annotated[int, Field(ge=0, le=MOST_KEEP_SECONDS)] = KEEP_SECONDS


class DeliveryState(StrEnum):
    PENDING = "pending"  # it will be tried, or is being tried
    DELIVERED = "delivered"  # the receiver answered with 2xx
    DEAD = "dead"  # given up; it can be replayed


class Delivery(Closed):
    """One message to one endpoint, or one reply: then `endpoint_id` is the table of mcc.toml that it goes to, such as
    `forges.hub`. `id` is the header `webhook-id`, the same at every try.

    `order_id`, `seq`: the entry that it tells; of `schedule.missed` and `webhook.test`, which are of no order, the id
    of the schedule or endpoint and a number. `due_at`: when it is tried next. `last_error`: what a try failed of.
    """

    id: str
    endpoint_id: str
    order_id: str
    seq: int
    type: WebhookType
    state: DeliveryState
    tries: int
    created_at: Moment
    due_at: Moment | None = None
    ended_at: Moment | None = None
    last_status: int | None = None
    last_error: Text | None = None


class NewReplay(Closed):
    """Which dead deliveries are to be tried again: all, or those of an endpoint, or that died since a time."""

    endpoint: Annotated[str, StringConstraints(max_length=100)] | None = None
    since: Moment | None = None


class Replayed(Closed):
    """How many deliveries are tried again."""

    count: int

"""All parts of a store that are about webhooks."""

from dataclasses import dataclass

from mcc.store.database.engine import Database
from mcc.store.doors.deliveries import DeliveryStore
from mcc.store.doors.delivery_lists import DeliveryLists
from mcc.store.doors.fanning_out import FanningOut
from mcc.store.doors.messages import MessageReader
from mcc.store.doors.webhooks import WebhookStore


@dataclass(frozen=True)
class WebhookParts:
    endpoints: WebhookStore
    fanning_out: FanningOut
    deliveries: DeliveryStore
    lists: DeliveryLists
    messages: MessageReader

    @classmethod
    def on(cls, database: Database) -> "WebhookParts":
        return cls(
            WebhookStore(database),
            FanningOut(database),
            DeliveryStore(database),
            DeliveryLists(database),
            MessageReader(database),
        )

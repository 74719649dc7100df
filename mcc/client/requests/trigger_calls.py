"""The calls about triggers, for both clients."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.triggers import Trigger, TriggerDelivery


def triggers() -> "Call[Listing[Trigger]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.triggers import Trigger

    return Call("GET", "/triggers", Listing[Trigger].model_validate)


def deliveries(name: str, cursor: str | None, limit: int) -> "Call[Listing[TriggerDelivery]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.triggers import TriggerDelivery

    path = f"/triggers/{quote(name, safe='')}/deliveries"
    return Call("GET", path, Listing[TriggerDelivery].model_validate, query(cursor=cursor, limit=limit))

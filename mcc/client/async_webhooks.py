"""Webhooks for an event loop: every call is awaited."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mcc.client.async_connection import Connection
from mcc.client.requests import webhook_calls as calls

if TYPE_CHECKING:
    from datetime import datetime

    from mcc.contracts.answers import Listing
    from mcc.contracts.webhooks import Delivery, Webhook, WebhookWithSecret


class Webhooks:
    """Endpoints that hear of orders, and what is delivered to them. All of it needs the right `operate`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> "Sequence[Webhook]":
        """By their names; `orders` is built in, for the `webhook_url` of orders."""
        return (await self._connection.send(calls.webhooks())).items

    async def get(self, webhook_id: str) -> "Webhook":
        """Raises `NotFound`."""
        return await self._connection.send(calls.webhook(webhook_id))

    async def add(
        self,
        name: str,
        url: str,
        *,
        types: Sequence[str] = (),
        filters: "Mapping[str, Sequence[str]] | None" = None,
    ) -> "WebhookWithSecret":
        """Register an endpoint. `types`: what it hears of, such as order.finished; none: everything. `filters`: of
        which orders, by kinds, labels, agents, principals, doors, sessions. `secret` of the answer is told this once.
        """
        fields = {"name": name, "url": url, "types": list(types), "filters": dict(filters or {})}
        return await self._connection.send(calls.add(fields))

    async def change(
        self,
        webhook_id: str,
        *,
        name: str | None = None,
        url: str | None = None,
        types: "Sequence[str] | None" = None,
        filters: "Mapping[str, Sequence[str]] | None" = None,
        off: bool | None = None,
    ) -> "Webhook":
        """Change what is given. While it is `off`, nothing is noted for it."""
        changed = {"name": name, "url": url, "types": types, "filters": filters, "off": off}
        return await self._connection.send(calls.change(webhook_id, changed))

    async def remove(self, webhook_id: str) -> None:
        """What waits for it is dead."""
        await self._connection.send(calls.remove(webhook_id))

    async def rotate(self, webhook_id: str, *, keep_seconds: int = 86_400) -> "WebhookWithSecret":
        """Give it a new `secret`, told this once; the present one signs too for `keep_seconds`. Raises `Conflict`
        while two sign."""
        return await self._connection.send(calls.rotate(webhook_id, keep_seconds))

    async def test(self, webhook_id: str) -> "Delivery":
        """Send it a message of type webhook.test."""
        return await self._connection.send(calls.test(webhook_id))

    async def deliveries(
        self,
        *,
        state: str | None = None,
        endpoint: str | None = None,
        order_id: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[Delivery]":
        """One page of what is to be delivered, was delivered or is dead, newest first. `endpoint`: the id of one."""
        filters = {"state": state, "endpoint": endpoint, "order_id": order_id, "cursor": cursor, "limit": limit}
        return await self._connection.send(calls.deliveries(**filters))

    async def replay(self, delivery_id: str) -> "Delivery":
        """Try a dead delivery anew, with the same id. Raises `Conflict` where it is not dead."""
        return await self._connection.send(calls.replay(delivery_id))

    async def replay_all(self, *, endpoint: str | None = None, since: "datetime | None" = None) -> int:
        """Try all that is dead anew, or what is of an endpoint, or died since a time; answers how many these are."""
        call = calls.replay_all(endpoint, since.isoformat() if since else None)
        return (await self._connection.send(call)).count

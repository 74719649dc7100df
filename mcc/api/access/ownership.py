"""Whose things a caller may reach: own ones with the right `write`, those of others with `operate`. Decided here alone,
for the things that stand in a path and for those that a body names."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mcc.api.access.callers import Caller, refusal
from mcc.api.problems import Refusal
from mcc.contracts.callers import AccessScope
from mcc.contracts.order import NewOrder
from mcc.store.people.owners import Thing

Owners = Callable[[Thing, Collection[str]], Awaitable[Mapping[str, str]]]

NAMES: Mapping[Thing, str] = {
    Thing.ORDER: "This order",
    Thing.TURN: "This order, or its session,",
    Thing.SESSION: "This session",
    Thing.DOCUMENT: "This document",
    Thing.ITEM: "The order that asks this",
    Thing.SESSION_OF_ITEM: "The session of the order that asks this",
    Thing.GRANT: "What this grant is for",
    Thing.SCHEDULE: "This schedule",
}


class Ownership:
    """`owners` answers whose things are, without those that nobody knows."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    async def refused(self, caller: Caller, thing: Thing, ids: Collection[str]) -> Mapping[str, Refusal]:
        """Those of the things that the caller may not reach, and why. Unknown ones are left to whoever looks for them.
        Raises `StoreUnavailable`."""
        if AccessScope.OPERATE in caller.scopes or not ids:
            return {}
        owners = await self._owners(thing, ids)
        why = refusal(AccessScope.OPERATE, f"{NAMES[thing]} is not yours: that")
        return {each: why for each, owner in owners.items() if owner != caller.principal}

    async def check(self, caller: Caller, thing: Thing, *ids: str | None) -> None:
        """Raises `Refusal` unless the caller may reach them all, and `StoreUnavailable`; None names nothing."""
        for why in (await self.refused(caller, thing, {each for each in ids if each is not None})).values():
            raise why

    async def refused_places(self, caller: Caller, orders: Sequence[NewOrder]) -> Mapping[int, Refusal]:
        """Those of the new orders, by index, that name a session or a document which the caller may not reach. Raises
        `StoreUnavailable`."""
        places = {Thing.SESSION: "session_id", Thing.DOCUMENT: "document_id"}
        refused: dict[int, Refusal] = {}
        for thing, field in places.items():
            named = [getattr(order, field) for order in orders]
            why = await self.refused(caller, thing, {each for each in named if each is not None})
            refused |= {index: why[each] for index, each in enumerate(named) if each in why}
        return refused

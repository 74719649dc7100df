"""The order of a delivery: checked as any order is before it is accepted."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from mcc.api.access.callers import refusal
from mcc.api.catalogue import Catalogue, UnlistedBlueprint
from mcc.api.problems import Refusal, Unacceptable
from mcc.api.submission import checked
from mcc.api.triggers.ready import ReadyTrigger
from mcc.contracts.callers import SCOPES_OF, TRIGGER, AccessScope, Role
from mcc.contracts.ids import named_session_id
from mcc.contracts.order import NewOrder
from mcc.documents.reading import BlueprintError
from mcc.rules.mistakes import mistakes
from mcc.settings import ServiceSettings
from mcc.store.doors.trigger_deliveries import (
    KnownDelivery,
    TakenDelivery,
    TriggerDeliveryStore,
    TriggeredOrder,
)
from mcc.store.people.owners import Thing
from mcc.store.people.rights import Standing
from mcc.store.store import Store


class TriggerOrders:
    """Places the orders of deliveries. Every method blocks."""

    def __init__(self, store: Store, settings: ServiceSettings) -> None:
        self._store = store
        self._settings = settings
        self._catalogue = Catalogue(settings.own_blueprints(), store.blueprints)

    @property
    def deliveries(self) -> TriggerDeliveryStore:
        return self._store.trigger_deliveries

    def place(
        self, trigger: ReadyTrigger, known: KnownDelivery, fields: Mapping[str, Any], session: str | None
    ) -> TakenDelivery:
        """Place the order of these fields, or note why it is refused. Raises `StoreError`."""
        try:
            order = self._order(trigger, fields, session)
        except Unacceptable as error:
            return self.deliveries.note(known, "refused", f"{error.field}: {error}")
        except (Refusal, UnlistedBlueprint, BlueprintError) as error:
            return self.deliveries.note(known, "refused", str(error))
        return self.deliveries.place(known, order)

    def _order(self, trigger: ReadyTrigger, fields: Mapping[str, Any], session: str | None) -> TriggeredOrder:
        principal = trigger.actor.principal
        # A trigger is a member; whoever else it places orders for has to have the right now.
        is_itself = principal.startswith(TRIGGER)
        standing = Standing(SCOPES_OF[Role.MEMBER]) if is_itself else self._store.rights.standing(principal)
        if standing.ended or AccessScope.WRITE not in standing.scopes:
            raise Refusal(403, standing.ended or str(refusal(AccessScope.WRITE, "Placing orders")))
        try:
            new = NewOrder.model_validate(fields)
        except ValidationError as error:
            mistake = mistakes(error.errors(), NewOrder)[0]
            raise Unacceptable(".".join(filter(None, ("order", mistake.field))), f"{mistake.message}.") from error
        if session is not None:
            session_id = named_session_id(session)
            defaults = self._store.sessions.defaults({session_id}).get(session_id)
            new = new if defaults is None else defaults.apply(new)
        named = set() if new.document_id is None else {new.document_id}
        owners = set(self._store.owners.owners(Thing.DOCUMENT, named).values())
        if owners - {principal} and AccessScope.OPERATE not in standing.scopes:
            raise refusal(AccessScope.OPERATE, "The document is not its own: that")
        database = self._store.database
        accepted = checked(new, self._settings, self._store.leases.registrations(), database.clock.now())
        blueprint = self._catalogue.find(accepted.blueprint).blueprint if accepted.blueprint else None
        anybodys = AccessScope.OPERATE in standing.scopes
        return TriggeredOrder(accepted, trigger.actor, session, trigger.table.turns_an_hour, blueprint, anybodys)

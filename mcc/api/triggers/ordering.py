"""The order of a delivery: checked as any order is before it is accepted."""

from pydantic import ValidationError

from mcc.api.access.callers import refusal
from mcc.api.catalogue import Catalogue, UnlistedBlueprint
from mcc.api.problems import Refusal, Unacceptable
from mcc.api.submission import checked
from mcc.api.triggers.ready import ReadyTrigger
from mcc.contracts.callers import SCOPES_OF, TRIGGER, AccessScope, Role
from mcc.contracts.ids import named_session_id
from mcc.contracts.order import NewOrder, OrderKind
from mcc.contracts.replies import ForgeReply, ReplyTarget, reply_target
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
from mcc.triggers.reading import AnswerOfDelivery


class TriggerOrders:
    """Places the orders of deliveries. Every method blocks."""

    def __init__(self, store: Store, settings: ServiceSettings) -> None:
        self._store = store
        self._settings = settings
        self._catalogue = Catalogue(settings.own_blueprints(), store.blueprints)

    @property
    def deliveries(self) -> TriggerDeliveryStore:
        return self._store.trigger_deliveries

    def place(self, trigger: ReadyTrigger, known: KnownDelivery, read: AnswerOfDelivery) -> TakenDelivery:
        """Place the order that was read, or note why it is refused. Raises `StoreError`."""
        try:
            order = self._order(trigger, read)
        except Unacceptable as error:
            return self.deliveries.note(known, "refused", f"{error.field}: {error}")
        except (Refusal, UnlistedBlueprint, BlueprintError) as error:
            return self.deliveries.note(known, "refused", str(error))
        return self.deliveries.place(known, order)

    def _order(self, trigger: ReadyTrigger, read: AnswerOfDelivery) -> TriggeredOrder:
        principal = trigger.actor.principal
        # A trigger is a member; whoever else it places orders for has to have the right now.
        is_itself = principal.startswith(TRIGGER)
        standing = Standing(SCOPES_OF[Role.MEMBER]) if is_itself else self._store.rights.standing(principal)
        if standing.ended or AccessScope.WRITE not in standing.scopes:
            raise Refusal(403, standing.ended or str(refusal(AccessScope.WRITE, "Placing orders")))
        try:
            new = NewOrder.model_validate(read.order)
        except ValidationError as error:
            mistake = mistakes(error.errors(), NewOrder)[0]
            raise Unacceptable(".".join(filter(None, ("order", mistake.field))), f"{mistake.message}.") from error
        reply = None if read.reply is None else reply_target(read.reply)
        opened_by = self._session_of(reply)
        joins = opened_by if new.kind is OrderKind.CHAT and new.document_id is None else None
        session_id = joins or (None if read.session is None else named_session_id(read.session))
        if session_id is not None:
            defaults = self._store.sessions.defaults({session_id}).get(session_id)
            new = new if defaults is None else defaults.apply(new)
        named = set() if new.document_id is None else {new.document_id}
        owners = set(self._store.owners.owners(Thing.DOCUMENT, named).values())
        if owners - {principal} and AccessScope.OPERATE not in standing.scopes:
            raise refusal(AccessScope.OPERATE, "The document is not its own: that")
        database = self._store.database
        accepted = checked(new, self._settings, self._store.leases.registrations(), database.clock.now())
        blueprint = self._catalogue.find(accepted.blueprint).blueprint if accepted.blueprint else None
        return TriggeredOrder(
            accepted,
            trigger.actor,
            read.session,
            trigger.table.turns_an_hour,
            blueprint,
            anybodys=AccessScope.OPERATE in standing.scopes,
            reply=reply,
            joins=joins,
        )

    def _session_of(self, reply: ReplyTarget | None) -> str | None:
        """The session that opened the request which this names: by our own table, and no text of the delivery. Raises
        `Unacceptable` for what its forge does not have."""
        if not isinstance(reply, ForgeReply):
            return None
        is_gitlab = self._settings.forges[reply.forge].kind == "gitlab"
        if reply.merge_request and not is_gitlab:
            raise Unacceptable("reply.number", "only at GitLab a ! stands before the number of a request.")
        if not is_gitlab and reply.project.count("/") != 1:
            raise Unacceptable("reply.project", f"{reply.project!r} is no owner and repository.")
        # At GitLab an issue may have the number of a request.
        if is_gitlab and not reply.merge_request:
            return None
        return self._store.sessions.of_request(reply.forge, reply.project, reply.number)

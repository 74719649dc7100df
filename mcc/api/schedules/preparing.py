"""The order of a schedule's run: filled in, and checked as any order is before it is accepted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from mcc.api.access.callers import refusal
from mcc.api.catalogue import Catalogue, UnlistedBlueprint
from mcc.api.problems import Refusal, Unacceptable
from mcc.api.submission import checked
from mcc.contracts.callers import AccessScope
from mcc.contracts.drones import Registration
from mcc.contracts.order import NewOrder, OrderKind
from mcc.contracts.schedules import NewSchedule
from mcc.documents.reading import BlueprintError
from mcc.rules.braces import Braces, Unfilled
from mcc.rules.kinds import Shape, object_shape, text_shape
from mcc.rules.mistakes import mistakes
from mcc.schedules.timing import Timing
from mcc.settings import ServiceSettings
from mcc.store.doors.firing import DueRun, PreparedRun
from mcc.store.people.owners import Thing
from mcc.store.store import Store

FILLED_IN = ("prompt", "workspace", "ref", "labels", "metadata")
"""Fields of an order in which expressions stand. All else is literal: rules, permission and schemas have braces of
their own."""

_NULLABLE = text_shape(nullable=True)
SHAPES: Mapping[str, Shape] = {
    **dict.fromkeys(("instant", "date", "time", "zone", "name"), text_shape()),
    "previous": object_shape({"instant": _NULLABLE, "order_id": _NULLABLE, "status": _NULLABLE}),
}
NO_RUN: Mapping[str, str | None] = {"instant": None, "order_id": None, "status": None}


def order_of(spec: NewSchedule, instant: datetime, previous: Mapping[str, str | None] = NO_RUN) -> NewOrder:
    """The order of the schedule at an instant. Raises `Unacceptable`."""
    shown = Timing.of(spec).shown(instant)
    values = {
        "instant": instant.isoformat().replace("+00:00", "Z"),
        "date": shown.date().isoformat(),
        "time": f"{shown:%H:%M}",
        "zone": spec.zone,
        "name": spec.name,
        "previous": previous,
    }
    braces = Braces(SHAPES, values)
    try:
        filled = {name: braces.filled(spec.order[name], name) for name in FILLED_IN if name in spec.order}
        new = NewOrder.model_validate({**spec.order, **filled})
    except Unfilled as error:
        raise Unacceptable(f"order.{error.place}", f"{error}.") from error
    except ValidationError as error:
        mistake = mistakes(error.errors(), NewOrder)[0]
        raise Unacceptable(".".join(filter(None, ("order", mistake.field))), f"{mistake.message}.") from error
    if spec.session == "same" and new.kind is not OrderKind.CHAT:
        raise Unacceptable("session", "only chats are turns of the same session: say new.")
    return new


class Preparing:
    """Makes orders of runs. Every method blocks."""

    def __init__(self, store: Store, settings: ServiceSettings, catalogue: Catalogue) -> None:
        self._store = store
        self._settings = settings
        self._catalogue = catalogue

    def tried(self, spec: NewSchedule, now: datetime) -> NewOrder:
        """The order of the schedule, as it would be now. Raises `Unacceptable`, `UnlistedBlueprint`,
        `BlueprintError`."""
        new = order_of(spec, now)
        self._accepted(new, self._store.leases.registrations(), now, "order.")
        return new

    def prepared(self, due: DueRun) -> PreparedRun:
        """The order of a run, or why there is none: its principal has no right any more, or what it names is not there.
        Raises `StoreError`."""
        if due.instant is None:
            return PreparedRun(None)
        standing = self._store.rights.standing(due.by.principal)
        if standing.ended or AccessScope.WRITE not in standing.scopes:
            return PreparedRun(None, why=standing.ended or str(refusal(AccessScope.WRITE, "Placing orders")))
        try:
            new = order_of(due.spec, due.instant, due.previous)
            if due.spec.session == "same" and due.session_id is not None:
                defaults = self._store.sessions.defaults({due.session_id}).get(due.session_id)
                new = new if defaults is None else defaults.apply(new)
            named = set() if new.document_id is None else {new.document_id}
            owners = set(self._store.owners.owners(Thing.DOCUMENT, named).values())
            if owners - {due.by.principal} and AccessScope.OPERATE not in standing.scopes:
                raise refusal(AccessScope.OPERATE, "The document is not its own: that")
            accepted = self._accepted(new, self._store.leases.registrations(), due.now, "")
            return replace(accepted, anybodys=AccessScope.OPERATE in standing.scopes)
        except Unacceptable as error:
            return PreparedRun(None, why=f"{error.field}: {error}")
        except (Refusal, UnlistedBlueprint, BlueprintError) as error:
            return PreparedRun(None, why=str(error))

    def _accepted(self, new: NewOrder, drones: Sequence[Registration], now: datetime, prefix: str) -> PreparedRun:
        try:
            accepted = checked(new, self._settings, drones, now)
        except Unacceptable as error:
            raise Unacceptable(f"{prefix}{error.field}", str(error)) from error
        named = accepted.blueprint
        return PreparedRun(accepted, self._catalogue.find(named).blueprint if named else None)

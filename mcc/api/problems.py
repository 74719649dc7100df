"""Error responses: every error becomes problem JSON (RFC 9457) with a sentence, never a traceback."""

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mcc.api.catalogue import UnlistedBlueprint
from mcc.contracts.answers import Problem
from mcc.contracts.budgets import BudgetOfDay
from mcc.contracts.callers import AccessScope
from mcc.contracts.documents import VersionConflict
from mcc.contracts.invisible import escape_invisible_json
from mcc.contracts.order import MAX_BATCH_ORDERS
from mcc.contracts.shape import to_json
from mcc.documents import change
from mcc.documents.reading import BlueprintError
from mcc.redaction import Redactor
from mcc.rules.mistakes import Mistake, mistakes
from mcc.schedules.cron import BadTiming
from mcc.store.database import errors

log = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
RETRY_SECONDS = 2
"""The Retry-After when the database is unavailable or full."""

QUEUE_SECONDS = 5
"""The Retry-After when too many orders are queued."""

IN_A_BATCH = "orders."
"""How the field of a mistake in one of several orders begins; the order's index follows."""

INDEX_DIGITS = len(str(MAX_BATCH_ORDERS))

STATUS_OF: Mapping[type[errors.StoreError], int] = {
    errors.UnknownOrder: 404,
    errors.UnknownSession: 404,
    errors.UnknownDocument: 404,
    errors.UnknownBlueprint: 404,
    errors.UnknownApproval: 404,
    errors.UnknownNote: 404,
    errors.TooManyNotes: 409,
    errors.SpentLink: 410,
    errors.SpentCode: 410,
    errors.UnknownSignin: 404,
    errors.SpentLogout: 400,
    errors.DisabledPerson: 403,
    errors.PersonOfProvider: 409,
    errors.UnknownPerson: 404,
    errors.UnknownToken: 404,
    errors.TooManyTokens: 409,
    errors.TooManyLogins: 429,
    errors.UnknownArtifact: 404,
    errors.CannotAttach: 422,
    errors.TooManyFiles: 429,
    errors.UnknownView: 404,
    errors.TooManyViews: 409,
    errors.UnknownDrone: 404,
    errors.UnknownSchedule: 404,
    errors.TooManySchedules: 409,
    errors.ScheduleNameTaken: 409,
    errors.ScheduleChanged: 409,
    errors.AlreadyDecided: 409,
    errors.ItemChanged: 409,
    errors.ApprovalOver: 410,
    errors.CannotRemember: 422,
    errors.UnknownGrant: 404,
    errors.UnknownServerTool: 404,
    errors.UnknownWebhook: 404,
    errors.TooManyWebhooks: 409,
    errors.WebhookNameTaken: 409,
    errors.WebhookIsBuiltIn: 409,
    errors.SecretsOverlap: 409,
    errors.WebhookIsOff: 409,
    errors.UnknownDelivery: 404,
    errors.DeliveryIsNotDead: 409,
    errors.BadCursor: 400,
    errors.IdempotencyConflict: 409,
    errors.SessionBusy: 409,
    errors.OrderOfOthers: 403,
    errors.DocumentBusy: 409,
    errors.NotAConversation: 422,
    errors.ContextIsFixed: 409,
    errors.SessionOfDocument: 409,
    errors.UnknownTurn: 422,
    errors.NothingToCompact: 409,
    errors.CannotRepeat: 409,
    errors.OrderIsFinal: 409,
    errors.OrderIsUnfinished: 409,
    errors.ControlNotTaken: 409,
    errors.CannotFork: 422,
    errors.NotRevertible: 422,
    errors.NotDeliverable: 422,
    errors.ForkOfPruned: 409,
    errors.JournalPruned: 410,
    errors.QueueFull: 429,
    errors.BudgetUsedUp: 429,
    errors.TooManyControls: 429,
    errors.StoreFenced: 409,
    errors.ControlsPending: 409,
    errors.BadEntry: 422,
    errors.StoreRefused: 422,
    errors.StoreFull: 507,
    errors.Unfit: 503,
    errors.StoreUnavailable: 503,
    errors.StoreError: 500,
}
"""HTTP status by error class; the nearest base class counts. A test compares this with the store's error classes."""

WAITS: Mapping[type[errors.StoreError], int] = {
    errors.StoreUnavailable: RETRY_SECONDS,
    errors.QueueFull: QUEUE_SECONDS,
    errors.TooManyControls: QUEUE_SECONDS,
    errors.TooManyLogins: 60,
}


class Unacceptable(Exception):
    """A request that is valid in form but cannot be fulfilled; answered with 422.

    `field` names the part of the request, the message says what would be accepted.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Refusal(Exception):
    """Ends a request with a problem of this status, detail and headers. `needs`: the right that the caller lacks."""

    def __init__(
        self, status: int, detail: str, headers: Mapping[str, str] | None = None, *, needs: str | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers
        self.needs = needs

    def answer(self) -> Response:
        return problem(self.status, str(self), headers=self.headers, needs=self.needs)


def problem(
    status: int,
    detail: str,
    *,
    errors: Sequence[dict[str, Any]] | None = None,
    headers: Mapping[str, str] | None = None,
    id: str | None = None,
    needs: str | None = None,
    error: str | None = None,
    budget: BudgetOfDay | None = None,
) -> Response:
    details = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        errors=tuple(errors) if errors is not None else None,
        id=id,
        needs=needs,
        error=error,
        budget=budget,
    )
    told = details.model_dump(exclude_none=True)
    if budget is not None:
        # As a whole: null in it says that any amount may be spent.
        told["budget"] = budget.model_dump()
    body = escape_invisible_json(to_json(told))
    return Response(body, status, headers=dict(headers or {}), media_type=PROBLEM_TYPE)


def install(app: FastAPI, redactor: Callable[[], Redactor] = Redactor, doors_off: Collection[str] = ()) -> None:
    """Register handlers for all errors of the endpoints and the framework. The database's messages are redacted.
    `doors_off`: what this service is without, by the first parts of its paths."""

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        asked = str(request.scope["path"]).removeprefix("/api/v1/")
        shut = next((name for name in doors_off if asked == name or asked.startswith((f"{name}/", f"{name}:"))), None)
        nothing = f"This service has no {shut}: [doors] in its mcc.toml has them off."
        details = {
            404: nothing if shut else "There is nothing at this address.",
            405: f"{request.method} is not possible at this address.",
        }
        return problem(error.status_code, details.get(error.status_code, error.detail), headers=error.headers)

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, http)

    async def store(_: Request, error: Exception) -> Response:
        status = _status_of(error)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("the store failed in a way that has no answer of its own", exc_info=error)
        wait = next((seconds for cls, seconds in WAITS.items() if isinstance(error, cls)), None)
        left = None
        if isinstance(error, errors.BudgetUsedUp):
            left, wait = error.left, max(1, math.ceil(error.seconds))
        headers = None if wait is None else {"Retry-After": str(wait)}
        detail = redactor().text(str(error))
        if isinstance(error, errors.JournalPruned):
            detail = f"{detail}: GET /api/v1/orders/{error.order_id}/record"
        needs = AccessScope.OPERATE.value if isinstance(error, errors.OrderOfOthers) else None
        return problem(status, detail, headers=headers, budget=left, needs=needs)

    app.add_exception_handler(errors.StoreError, store)
    app.add_exception_handler(change.DispatchRefused, _refused_change)
    app.add_exception_handler(BlueprintError, _blueprint)
    app.add_exception_handler(UnlistedBlueprint, _unknown_blueprint)
    app.add_exception_handler(Unacceptable, _unacceptable)
    app.add_exception_handler(BadTiming, _bad_timing)
    app.add_exception_handler(Refusal, _refusal)


async def _invalid(request: Request, error: Exception) -> Response:
    # The answer never repeats what the caller sent, which may be large or secret.
    assert isinstance(error, RequestValidationError)
    body = getattr(request.scope.get("route"), "body_field", None)
    found = mistakes(error.errors(), body.field_info.annotation if body is not None else None)
    return problem(422, found[0].sentence, errors=[_as_json(one) for one in found[:50]])


def _as_json(one: Mistake) -> dict[str, Any]:
    """The mistake; in a batch of orders, with the index of its order and the status of that order on its own."""
    index = one.field.removeprefix(IN_A_BATCH).partition(".")[0]
    # A caller may have named a field so: no more digits than an index has.
    of_one = one.field.startswith(IN_A_BATCH) and len(index) <= INDEX_DIGITS and index.isascii() and index.isdecimal()
    return asdict(one) | ({"index": int(index), "status": 422} if of_one else {})


def _status_of(error: Exception) -> int:
    return next(STATUS_OF[cls] for cls in type(error).__mro__ if cls in STATUS_OF)


def mistake_in(error: Exception) -> tuple[int, Mistake]:
    """Why an order cannot be placed, and the status with which that order would be answered on its own."""
    match error:
        case Unacceptable():
            return 422, Mistake(error.field, str(error))
        case Refusal():
            return error.status, Mistake("", str(error))
        case change.DispatchRefused():
            field, message = _field_and_message(next(iter(error.sentences), str(error)))
            return error.status, Mistake(field, f"{message}.")
        case BlueprintError():
            return 422, Mistake("blueprint", str(of_blueprint(error).detail))
        case UnlistedBlueprint():
            return 404, Mistake("blueprint", str(error))
        case _:
            return _status_of(error), Mistake("", str(error))


async def _bad_timing(_: Request, error: Exception) -> Response:
    assert isinstance(error, BadTiming)
    mistake = Mistake(error.place, str(error))
    return problem(422, mistake.sentence, errors=[asdict(mistake)])


async def _unacceptable(_: Request, error: Exception) -> Response:
    assert isinstance(error, Unacceptable)
    found = Mistake(error.field, str(error))
    return problem(422, found.sentence, errors=[asdict(found)])


def of_blueprint(error: BlueprintError) -> Problem:
    """All mistakes in a blueprint as one problem; its `errors` are `{line, place, message}`."""
    count = len(error.problems)
    return Problem(
        title=HTTPStatus(422).phrase,
        status=422,
        detail=f"{count} thing{'' if count == 1 else 's'} in this blueprint cannot be so: {error.problems[0].message}",
        errors=tuple(asdict(mistake) for mistake in error.problems),
    )


async def _blueprint(_: Request, error: Exception) -> Response:
    assert isinstance(error, BlueprintError)
    found = of_blueprint(error)
    return problem(found.status, found.detail, errors=found.errors)


async def _refused_change(_: Request, error: Exception) -> Response:
    """A change that a document refuses. For a version conflict, with the document's version and the changed nodes."""
    assert isinstance(error, change.DispatchRefused)
    if error.version is not None:
        conflict = VersionConflict(
            title=HTTPStatus(error.status).phrase,
            status=error.status,
            detail=f"{error}.",
            version=error.version,
            changed=error.changed,
        )
        return Response(to_json(conflict.model_dump(exclude_none=True)), error.status, media_type=PROBLEM_TYPE)
    parts = map(_field_and_message, error.sentences)
    errors = [{"field": field, "message": f"{message}."} for field, message in parts]
    return problem(error.status, f"{error}.", errors=errors if error.status == 422 else None)


def _field_and_message(sentence: str) -> tuple[str, str]:
    """Split a sentence into the request part or node field that it begins with ("" without one) and the message."""
    place, colon, rest = sentence.partition(": ")
    field, of, node = place.partition(" of /")
    if colon and of and not {" "} & {*field, *node}:
        return field, sentence
    return (place, rest) if colon and " " not in place else ("", sentence)


async def _unknown_blueprint(_: Request, error: Exception) -> Response:
    return problem(404, str(error))


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.answer()

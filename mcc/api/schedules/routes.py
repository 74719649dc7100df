"""Schedules over HTTP: saved, changed, looked at before they are, and run now."""

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Body, Path
from fastapi.openapi.models import Example
from pydantic import ValidationError
from starlette.responses import Response

from mcc.api.access.callers import Caller, CallerHere
from mcc.api.orders import IdempotencyKey, check_disk
from mcc.api.problems import Unacceptable
from mcc.api.schedules.preparing import Preparing
from mcc.api.service import (
    API,
    ERRORS,
    Cursor,
    Limit,
    Service,
    ServiceHere,
    WindowHere,
    answer,
    answers,
    page,
)
from mcc.contracts.answers import Listing
from mcc.contracts.order import WorkOrder
from mcc.contracts.schedules import (
    NewSchedule,
    Schedule,
    ScheduleChange,
    ScheduleRun,
    ScheduleToPreview,
    Upcoming,
)
from mcc.contracts.shape import now
from mcc.rules.mistakes import mistakes
from mcc.schedules.timing import Timing
from mcc.store.database.errors import ScheduleChanged
from mcc.store.doors.firing import FiredRun

router = APIRouter(prefix=API, tags=["schedules"])

ScheduleId = Annotated[str, Path(max_length=200)]
EXAMPLES: dict[str, Example] = {
    "nightly": {
        "summary": "A report each night",
        "value": {
            "name": "nightly-report",
            "cron": "30 2 * * *",
            "zone": "Europe/Berlin",
            "order": {"prompt": "Report for {date}", "workspace": "/path/to/it"},
        },
    },
    "interval": {
        "summary": "Every ten minutes, one after the other, as turns of one session",
        "value": {
            "name": "watch",
            "every_seconds": 600,
            "order": {"prompt": "Look at the log since {previous.instant}", "labels": ["watch"]},
            "session": "same",
            "when_full": "queue",
        },
    },
}
PREVIEWS: dict[str, Example] = {
    "spring": {
        "summary": "Around the night in which clocks are set",
        "value": {"cron": "30 2 * * *", "zone": "Europe/Berlin", "after": "2030-03-29T12:00:00Z", "count": 5},
    },
    "interval": {"summary": "An interval from now on", "value": {"every_seconds": 3_600}},
}
CHANGES: dict[str, Example] = {
    "pause": {"summary": "Paused, until it is resumed by false", "value": {"paused": True}},
    "weekdays": {
        "summary": "Another timetable, and everything that was missed is caught up with",
        "value": {"cron": "0 6 * * 1-5", "catch_up": {"policy": "all", "most": 20}},
    },
}


@router.get("/schedules", responses=answers(Listing[Schedule]))
async def schedules(service: ServiceHere, window: WindowHere) -> Response:
    """All schedules by their names, each with its next instants and its last run."""
    most = None if window.limit is None else window.limit + 1
    listed = await service.offload(service.store.schedules.list, skip=window.skip, most=most)
    following = None if most is None or len(listed) < most else str(window.skip + most - 1)
    return answer({"items": listed[: window.limit], "next_cursor": following})


@router.post("/schedules", status_code=201, responses=answers(Schedule, 201))
async def add(
    new: Annotated[NewSchedule, Body(openapi_examples=EXAMPLES)], service: ServiceHere, caller: CallerHere
) -> Response:
    """Save a schedule. It begins now, and its orders are placed as the caller's.

    Its order is tried at once: what could not be placed now is refused with 422.
    """
    await _try(service, caller, new)
    saved = await service.write(service.store.schedules.add, new, by=caller.actor)
    return answer(saved, 201, {"Location": f"schedules/{saved.id}"})


@router.post("/schedules:preview", responses=answers(Upcoming))
async def preview(
    asked: Annotated[ScheduleToPreview, Body(openapi_examples=PREVIEWS)], service: ServiceHere
) -> Response:
    """The next instants of a timetable, which is not saved."""
    return answer(await service.offload(_upcoming, asked))


@router.get("/schedules/{schedule_id}", responses=answers(Schedule))
async def show(schedule_id: ScheduleId, service: ServiceHere) -> Response:
    """One schedule."""
    return answer(await service.offload(service.store.schedules.get, schedule_id))


@router.patch("/schedules/{schedule_id}", responses=answers(Schedule))
async def alter(
    schedule_id: ScheduleId,
    asked: Annotated[ScheduleChange, Body(openapi_examples=CHANGES)],
    service: ServiceHere,
    caller: CallerHere,
) -> Response:
    """Change what is given, or pause and resume it. It begins anew from now on: what was due and not yet run is not run
    any more. Its orders stay those of whoever saved it first."""
    schedule = await service.offload(service.store.schedules.get, schedule_id)
    try:
        changed = asked.applied(schedule)
    except ValidationError as error:
        mistake = mistakes(error.errors(), NewSchedule)[0]
        raise Unacceptable(mistake.field, f"{mistake.message}.") from error
    if asked.model_fields_set != {"paused"} or not changed.paused:
        await _try(service, caller, changed)
    change = service.store.schedules.change
    return answer(await service.write(change, schedule_id, schedule.version, changed, by=caller.actor))


@router.delete("/schedules/{schedule_id}", status_code=204, responses=dict(ERRORS))
async def remove(schedule_id: ScheduleId, service: ServiceHere, caller: CallerHere) -> Response:
    """Remove a schedule and what is known of its runs. Orders that it has placed stay, and run on."""
    await service.write(service.store.schedules.remove, schedule_id, by=caller.actor)
    return Response(status_code=204)


@router.get("/schedules/{schedule_id}/runs", responses=answers(Listing[ScheduleRun]))
async def runs(schedule_id: ScheduleId, service: ServiceHere, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """What happened at its instants, newest first, for 90 days. One run `missed` stands for all instants that came
    while no service ran, and were not caught up with."""
    return page(await service.offload(service.store.schedules.runs, schedule_id, cursor=cursor, limit=limit))


@router.post(
    "/schedules/{schedule_id}/run", status_code=201, responses=answers(ScheduleRun, 201) | answers(ScheduleRun)
)
async def run(
    schedule_id: ScheduleId, service: ServiceHere, caller: CallerHere, idempotency_key: IdempotencyKey = None
) -> Response:
    """Run it now, beside its timetable, as whoever saved it, also while it is paused. The answer says whether an order
    was placed, and if not, why. With an `Idempotency-Key` it is run once: for a day, the same caller's further requests
    with the key are answered 200 with that run, as it is by then."""
    made, order = await service.write(_run, service, schedule_id, caller, idempotency_key)
    if order is not None:
        service.notices.placed(order)
    return answer(made.run, 200 if made.is_known else 201)


async def _try(service: Service, caller: Caller, new: NewSchedule) -> None:
    """Raises what keeps its order from being placed now."""
    order = await service.offload(preparing(service).tried, new, now())
    for refused in (await service.ownership.refused_places(caller, [order])).values():
        raise refused


def preparing(service: Service) -> Preparing:
    return Preparing(service.store, service.settings, service.catalogue)


def _upcoming(asked: ScheduleToPreview) -> Upcoming:
    timing = Timing.of(asked)
    begun = timing.begun(asked.after or now())
    timing.check_jitter(begun)
    instants = tuple(islice(timing.after(begun), asked.count))
    return Upcoming(next=instants, local=tuple(timing.shown(instant).isoformat() for instant in instants))


def _run(service: Service, schedule_id: str, caller: Caller, key: str | None) -> tuple[FiredRun, WorkOrder | None]:
    store = service.store
    check_disk(service)
    due = store.firing.asked(schedule_id, by=caller.actor, key=key)
    fired = store.firing.fire(due, preparing(service).prepared(due), asked_by=caller.actor)
    if fired is None or fired.run is None:
        raise ScheduleChanged(f"the schedule {due.spec.name} was changed or has run at this moment: try again")
    order_id = None if fired.is_known else fired.run.order_id
    return fired, None if order_id is None else store.orders.get(order_id)

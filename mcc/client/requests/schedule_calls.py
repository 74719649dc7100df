"""The calls about schedules, for both clients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.schedules import Schedule, ScheduleRun, Upcoming


def schedules() -> "Call[Listing[Schedule]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.schedules import Schedule

    return Call("GET", "/schedules", Listing[Schedule].model_validate)


def schedule(schedule_id: str) -> "Call[Schedule]":
    from mcc.contracts.schedules import Schedule

    return Call("GET", _at(schedule_id), Schedule.model_validate)


def add(fields: Mapping[str, Any]) -> "Call[Schedule]":
    from mcc.contracts.schedules import NewSchedule, Schedule
    from mcc.contracts.shape import to_json

    return Call("POST", "/schedules", Schedule.model_validate, body=to_json(NewSchedule(**fields)), repeatable=False)


def change(schedule_id: str, fields: Mapping[str, Any]) -> "Call[Schedule]":
    from mcc.contracts.schedules import Schedule, ScheduleChange
    from mcc.contracts.shape import to_json

    asked = ScheduleChange(**fields)
    body = to_json({name: getattr(asked, name) for name in asked.model_fields_set})
    return Call("PATCH", _at(schedule_id), Schedule.model_validate, body=body, repeatable=False)


def remove(schedule_id: str) -> "Call[None]":
    return Call("DELETE", _at(schedule_id), lambda _: None, repeatable=False)


def runs(schedule_id: str, cursor: str | None, limit: int) -> "Call[Listing[ScheduleRun]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.schedules import ScheduleRun

    asked = query(cursor=cursor, limit=limit)
    return Call("GET", f"{_at(schedule_id)}/runs", Listing[ScheduleRun].model_validate, asked)


def run(schedule_id: str, key: str | None) -> "Call[ScheduleRun]":
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.schedules import ScheduleRun

    named = {"Idempotency-Key": key or fresh_id()}
    return Call("POST", f"{_at(schedule_id)}/run", ScheduleRun.model_validate, headers=named)


def preview(fields: Mapping[str, Any]) -> "Call[Upcoming]":
    from mcc.contracts.schedules import ScheduleToPreview, Upcoming
    from mcc.contracts.shape import to_json

    return Call("POST", "/schedules:preview", Upcoming.model_validate, body=to_json(ScheduleToPreview(**fields)))


def _at(schedule_id: str) -> str:
    return f"/schedules/{quote(schedule_id, safe='')}"

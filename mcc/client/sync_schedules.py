"""Schedules and triggers for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcc.client.requests import schedule_calls as calls
from mcc.client.requests import trigger_calls
from mcc.client.sync_connection import Connection

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.schedules import Schedule, ScheduleRun, Upcoming
    from mcc.contracts.triggers import Trigger, TriggerDelivery


class Schedules:
    """Those of others are changed and run with the right `operate`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> "Sequence[Schedule]":
        """All, by their names, each with its next instants and its last run."""
        return (self._connection.send(calls.schedules())).items

    def get(self, schedule_id: str) -> "Schedule":
        """Raises `NotFound`."""
        return self._connection.send(calls.schedule(schedule_id))

    def add(self, name: str, order: dict[str, Any], **fields: Any) -> "Schedule":
        """Save a schedule, which begins now. `order`: the fields of each order, with `{CEL}` in its prompt, workspace,
        ref, labels and metadata. `fields` are the others of `NewSchedule`: `cron` with `zone`, or `every_seconds`, and
        how it runs. Raises `Invalid` for what could not be placed now."""
        return self._connection.send(calls.add({"name": name, "order": order, **fields}))

    def change(self, schedule_id: str, **fields: Any) -> "Schedule":
        """Change the fields that are given, or pause and resume it with `paused`. It begins anew from now on."""
        return self._connection.send(calls.change(schedule_id, fields))

    def remove(self, schedule_id: str) -> None:
        """Orders that it has placed stay, and run on."""
        self._connection.send(calls.remove(schedule_id))

    def runs(self, schedule_id: str, *, cursor: str | None = None, limit: int = 50) -> "Listing[ScheduleRun]":
        """One page of what happened at its instants, newest first."""
        return self._connection.send(calls.runs(schedule_id, cursor, limit))

    def run(self, schedule_id: str, *, idempotency_key: str | None = None) -> "ScheduleRun":
        """Run it now, beside its timetable; the answer says whether an order was placed. With the same
        `idempotency_key` it is run once within a day; without one, one is generated for this call."""
        return self._connection.send(calls.run(schedule_id, idempotency_key))

    def preview(self, **fields: Any) -> "Upcoming":
        """The next instants of a timetable that is not saved: `cron` with `zone`, or `every_seconds`; `after`,
        `count`."""
        return self._connection.send(calls.preview(fields))


class Triggers:
    """What from outside becomes an order, by the tables of `mcc.toml`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> "Sequence[Trigger]":
        """All, by their names, each with its newest delivery."""
        return (self._connection.send(trigger_calls.triggers())).items

    def deliveries(self, name: str, *, cursor: str | None = None, limit: int = 50) -> "Listing[TriggerDelivery]":
        """One page of what was delivered to this trigger, newest first, with the right `operate`. Raises `NotFound`."""
        return self._connection.send(trigger_calls.deliveries(name, cursor, limit))

"""Schedules: orders that are placed again and again, by cron or at intervals, and the runs of each."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.shape import Closed, Identifier, JsonObject, Moment, Name, Text, to_json
from mcc.contracts.webhook_urls import shown_url

MOST_SCHEDULES = 1_000
NEXT = 5
"""How many of its next instants a schedule is shown with."""
MOST_NEXT = 100
LATE_SECONDS = 60
"""A run that begins later than this catches up."""
MOST_CAUGHT_UP = 100
MOST_HELD = 100
"""Held runs of one schedule; further ones are skipped."""
ORDER_BYTES = 400_000
MOST_SECONDS = 366 * 86_400
NOT_OF_SCHEDULES = ("session_id", "not_before", "expires_at")
"""Fields of an order that a schedule decides, or that make no sense when it is placed again and again."""

CronText = Annotated[str, StringConstraints(min_length=1, max_length=200)]
ZoneName = Annotated[str, StringConstraints(min_length=1, max_length=60)]

RunOutcome = Literal["placed", "skipped", "held", "missed", "refused"]
"""`held`: until there is room for it. `missed`: not caught up with; one of these stands for several instants."""


class CatchUp(Closed):
    """What happens to runs that are more than a minute late, because nothing ran then: `skip` none, `one` the newest,
    `all` the newest `most` of them, oldest first. What is left out is told as one run `missed`."""

    policy: Literal["skip", "one", "all"] = "one"
    most: Annotated[int, Field(ge=1, le=MOST_CAUGHT_UP, strict=True)] = 10


class Timetable(Closed):
    """When: by `cron`, five fields on the clock of `zone`, or each `every_seconds`, counted from `starts_at`.

    Nothing is before `starts_at` (None: as soon as it is saved) or after `until`. `jitter_seconds`: each run begins up
    to so much later, always the same for the same instant.
    """

    cron: CronText | None = None
    zone: ZoneName = "UTC"
    every_seconds: Annotated[int, Field(ge=60, le=MOST_SECONDS, strict=True)] | None = None
    starts_at: Moment | None = None
    until: Moment | None = None
    jitter_seconds: Annotated[int, Field(ge=0, le=MOST_SECONDS, strict=True)] = 0

    @model_validator(mode="after")
    def _one_of_both(self) -> "Timetable":
        if (self.cron is None) == (self.every_seconds is None):
            raise PydanticCustomError("one_of_both", "Input should have either cron or every_seconds")
        if self.starts_at is not None and self.until is not None and self.until < self.starts_at:
            raise PydanticCustomError("until", "until is before starts_at: nothing would ever be placed")
        return self


def shown_order(order: JsonObject) -> JsonObject:
    """The order of a schedule or trigger, its `webhook_url` without the values of its query, as orders are shown."""
    url = order.get("webhook_url")
    return {**order, "webhook_url": shown_url(url)} if isinstance(url, str) else order


class NewSchedule(Timetable):
    """An order that is placed at each instant of the timetable.

    `order`: as a new order, without `session_id`, `not_before` and `expires_at`. In its prompt, workspace, ref, labels
    and metadata, `{…}` is CEL over `instant`, `date`, `time`, `zone`, `name` and `previous {instant, order_id,
    status}`, and `{{` a brace. `session`: each run begins a new one, or all are turns of the same.

    `max_running`: how many of its orders may be unfinished; when there are as many, `when_full` skips the run, queues
    it until one has ended, or cancels the older ones.
    """

    name: Name
    order: JsonObject
    session: Literal["new", "same"] = "new"
    catch_up: CatchUp = CatchUp()
    max_running: Annotated[int, Field(ge=1, le=100, strict=True)] = 1
    when_full: Literal["skip", "queue", "cancel_older"] = "skip"
    paused: bool = False

    @field_validator("order")
    @classmethod
    def _bounded(cls, order: JsonObject) -> JsonObject:
        for name in NOT_OF_SCHEDULES:
            if name in order:
                raise PydanticCustomError(
                    "not_of_schedules", "{name} is not of schedules: leave it out", {"name": name}
                )
        try:
            size = len(to_json(order))
        except ValueError as error:
            raise PydanticCustomError("not_json", "the order is nested too deeply") from error
        if size > ORDER_BYTES:
            raise PydanticCustomError("too_long", "the order has more than 400,000 bytes as JSON: shorten it")
        return order


class ScheduleChange(Closed):
    """What is given is changed, null included; see the fields of a new schedule. Whatever is changed, it begins anew
    from now on."""

    name: Name | None = None
    cron: CronText | None = None
    zone: ZoneName | None = None
    every_seconds: int | None = None
    starts_at: Moment | None = None
    until: Moment | None = None
    jitter_seconds: int | None = None
    order: JsonObject | None = None
    session: Literal["new", "same"] | None = None
    catch_up: CatchUp | None = None
    max_running: int | None = None
    when_full: Literal["skip", "queue", "cancel_older"] | None = None
    paused: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> "ScheduleChange":
        if not self.model_fields_set:
            raise PydanticCustomError("nothing_given", "say what is to be changed")
        return self

    def applied(self, schedule: NewSchedule) -> NewSchedule:
        """The schedule as it is then. Raises `ValidationError`."""
        changed: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        # Cron and interval take each other's place.
        if changed.get("cron") is not None:
            changed.setdefault("every_seconds", None)
        if changed.get("every_seconds") is not None:
            changed.setdefault("cron", None)
        kept: Mapping[str, Any] = {name: getattr(schedule, name) for name in NewSchedule.model_fields}
        # Whoever changes what they were shown says nothing of what they were not.
        url, order = "webhook_url", changed.get("order")
        if order and url in order and order[url] == shown_order(schedule.order).get(url):
            changed["order"] = {**order, url: schedule.order[url]}
        return NewSchedule.model_validate({**kept, **changed})


class Missed(Closed):
    """The instants for which one run `missed` stands: `count` of them, from `since` to `until`."""

    count: int
    since: Moment
    until: Moment


class ScheduleRun(Closed):
    """What happened at an instant. `order_id`: the order that was placed. `why`: a sentence where none was, or where
    others made way for it."""

    instant: Moment
    outcome: RunOutcome
    order_id: Identifier | None = None
    why: Text = ""
    missed: Missed | None = None


class Schedule(NewSchedule):
    """A schedule in the service. `next`: its next five instants, none while it is paused or when it has ended. `last`:
    its newest run. `version` counts its changes."""

    order: Annotated[JsonObject, PlainSerializer(shown_order, return_type=JsonObject)]
    id: Identifier
    principal: str
    version: int
    created_at: Moment
    next: tuple[Moment, ...] = ()
    last: ScheduleRun | None = None


class ScheduleToPreview(Timetable):
    """A timetable to look at: its first `count` instants after `after`, which is now where it is left out."""

    after: Moment | None = None
    count: Annotated[int, Field(ge=1, le=MOST_NEXT, strict=True)] = NEXT


class Upcoming(Closed):
    """Instants, in UTC and as the clock of the zone shows them."""

    next: tuple[Moment, ...]
    local: tuple[Text, ...]

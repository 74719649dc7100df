"""The commands `mcc schedules`: orders that are placed again and again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcc.cli.command import USAGE, clock, fail, listed_id, print_pairs, print_table, say
from mcc.cli.order_request import checked_key, order_fields, time_in
from mcc.cli.server import ServiceCall, is_part_of_an_id, list_by_default, service_command
from mcc.options import DeliverOptions, object_in
from mcc.view.output import brief

if TYPE_CHECKING:
    from mcc.contracts.schedules import Schedule, ScheduleRun

app = typer.Typer(help="Schedules: orders that are placed again and again.", rich_markup_mode=None)

Named = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its name, or part of its id.")]
Zone = Annotated[str, typer.Option(help="The zone of whose clock the expression speaks.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """When, which order, and how it runs."""

    cron: Annotated[str | None, typer.Option(help="Five fields, such as '30 2 * * 1-5'.")] = None
    zone: Zone = "UTC"
    every: Annotated[str | None, typer.Option(metavar="DURATION", help="Instead: 10m, 6h, 2d; a minute at least.")] = (
        None
    )
    starts: Annotated[str | None, typer.Option(metavar="TIME", help="Nothing before this time.")] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Nothing after this time.")] = None
    workspace: Annotated[str | None, typer.Option(help="Directory or git address.")] = None
    agent: Annotated[str | None, typer.Option(help="Agent to ask; master if left out.")] = None
    model: Annotated[str | None, typer.Option(help="Model to use.")] = None
    label: Annotated[list[str] | None, typer.Option(help="A label of each order; may be repeated.")] = None
    order: Annotated[
        str | None, typer.Option(metavar="FILE|JSON", help="Further fields of the order, as the API has them.")
    ] = None
    same_session: Annotated[bool, typer.Option("--same-session", help="All orders are turns of one session.")] = False
    catch_up: Annotated[
        Literal["skip", "one", "all"], typer.Option(help="What is done about runs that were missed.")
    ] = "one"
    most: Annotated[int, typer.Option(help="How many are caught up with at most, with --catch-up all.")] = 10
    jitter: Annotated[str | None, typer.Option(metavar="DURATION", help="Begin up to so much later.")] = None
    max_running: Annotated[int, typer.Option(help="How many of its orders may be unfinished.")] = 1
    when_full: Annotated[
        Literal["skip", "queue", "cancel_older"], typer.Option(help="What is done when as many are.")
    ] = "skip"

    def order_fields(self) -> dict[str, Any]:
        """Of each order, without its prompt. Exits where --order is no JSON object."""
        try:
            more = object_in(self.order, "--order") or {}
        except ValueError as problem:
            fail(str(problem), USAGE)
        named = {"workspace": self.workspace, "agent": self.agent, "model": self.model, "labels": self.label}
        return {**more, **{name: value for name, value in named.items() if value is not None}}

    def fields(self) -> dict[str, Any]:
        """Of the schedule, without name and order. Exits where a time or duration is none."""
        return {
            "cron": self.cron,
            "zone": self.zone,
            "every_seconds": _seconds(self.every, "--every"),
            "starts_at": time_in(self.starts, option="--starts"),
            "until": time_in(self.until, option="--until"),
            "session": "same" if self.same_session else "new",
            "catch_up": {"policy": self.catch_up, "most": self.most},
            "jitter_seconds": _seconds(self.jitter, "--jitter") or 0,
            "max_running": self.max_running,
            "when_full": self.when_full,
        }


@service_command(app, "list")
def list_schedules(call: ServiceCall) -> None:
    """All schedules, with their next instants and their last runs.

    Example: mcc schedules list
    """
    listed = call.client.schedules.list()
    if call.printed({"items": listed}):
        return
    rows = [
        (
            schedule.name,
            _when(schedule),
            "paused" if schedule.paused else clock(schedule.next[0]) if schedule.next else "ended",
            _outcome(schedule.last) if schedule.last else "",
            schedule.principal,
        )
        for schedule in listed
    ]
    columns = ("NAME", "WHEN", "NEXT", "LAST", "OF")
    print_table(columns, rows, empty='None yet: mcc schedules add NAME "Report for {date}" --cron "30 2 * * *"')


list_by_default(app, list_schedules)


@service_command(app)
def add(
    call: ServiceCall,
    options: ScheduleOptions,
    deliver: DeliverOptions,
    name: Annotated[str, typer.Argument(help="Letters, digits and _ . : -")],
    prompt: Annotated[str, typer.Argument(help="What to do; {date}, {time} and other CEL in braces is filled in.")],
) -> None:
    """Save a schedule, which begins now. Its order is tried at once, and not placed.

    Example: mcc schedules add nightly "Report for {date}" --cron "30 2 * * *" --zone Europe/Berlin --workspace "$PWD"
    """
    order = {**options.order_fields(), "prompt": prompt}
    if (wish := order_fields(deliver)["deliver"]) is not None:
        order["deliver"] = wish
    saved = call.client.schedules.add(name, order, **_checked({"name": name, "order": order, **options.fields()}))
    if not call.printed(saved):
        say(f"saved: {saved.name}, {_when(saved)}")
        _print_next(saved.next)


@service_command(app)
def show(call: ServiceCall, schedule: Named) -> None:
    """One schedule: what it places, when, and what its last runs came to.

    Example: mcc schedules show nightly
    """
    shown = _schedule(call, schedule)
    runs = call.client.schedules.runs(shown.id, limit=20).items
    if call.printed({"schedule": shown, "runs": runs}):
        return
    caught = shown.catch_up
    print_pairs(
        (
            ("name", shown.name),
            ("id", shown.id),
            ("when", _when(shown)),
            ("until", clock(shown.until) if shown.until else None),
            ("of", shown.principal),
            ("prompt", brief(str(shown.order.get("prompt", "")), 400)),
            ("session", shown.session),
            ("at most", f"{shown.max_running} at once, else {shown.when_full}"),
            ("missed", f"{caught.policy}, at most {caught.most}" if caught.policy == "all" else caught.policy),
            ("state", "paused" if shown.paused else None if shown.next else "ended"),
        )
    )
    _print_next(shown.next)
    rows = [(clock(run.instant), _outcome(run), listed_id(run.order_id) if run.order_id else "") for run in runs]
    print_table(("INSTANT", "OUTCOME", "ORDER"), rows, empty="It has not run yet.")


@service_command(app)
def pause(call: ServiceCall, schedule: Named) -> None:
    """Place nothing until it is resumed. What comes meanwhile is not caught up with.

    Example: mcc schedules pause nightly
    """
    changed = call.client.schedules.change(_schedule(call, schedule).id, paused=True)
    if not call.printed(changed):
        say(f"{changed.name} is paused")


@service_command(app)
def resume(call: ServiceCall, schedule: Named) -> None:
    """Go on from now.

    Example: mcc schedules resume nightly
    """
    changed = call.client.schedules.change(_schedule(call, schedule).id, paused=False)
    if not call.printed(changed):
        say(f"{changed.name} goes on")
        _print_next(changed.next)


@service_command(app)
def run(
    call: ServiceCall,
    schedule: Named,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Run it once within a day, however often this is said with the same key.")
    ] = None,
) -> None:
    """Run it now, beside its timetable, also while it is paused.

    Example: mcc schedules run nightly
    """
    key = checked_key(idempotency_key)
    made = call.client.schedules.run(_schedule(call, schedule).id, idempotency_key=key)
    if call.printed(made):
        return
    if made.order_id is None:
        fail(f"no order was placed: {_outcome(made)}")
    print(made.order_id)


@service_command(app)
def remove(call: ServiceCall, schedule: Named) -> None:
    """Remove a schedule. Orders that it has placed stay, and run on.

    Example: mcc schedules remove nightly
    """
    gone = _schedule(call, schedule)
    call.client.schedules.remove(gone.id)
    if not call.printed({"id": gone.id, "removed": True}):
        say(f"removed: {gone.name}")


@service_command(app, "next")
def following(
    call: ServiceCall,
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE|CRON", help="A schedule, or a cron expression that is not saved yet.")
    ],
    zone: Zone = "UTC",
    count: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 5,
) -> None:
    """The next instants of a schedule, or of a cron expression, by the clock of its zone.

    Example: mcc schedules next "30 2 * * *" --zone Europe/Berlin
    """
    if len(schedule.split()) > 1 or schedule.startswith("@"):
        upcoming = call.client.schedules.preview(**{"cron": schedule, "zone": zone, "count": count})
    else:
        saved = _schedule(call, schedule)
        table = ("cron", "zone", "every_seconds", "starts_at", "until")
        upcoming = call.client.schedules.preview(count=count, **{name: getattr(saved, name) for name in table})
    if not call.printed(upcoming):
        print_table(("LOCAL", "UTC"), list(zip(upcoming.local, map(str, upcoming.next), strict=True)), empty="None.")


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without name and order. Exits where no service would accept them."""
    from pydantic import ValidationError

    from mcc.contracts.schedules import NewSchedule
    from mcc.rules.mistakes import mistakes

    try:
        NewSchedule.model_validate(fields)
    except ValidationError as error:
        fail(mistakes(error.errors(), NewSchedule)[0].sentence, USAGE)
    return {name: value for name, value in fields.items() if name not in ("name", "order")}


def _seconds(duration: str | None, option: str) -> int | None:
    start = datetime.now(UTC)
    end = time_in(duration, start, option=option)
    return None if end is None else round((end - start).total_seconds())


def _schedule(call: ServiceCall, named: str) -> "Schedule":
    """The schedule of this name, or of this part of an id. Exits where there is none, or several."""
    listed = call.client.schedules.list()
    matching = [each for each in listed if named in (each.name, each.id)]
    if not matching and is_part_of_an_id(named):
        matching = [each for each in listed if each.id.startswith(named) or each.id.endswith(named)]
    if len(matching) != 1:
        count = len(matching) or "no"
        fail(f"{count} schedules are called {brief(named, 60)!r}: mcc schedules list shows their names.", USAGE)
    return matching[0]


def _when(schedule: "Schedule") -> str:
    if schedule.cron is not None:
        return f"{schedule.cron} {schedule.zone}"
    return f"every {schedule.every_seconds:,} s"


def _outcome(run: "ScheduleRun") -> str:
    """What a run came to, in a few words."""
    if run.missed is not None:
        return f"missed {run.missed.count:,} from {clock(run.missed.since)} on"
    return f"{run.outcome}: {brief(run.why, 120)}" if run.why else run.outcome


def _print_next(instants: Sequence[datetime]) -> None:
    if instants:
        say(f"next: {', '.join(map(clock, instants))}")

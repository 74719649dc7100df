"""The commands `mcc usage`, `mcc failures` and `mcc views`: what was used, what failed, and saved filters."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import USAGE, clock, fail, print_table, say
from mcc.cli.server import ServiceCall, list_by_default, service_command

if TYPE_CHECKING:
    from mcc.contracts.usage_days import UsageReport, UsageSum

views = typer.Typer(help="Saved filters of lists.", rich_markup_mode=None)


def usage(
    call: ServiceCall,
    by: Annotated[str, typer.Option(help="day, person, agent, model, label, drone or token.")] = "day",
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="DAY", help="The first day (UTC), as 2026-01-31; 30 days if left out."),
    ] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DAY", help="The last day; today if left out.")] = None,
) -> None:
    """What the orders used that ended within some days: by day, or by what they have in common.

    Example: mcc usage --by model --from 2026-01-01
    """
    report = call.client.orders.usage(by, first=_day(first, "--from"), last=_day(last, "--to"))
    if call.printed(report):
        return
    rows = [*_by_key(report), ("total", report.totals)]
    if report.open.orders:
        rows.append(("open", report.open))
    columns = ("DAY" if by == "day" else by.upper(), "ORDERS", "FAILED", "CALLS", "TOKENS", "CACHED", "COST")
    print_table(columns, [(name or "(none)", *_cells(added)) for name, added in rows], empty="")
    if report.since is not None:
        say(f"Counted are orders that ended after {clock(report.since)}.")


def _day(text: str | None, option: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        fail(f"{option}: {text!r} is no day; write 2026-01-31.", USAGE)


def _by_key(report: "UsageReport") -> list[tuple[str, "UsageSum"]]:
    """The keys of all days together, the one that cost most first; days in their order."""
    from mcc.contracts.usage_days import UsageSum

    sums: defaultdict[str, UsageSum] = defaultdict(UsageSum)
    for row in report.days:
        before = sums[row.key]
        sums[row.key] = UsageSum(**{name: value + getattr(row, name) for name, value in before})
    if report.by == "day":
        return sorted(sums.items())
    return sorted(sums.items(), key=lambda item: (-item[1].cost_usd, -item[1].orders, item[0]))


def _cells(added: "UsageSum") -> Sequence[str]:
    tokens = added.input_tokens + added.output_tokens
    cached = f"{100 * added.cached_input_tokens // added.input_tokens} %" if added.input_tokens else ""
    cost = f"${added.cost_usd:,.4f}" if added.cost_usd else "$0"
    unpriced = f" + {added.unpriced:,} of unknown cost" if added.unpriced else ""
    return (f"{added.orders:,}", f"{added.failed:,}", f"{added.model_calls:,}", f"{tokens:,}", cached, cost + unpriced)


def failures(
    call: ServiceCall,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="1h, 2d ago, or ISO 8601; a week if left out, 90 days at most.")
    ] = None,
) -> None:
    """What failed, gathered by cause, the most frequent first.

    Place the orders of a cause again: mcc orders retry --fingerprint FINGERPRINT

    Example: mcc failures --since 1d
    """
    from mcc.cli.order_request import time_in

    causes = call.client.orders.failures(since=time_in(since, option="--since", ago=True))
    if call.printed({"items": causes}):
        return
    rows = [
        (
            f"{cause.count:,}",
            cause.fingerprint,
            cause.reason or "",
            cause.agent,
            clock(cause.last_at),
            cause.detail or "",
        )
        for cause in causes
    ]
    print_table(("ORDERS", "FINGERPRINT", "REASON", "AGENT", "LAST", "DETAIL"), rows, empty="Nothing failed.")


@service_command(views, "list")
def list_views(call: ServiceCall) -> None:
    """Saved filters: your own, and those that are shared.

    Example: mcc views
    """
    from mcc.contracts.shape import to_json

    saved = call.client.views.list()
    if not call.printed({"items": saved}):
        rows = [(view.name, view.owner, "yes" if view.shared else "", to_json(view.query).decode()) for view in saved]
        print_table(("NAME", "OWNER", "SHARED", "FILTERS"), rows, empty="No view.")


@service_command(views, "delete")
def delete_view(call: ServiceCall, name: Annotated[str, typer.Argument(help="The view's name.")]) -> None:
    """Delete saved filters of your own.

    Example: mcc views delete nightly
    """
    call.client.views.delete(name)
    if not call.printed({"deleted": name}):
        say(f"deleted {name}")


list_by_default(views, list_views)

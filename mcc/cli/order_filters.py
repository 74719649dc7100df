"""Options that choose orders, and what is done with all orders that they choose."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.cli.command import USAGE, fail, print_wrapped
from mcc.cli.server import ServiceCall, resolve_session_id

if TYPE_CHECKING:
    from mcc.cli.archive import ArchiveReader
    from mcc.contracts.order_bulk import BulkItem

PAGE = 200

Several = list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFilters:
    """Options that choose orders, those of an agent apart; of one that is repeated, one value has to fit."""

    status: Annotated[Several, typer.Option(help="Only those queued, running, waiting, succeeded …; repeatable.")] = (
        None
    )
    session: Annotated[
        Several, typer.Option(help="Only those of this session: its id, an end of it, or @last; repeatable.")
    ] = None
    label: Annotated[Several, typer.Option(help="Only those with this label; repeatable.")] = None
    model: Annotated[Several, typer.Option(help="Only those of this model; repeatable.")] = None
    drone: Annotated[Several, typer.Option(help="Only those that this drone runs, or held last; repeatable.")] = None
    workspace: Annotated[
        str | None, typer.Option(metavar="DIRECTORY|https://…", help="Only those that work there.")
    ] = None
    who: Annotated[
        Several, typer.Option(help="Only those that this principal placed: operator, or as mcc me says; repeatable.")
    ] = None
    text: Annotated[str | None, typer.Option(help="Only those whose prompt and answer have all these words.")] = None
    group: Annotated[str | None, typer.Option(help="Only those that need input, work or are done.")] = None
    fingerprint: Annotated[
        Several, typer.Option(help="Only those that failed of this cause, as mcc failures lists it; repeatable.")
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those placed since: 10m, 1h30m, 2d ago, or ISO 8601.")
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those placed before: 10m, 1h30m, 2d ago, or ISO 8601.")
    ] = None

    def arguments(self, reader: "ArchiveReader") -> dict[str, Any]:
        """The arguments of the client's calls that take filters."""
        from mcc.cli.order_request import time_in
        from mcc.cli.run import workspace_fields

        sessions = [resolve_session_id(reader, named) for named in self.session or ()]
        return {
            "status": self.status or None,
            "session_id": sessions or None,
            "label": self.label or None,
            "model": self.model or None,
            "drone": self.drone or None,
            "workspace": None if self.workspace is None else workspace_fields(self.workspace, None)["workspace"],
            "who": self.who or None,
            "text": self.text,
            "group": None if self.group is None else self.group.replace("-", "_"),
            "fingerprint": self.fingerprint or None,
            "since": time_in(self.since, option="--since", ago=True),
            "until": time_in(self.until, option="--until", ago=True),
        }


def of_all(
    call: ServiceCall,
    action: str,
    asked: dict[str, Any],
    *,
    within: dict[str, Any],
    everything: bool = False,
    reason: str | None = None,
) -> Iterator["BulkItem"]:
    """Cancel or retry (`action`) all orders that fit `asked` and `within`, and answer what became of each. Exits where
    nothing is asked, unless `everything` is said."""
    from mcc.contracts.order_bulk import MOST_BULK

    if everything == any(value is not None for value in asked.values()):
        both = "--all and a filter would mean two things: leave one out."
        fail(both if everything else "Name an order, or say which: --label, --status, --text … or --all.", USAGE)
    filters = {name: value for name, value in {**asked, **within}.items() if value is not None}

    def pages() -> Iterator[Sequence[str]]:
        cursor = None
        while True:
            page = call.client.orders.summaries(cursor=cursor, limit=PAGE, **filters)
            yield [order.id for order in page.items]
            if page.next_cursor is not None and page.next_cursor == cursor:
                fail("Older orders are still being made findable: nothing was done; try again later.")
            if (cursor := page.next_cursor) is None:
                return

    # All first: what is done may change which orders fit.
    ids = list(chain.from_iterable(pages()))
    for start in range(0, len(ids), MOST_BULK):
        yield from call.client.orders.bulk(action, list(islice(ids, start, start + MOST_BULK)), reason=reason)


def cancel_all(call: ServiceCall, asked: dict[str, Any], *, everything: bool, reason: str | None) -> None:
    """Cancel all orders that have not ended and fit `asked`; see `of_all`."""
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.status import FINAL, UNFINISHED

    named = asked.get("status")
    statuses = [status for status in named or sorted(UNFINISHED) if status not in FINAL]
    if not statuses:
        fail("--status: orders that have ended cannot be cancelled.", USAGE)
    items = [
        item
        for item in of_all(call, "cancel", asked, everything=everything, reason=reason, within={"status": statuses})
        if item.problem is None
    ]
    done = OrdersCancelled(requested=len(items), ended=sum(item.status in FINAL for item in items))
    if not call.printed(done):
        orders = "order" if done.requested == 1 else "orders"
        print_wrapped(f"{done.requested:,} {orders} told to end; {done.ended:,} of them have ended")

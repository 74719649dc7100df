"""Options that choose orders, and the cancel of all orders that they choose."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.cli.command import USAGE, fail, print_wrapped
from mcc.cli.server import ServiceCall, resolve_session_id

if TYPE_CHECKING:
    from mcc.cli.archive import ArchiveReader


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFilters:
    """Options that choose orders, those of an agent apart."""

    status: Annotated[str | None, typer.Option(help="Only those queued, running, waiting, succeeded …")] = None
    session: Annotated[str | None, typer.Option(help="Only those of this session: its id, an end of it, or @last.")] = (
        None
    )
    label: Annotated[str | None, typer.Option(help="Only those with this label.")] = None
    workspace: Annotated[
        str | None, typer.Option(metavar="DIRECTORY|https://…", help="Only those that work there.")
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those placed since: 10m, 1h30m, 2d ago, or ISO 8601.")
    ] = None

    def arguments(self, reader: "ArchiveReader") -> dict[str, Any]:
        """The arguments of the client's calls that take filters."""
        from mcc.cli.order_request import time_in
        from mcc.cli.run import workspace_fields

        return {
            "status": self.status,
            "session_id": None if self.session is None else resolve_session_id(reader, self.session),
            "label": self.label,
            "workspace": None if self.workspace is None else workspace_fields(self.workspace, None)["workspace"],
            "since": time_in(self.since, option="--since", ago=True),
        }


def cancel_all(call: ServiceCall, asked: dict[str, Any]) -> None:
    """Cancel all unfinished orders that fit `asked`, the fields of `OrdersToCancel`. Exits where they name none."""
    from mcc.contracts.cancelling import OrdersCancelled

    if not any(value is not None for name, value in asked.items() if name != "reason"):
        fail("Name an order, or say which: --label, --status, --agent, --workspace, --session, --since, --all.", USAGE)
    cursor, done = None, OrdersCancelled()
    while True:
        group = call.client.orders.cancel_all(cursor=cursor, **asked)
        done = OrdersCancelled(requested=done.requested + group.requested, ended=done.ended + group.ended)
        if (cursor := group.next_cursor) is None:
            break
    if not call.printed(done):
        orders = "order" if done.requested == 1 else "orders"
        print_wrapped(f"{done.requested:,} {orders} told to end; {done.ended:,} of them have ended")

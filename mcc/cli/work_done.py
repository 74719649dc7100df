"""The commands `mcc orders diff` and `log`: what an order changed, and what its agents did."""

from typing import Annotated

import typer

from mcc.cli.command import USAGE, fail, print_json, say
from mcc.cli.orders import OrderId
from mcc.cli.server import Query


def diff(
    query: Query,
    order_id: OrderId,
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help="A file or directory, relative to the workspace.")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only files and numbers of lines.")] = False,
) -> None:
    """What an order changed in its workspace, as a unified diff.

    Example: mcc orders diff @last README.md
    """
    from mcc.contracts.status import FINAL
    from mcc.view.diffs import is_at, of_path, shown_lines, stat_lines
    from mcc.view.paging import show_paged

    order = query.reader.orders.get(order_id)
    changes = order.changes
    if changes is None:
        if query.printed({"files": [], "diff": ""}):
            return
        not_yet = f"This order is {order.status}: its changes are told at its end."
        say("This order changed nothing." if order.status in FINAL else not_yet)
        return
    files = [file for file in changes.files if path is None or is_at(file, path)]
    if path is not None and not files:
        fail(f"This order changed nothing at {path}: --stat alone lists what it changed.", USAGE)
    text = "" if stat or changes.diff is None else query.reader.orders.artifact(order_id, changes.diff)
    if path is not None:
        text = of_path(text, changes.files, path)
    if not query.printed({"files": files, "diff": text}):
        show_paged(stat_lines(files) if stat or not text else shown_lines(text))


def log(
    query: Query,
    order_id: OrderId,
    record: Annotated[
        str | None,
        typer.Option("--record", metavar="ID|NAME", help="One agent, by its record's id or the name it is shown by."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only what failed, was sent back, or was tried again.")
    ] = False,
) -> None:
    """The steps of an order's agents: tool calls with arguments and results, replies, verdicts, and why what failed.

    Example: mcc orders log @last --failed
    """
    from mcc.view.lines import by_name
    from mcc.view.paging import show_paged
    from mcc.view.steps import INDENT, log_lines, steps_of

    tree = query.reader.orders.record(order_id)
    agents = by_name(tree)
    if record is not None and record not in {*agents, *(agent.id for agent in agents.values())}:
        fail(f"no agent of this order is called {record!r}; there is: {', '.join(agents)}.", USAGE)
    if query.as_json:
        for taken in steps_of(tree, record):
            if taken.failed or not failed:
                print_json({"record_id": taken.record.id, "agent": taken.name, "step": taken.step})
        return
    show_paged(log_lines(tree, record, failed=failed), indent=len(INDENT))

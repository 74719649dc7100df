"""The commands `mcc inbox`, `mcc orders approve` and `mcc orders deny`: what waits for a person, and the answer."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import USAGE, clock, fail, print_table, say
from mcc.cli.server import LAST, SHORTEST, Call

if TYPE_CHECKING:
    from mcc.contracts.approvals import OutlineItem

ItemId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The item, or its order: an id, 4 characters or more of an end of it, @last."),
]
Note = Annotated[str | None, typer.Option(help="Why; kept in the journal.")]


def inbox(
    call: Call, status: Annotated[str, typer.Option(help="pending, approved, denied, void, or all.")] = "pending"
) -> None:
    """What waits for you: outlines of documents, which go on when you approve them.

    Example: mcc inbox
    """
    found = call.client.inbox.list(status=None if status == "all" else status)
    if call.printed({"items": found}):
        return
    rows = [(one.id, one.kind, one.status, clock(one.requested_at), one.order_id, one.document_id) for one in found]
    print_table(("ID", "KIND", "STATUS", "ASKED", "ORDER", "DOCUMENT"), rows, empty="Nothing waits for you.")


def approve(call: Call, item_id: ItemId, note: Note = None) -> None:
    """Let an outline count: its order goes on with the document as it is now, and keeps to its structure.

    Look at it first, and change what you like: mcc documents show, set and run.

    Example: mcc orders approve @last
    """
    item = call.client.inbox.approve(_named(call, item_id).id, note=note)
    if not call.printed(item):
        say(f"approved: order {item.order_id} goes on")


def deny(call: Call, item_id: ItemId, note: Note = None) -> None:
    """Do not let an outline count: its order ends, and the document stays as it is.

    Example: mcc orders deny @last --note "Too many lessons"
    """
    item = call.client.inbox.deny(_named(call, item_id).id, note=note)
    if not call.printed(item):
        say(f"denied: order {item.order_id} ends")


def _named(call: Call, named: str) -> "OutlineItem":
    part = named.strip().lower()
    if part != LAST and len(part) < SHORTEST:
        fail(f"{named!r} names nothing: give an id, at least {SHORTEST} characters of an end of it, or {LAST}.", USAGE)
    items = call.client.inbox.list(status="pending")
    found = [one for one in items if part == LAST or any(_fits(id, part) for id in (one.id, one.order_id))]
    if not found:
        fail("Nothing of this name waits for a decision: mcc inbox lists what does.")
    if len(found) > 1 and part != LAST:
        fail(f"{named} names {len(found)} items: give a longer part, as mcc inbox prints them.", USAGE)
    return max(found, key=lambda one: one.requested_at)


def _fits(id: str, part: str) -> bool:
    return id.startswith(part) or id.endswith(part)

"""The commands `mcc sessions`: conversations and their turns."""

from typing import Annotated

import typer

from mcc.cli.command import clock, listed_id, print_pairs, print_table
from mcc.cli.server import Query, ServiceCall, list_by_default, reading_command, service_command

app = typer.Typer(help="Conversations and their turns.", rich_markup_mode=None)


@reading_command(app, "list")
def list_sessions(
    query: Query,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=200)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
) -> None:
    """Sessions, newest first.

    Example: mcc sessions list --limit 10
    """
    page = query.reader.sessions.list(limit=limit, cursor=cursor)
    if query.printed(page):
        return
    rows = [(listed_id(session.id), clock(session.created_at), session.turns, session.title) for session in page.items]
    print_table(("ID", "CREATED", "TURNS", "TITLE"), rows, empty="No session yet.")


list_by_default(app, list_sessions)


@reading_command(app)
def show(
    query: Query,
    session_id: Annotated[str, typer.Argument(help="Its id, 4 characters or more of an end of it, or @last.")],
) -> None:
    """One session with its turns.

    Example: mcc sessions show @last
    """
    session = query.reader.sessions.get(session_id)
    if query.printed(session):
        return
    print_pairs((("id", session.id), ("title", session.title), ("created", clock(session.created_at))))
    rows = [
        (
            order.session_seq,
            listed_id(order.id),
            f"{order.status}, rolled back" if order.left_out else order.status,
            clock(order.created_at),
            order.prompt[:200],
        )
        for order in session.orders
    ]
    print_table(("TURN", "ORDER", "STATUS", "CREATED", "PROMPT"), rows, empty="No turn yet.")


@service_command(app)
def new(call: ServiceCall, title: Annotated[str, typer.Argument(help="What it is about.")] = "") -> None:
    """Open a session; its id is printed, for `mcc run --session`.

    Example: mcc run --session "$(mcc sessions new 'Release notes')" "Begin with a list of changes"
    """
    session = call.client.sessions.open(title)
    if not call.printed(session):
        print(session.id)

"""The commands `mcc sessions`: conversations and their turns."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcc.cli.command import USAGE, clock, fail, listed_id, print_pairs, print_table, say
from mcc.cli.server import Query, ServiceCall, list_by_default, reading_command, service_command

if TYPE_CHECKING:
    from mcc.contracts.sessions import Session

app = typer.Typer(help="Conversations and their turns.", rich_markup_mode=None)

SessionId = Annotated[str, typer.Argument(help="Its id, 4 characters or more of an end of it, or @last.")]
BACK = "^"
"""Stands before a turn of the session that this one was forked from, as agents read it too."""

DIGITS = 9
EXCERPT_CHARACTERS = 300
SETTABLE = ("title", "agent", "model", "mode", "workspace", "context", "limits")


@reading_command(app, "list")
def list_sessions(
    query: Query,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=200)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Those that are archived instead.")] = False,
    text: Annotated[str | None, typer.Option(help="Only those in whose title this is.")] = None,
) -> None:
    """Sessions, newest first.

    Example: mcc sessions list --text release
    """
    page = query.reader.sessions.list(archived=archived, text=text, limit=limit, cursor=cursor)
    if query.printed(page):
        return
    rows = [
        (listed_id(session.id), clock(session.created_at), session.turns, session.unread or "", session.title)
        for session in page.items
    ]
    print_table(("ID", "CREATED", "TURNS", "UNREAD", "TITLE"), rows, empty="No session yet.")
    if page.next_cursor is not None:
        say(f"There may be more: --cursor {page.next_cursor}")


list_by_default(app, list_sessions)


@reading_command(app)
def show(
    query: Query,
    session_id: SessionId,
    before: Annotated[int | None, typer.Option(help="Only turns before this one.", min=1)] = None,
    limit: Annotated[int, typer.Option(help="How many turns.", min=1, max=200)] = 50,
) -> None:
    """One session with its newest turns, newest first.

    Example: mcc sessions show @last
    """
    session = query.reader.sessions.get(session_id, before=before, limit=limit)
    if query.printed(session):
        return
    print_pairs(_pairs(session))
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
    if session.next_before is not None:
        say(f"There are earlier turns: --before {session.next_before}")


def _pairs(session: "Session") -> Iterable[tuple[str, object]]:
    """What a session is, for people; what it does not have is None."""
    from mcc.view import figures

    limits = None if session.limits is None else session.limits.model_dump(exclude_unset=True)
    forked = session.forked_from
    window = f" of {session.window:,}" if session.window else ""
    return (
        ("id", session.id),
        ("title", session.title),
        ("created", clock(session.created_at)),
        ("turns", f"{session.turns}, {session.unread} of them unread" if session.unread else session.turns),
        ("archived", "yes" if session.archived else None),
        ("forked from", forked and f"turn {forked.turn} of session {forked.session_id}"),
        *((name, getattr(session, name)) for name in ("agent", "model", "mode", "workspace", "context")),
        ("limits", limits and ", ".join(f"{name} {value}" for name, value in limits.items())),
        ("used", figures.spent(session.usage) if session.turns else None),
        ("shown", session.tokens and f"about {session.tokens:,}{window} tokens"),
        ("cached", None if session.cached_share is None else f"{session.cached_share:.0%} of the last request"),
    )


@service_command(app)
def new(
    call: ServiceCall,
    title: Annotated[str, typer.Argument(help="What it is about.")] = "",
    set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="A default of its turns, as `mcc sessions set` takes it; may be repeated."
        ),
    ] = None,
) -> None:
    """Open a session; its id is printed, for `mcc run --session`.

    Example: mcc run --session "$(mcc sessions new 'Release notes')" "Begin with a list of changes"
    """
    _print_made(call, call.client.sessions.open(title, **_fields(set or [])))


@service_command(app, "set")
def set_fields(
    call: ServiceCall,
    session_id: SessionId,
    fields: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE…",
            help=f"{', '.join(SETTABLE[:-1])}, limits.rounds and other limits; nothing after the = unsets one.",
        ),
    ],
) -> None:
    """Set what chat turns of a session get where their orders leave it out, and its title.

    `context` says what later turns are shown of earlier ones: `full`, all that was said, or `answers`, their prompts
    and answers. The first turn fixes it.

    Example: mcc sessions set @last agent=review model=fast limits.cost_usd=0.5
    """
    changed = _fields(fields)
    if isinstance(limits := changed.get("limits"), dict):
        known = call.client.sessions.get(session_id, limit=1).limits
        merged = (known.model_dump(exclude_unset=True) if known is not None else {}) | limits
        changed["limits"] = {name: value for name, value in merged.items() if value is not None} or None
    session = call.client.sessions.set(session_id, **changed)
    if not call.printed(session):
        print_pairs(_pairs(session))


def _fields(pairs: Iterable[str]) -> dict[str, Any]:
    """The fields that KEY=VALUE texts set; None for one without a value. Exits where a text is not of this form."""
    from mcc.cli.order_request import metadata_in

    fields: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        name, dot, limit = key.partition(".")
        if not equals or name not in SETTABLE or (dot and name != "limits"):
            fail(f"{pair!r}: write key=value with one of {', '.join(SETTABLE)}, for example agent=review.", USAGE)
        if dot:
            limits: dict[str, Any] = metadata_in([f"{limit}={value}"]) or {} if limit else {}
            fields.setdefault("limits", {})
            if not isinstance(fields["limits"], dict) or not limits:
                fail(f"{pair!r}: name one limit, for example limits.rounds=20.", USAGE)
            fields["limits"] |= limits if value else {limit: None}
        elif name == "limits" and value:
            fail(f"{pair!r}: name one limit, for example limits.rounds=20; limits= unsets all of them.", USAGE)
        elif name == "workspace" and value:
            from mcc.cli.run import workspace_fields

            fields["workspace"] = workspace_fields(value, None)["workspace"]
        else:
            fields[name] = value or None
    return fields


@service_command(app)
def rename(
    call: ServiceCall, session_id: SessionId, title: Annotated[str, typer.Argument(help="Its new title.")]
) -> None:
    """Give a session another title.

    Example: mcc sessions rename @last "Release notes for 2.0"
    """
    _print_done(call, call.client.sessions.rename(session_id, title), "has another title")


@service_command(app)
def archive(call: ServiceCall, session_id: SessionId) -> None:
    """Leave a session out of lists; everything in it stays, and it can go on.

    Example: mcc sessions archive @last
    """
    _print_done(call, call.client.sessions.archive(session_id), "is archived")


@service_command(app)
def unarchive(call: ServiceCall, session_id: SessionId) -> None:
    """Show an archived session in lists again.

    Example: mcc sessions unarchive 0190c9a2
    """
    _print_done(call, call.client.sessions.unarchive(session_id), "is not archived any more")


@service_command(app)
def delete(
    call: ServiceCall,
    session_id: SessionId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a session with its orders, their journals and records; what runs is cancelled first.

    Example: mcc sessions delete 0190c9a2 --yes
    """
    from mcc.view.output import one_line

    session = call.client.sessions.get(session_id, limit=1)
    if not yes:
        if not sys.stdin.isatty():
            fail("Nobody can be asked here: give --yes to delete it for good.", USAGE)
        title = one_line(session.title, 60)
        typer.confirm(f"Delete session {session.id} ({title}), {session.turns} turns, for good?", abort=True, err=True)
    told = call.client.sessions.delete(session_id)
    if not call.printed(told):
        cancelled = f"; {told.requested} unfinished orders were cancelled" if told.requested else ""
        say(f"session {session.id} is deleted{cancelled}")


@service_command(app)
def export(
    call: ServiceCall,
    session_id: SessionId,
    format: Annotated[Literal["md", "jsonl"], typer.Option(help="md to read, jsonl for programs.")] = "md",
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if left out.")] = None,
) -> None:
    """Write a whole session, oldest turn first. With --json the same as with --format jsonl.

    Example: mcc sessions export @last --format jsonl --out talk.jsonl
    """
    pieces = call.client.sessions.export(session_id, "jsonl" if call.as_json else format)
    if out is not None:
        try:
            with out.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
        except OSError as error:
            fail(f"{out} cannot be written: {error.strerror}.")
        return
    from mcc.view.output import print_pieces

    print_pieces(pieces)


@service_command(app)
def fork(
    call: ServiceCall,
    session_id: SessionId,
    turn: Annotated[int, typer.Option(help="The last turn that the new session begins with.", min=1)],
    title: Annotated[str | None, typer.Option(help="Its title; that of this one if left out.")] = None,
) -> None:
    """Open a session that goes on after a turn of this one; its id is printed, for `mcc run --session`.

    Example: mcc run --session "$(mcc sessions fork @last --turn 3)" "Now the other way"
    """
    _print_made(call, call.client.sessions.fork(session_id, turn, title=title))


@service_command(app)
def compact(call: ServiceCall, session_id: SessionId) -> None:
    """Have what later turns are shown of a session shortened by a summary; nothing waits for it.

    The id of the order that does so is printed; `mcc orders watch` follows it.

    Example: mcc sessions compact @last
    """
    order = call.client.sessions.compact(session_id)
    if not call.printed(order):
        print(order.id)


@service_command(app)
def usage(call: ServiceCall, session_id: SessionId) -> None:
    """What each turn of a session has used, and the orders that compacted the session after it.

    Example: mcc sessions usage @last
    """
    from mcc.view import figures

    turns = call.client.sessions.usage(session_id)
    if call.printed(turns):
        return
    rows = [
        (
            f"{turn.turn} compaction" if turn.compaction else turn.turn,
            listed_id(turn.order_id),
            figures.spent(turn.usage),
        )
        for turn in turns
    ]
    print_table(("TURN", "ORDER", "USED"), rows, empty="No turn yet.")


@service_command(app)
def search(
    call: ServiceCall,
    session_id: SessionId,
    words: Annotated[list[str], typer.Argument(metavar="WORDS…", help="Words that stand there; one is enough.")],
    turn: Annotated[str | None, typer.Option(metavar="[^]TURN", help="Only in this turn.")] = None,
    limit: Annotated[int, typer.Option(help="How many places.", min=1, max=50)] = 10,
) -> None:
    """Find by words what was said in a session: prompts, replies, calls and their results, of rolled back turns too.

    A word also finds longer ones that begin like it. The best match comes first. A ^ before a turn, for each fork,
    says that it is one of the session that this one was forked from; --turn takes it as well.

    Example: mcc sessions search @last database port
    """
    number, back = (None, None) if turn is None else _turn_and_forks(turn)
    matches = call.client.sessions.search(session_id, " ".join(words), turn=number, back=back, limit=limit)
    if call.printed(matches):
        return
    rows = [
        (
            f"{BACK * item.back}{item.turn}/{item.seq}",
            clock(item.at),
            item.agent or "person",
            f"{item.kind}, rolled back" if item.left_out else item.kind,
            item.excerpt,
        )
        for item in matches.items
    ]
    # The words may stand at the end of an excerpt.
    columns = ("ENTRY", "AT", "WHO", "KIND", "TEXT")
    print_table(columns, rows, empty="None of these words was said.", characters=EXCERPT_CHARACTERS, is_whole=True)
    for why, turns in (
        ("not searched yet, as there was no time; search again", matches.turns_not_searched),
        ("pruned, so that only prompt and answer are left", matches.turns_pruned),
    ):
        if turns:
            listed = ", ".join(f"{BACK * turn.back}{turn.turn}" for turn in turns[:20])
            say(f"turns {listed}{' and others' if len(turns) > 20 else ''}: {why}")


def _turn_and_forks(named: str) -> tuple[int, int | None]:
    """The number of a turn as it is listed, and how many forks back it is; None: the fewest."""
    number = named.lstrip(BACK)
    if not (number.isascii() and number.isdecimal() and len(number) <= DIGITS and int(number)):
        fail(f"--turn {named}: give a number, 3, or ^3 for a turn of the session that this one was forked from.", USAGE)
    return int(number), named.count(BACK) or None


@service_command(app)
def read(
    call: ServiceCall,
    session_id: SessionId,
    turn: Annotated[
        int | None, typer.Option(help="The last turn that was read; the newest if left out.", min=1)
    ] = None,
) -> None:
    """Mark the turns of a session as read.

    Example: mcc sessions read @last
    """
    last = turn if turn is not None else call.client.sessions.get(session_id, limit=1).turns
    if last:
        call.client.sessions.read(session_id, last)
    if not call.printed({"session_id": session_id, "turn": last}):
        say(f"read up to turn {last}" if last else "there is no turn to read yet")


def _print_made(call: ServiceCall, session: "Session") -> None:
    """The id alone goes to stdout, so that another command can take it."""
    if not call.printed(session):
        print(session.id)


def _print_done(call: ServiceCall, session: "Session", what: str) -> None:
    if not call.printed(session):
        say(f"session {session.id} {what}")

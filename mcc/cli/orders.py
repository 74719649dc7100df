"""This room is for `mcc orders`: looking at orders, following them, and speaking to them."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.options import AsJson, DataDir, Url, say
from mcc.cli.printing import clock, print_json, print_markdown, print_pairs, print_table
from mcc.cli.receipts import answer
from mcc.cli.server import served

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import WorkOrder

app = typer.Typer(help="Work orders.", no_args_is_help=True, rich_markup_mode=None)

OrderId = Annotated[str, typer.Argument(help="The order's id.")]
Record = Annotated[
    str | None,
    typer.Option("--record", help="One agent of the tree, by its record's id; the whole order if left out."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is applied (exit 0) or refused (exit 1).")]
Reason = Annotated[str | None, typer.Option(help="Why; kept in the journal.")]


@app.command("list")
def list_orders(
    status: Annotated[str | None, typer.Option(help="Only those queued, running, waiting, succeeded …")] = None,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    label: Annotated[str | None, typer.Option(help="Only those with this label.")] = None,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=200)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Orders, newest first.

    Example: mcc orders list --status running
    """
    with served(url, data_dir) as client:
        page = client.orders.list(status=status, session_id=session, label=label, limit=limit, cursor=cursor)
    if as_json:
        print_json(page)
        return
    rows = [
        (one.id, one.status, clock(one.created_at), one.agent, one.drone or "", one.prompt[:200]) for one in page.items
    ]
    print_table(("ID", "STATUS", "CREATED", "AGENT", "DRONE", "PROMPT"), rows, empty="No order.")


@app.command()
def show(order_id: OrderId, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """One order as it is now, with its answer when there is one.

    Example: mcc orders show 0190c9a2-0000-7000-8000-000000000000
    """
    with served(url, data_dir) as client:
        order = client.orders.get(order_id)
        resting = None if as_json else _resting(client, order)
    if as_json:
        print_json(order)
        return
    print_pairs(_facts(order, resting))
    if order.answer:
        print()
        print_markdown(order.answer)


@app.command()
def watch(
    order_id: OrderId,
    after: Annotated[int, typer.Option(help="Begin after this entry.", min=0)] = 0,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Follow an order until it ends. Ctrl-C stops following, not the order.

    Example: mcc orders watch 0190c9a2-0000-7000-8000-000000000000
    """
    from mcc.cli.following import conclude, detached, follow

    with served(url, data_dir) as client:
        try:
            follow(client, order_id, as_json, after)
        except KeyboardInterrupt:
            detached(order_id)
            return
        raise typer.Exit(conclude(client.orders.get(order_id), as_json))


@app.command()
def record(order_id: OrderId, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """The chat record: who was asked what, what it did, what it answered. Always JSON.

    Example: mcc orders record 0190c9a2-0000-7000-8000-000000000000 | jq .subagent_history
    """
    with served(url, data_dir) as client:
        print_json(client.orders.record(order_id))


@app.command()
def cancel(
    order_id: OrderId,
    record_id: Record = None,
    reason: Reason = None,
    wait: Wait = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Stop an order, or one agent of it with all below it.

    Example: mcc orders cancel 0190c9a2-0000-7000-8000-000000000000 --reason "wrong branch"
    """
    with served(url, data_dir) as client:
        receipt = client.orders.cancel(order_id, record_id=record_id, reason=reason)
        raise typer.Exit(answer(client, order_id, "cancel", receipt, wait=wait, as_json=as_json))


@app.command()
def pause(
    order_id: OrderId,
    record_id: Record = None,
    reason: Reason = None,
    wait: Wait = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let an order, or one agent with all below it, rest after the step it is at.

    Example: mcc orders pause 0190c9a2-0000-7000-8000-000000000000
    """
    with served(url, data_dir) as client:
        receipt = client.orders.pause(order_id, record_id=record_id, reason=reason)
        raise typer.Exit(answer(client, order_id, "pause", receipt, wait=wait, as_json=as_json))


@app.command()
def resume(
    order_id: OrderId,
    record_id: Record = None,
    reason: Reason = None,
    wait: Wait = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let what is paused, or waits for its provider, go on.

    Example: mcc orders resume 0190c9a2-0000-7000-8000-000000000000
    """
    with served(url, data_dir) as client:
        receipt = client.orders.resume(order_id, record_id=record_id, reason=reason)
        raise typer.Exit(answer(client, order_id, "resume", receipt, wait=wait, as_json=as_json))


@app.command()
def steer(
    order_id: OrderId,
    message: Annotated[str | None, typer.Argument(help="What the agent shall hear before its next step.")] = None,
    record_id: Record = None,
    redirect: Annotated[bool, typer.Option("--redirect", help="The message is its task from now on.")] = False,
    remove_tools: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-tool", metavar="NAME", help="A tool or group that it and all below it lose; repeatable."
        ),
    ] = None,
    reason: Reason = None,
    wait: Wait = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say something to the master of a running order, or to one agent; or take tools away.

    Example: mcc orders steer 0190c9a2-0000-7000-8000-000000000000 "Leave the tests out" --remove-tool workspace_write
    """
    with served(url, data_dir) as client:
        receipt = client.orders.steer(
            order_id,
            message,
            record_id=record_id,
            redirect=redirect,
            remove_tools=remove_tools or (),
            reason=reason,
        )
        raise typer.Exit(answer(client, order_id, "steer", receipt, wait=wait, as_json=as_json))


@app.command()
def retry(order_id: OrderId, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Place an order that has ended once more, as the next turn of its session.

    Example: mcc orders retry 0190c9a2-0000-7000-8000-000000000000
    """
    with served(url, data_dir) as client:
        _tell_placed(client.orders.retry(order_id), as_json)


@app.command()
def fork(
    order_id: OrderId,
    prompt: Annotated[
        str | None, typer.Argument(help="What its master hears next; it just goes on if left out.")
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(help="The last entry that it takes over, from 1 on: the `seq` of a step, say; all if left out."),
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new order, in a session of its own, with what another one had done by some entry.

    Example: mcc orders fork 0190c9a2-0000-7000-8000-000000000000 --after 17 "Look at the tests instead"
    """
    with served(url, data_dir) as client:
        last = after if after is not None else client.orders.get(order_id).last_seq
        _tell_placed(client.orders.fork(order_id, after=last, prompt=prompt), as_json)


@app.command()
def rollback(order_id: OrderId, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Leave a turn that has ended out of the context of its session's later turns; it stays in history.

    Example: mcc orders rollback 0190c9a2-0000-7000-8000-000000000000
    """
    with served(url, data_dir) as client:
        order = client.orders.roll_back(order_id)
    if as_json:
        print_json(order)
    else:
        print(f"turn {order.session_seq} of session {order.session_id} is left out of its context")


def _tell_placed(order: "WorkOrder", as_json: bool) -> None:
    """The new order; its id alone on stdout, so that another command can take it."""
    if as_json:
        print_json(order)
        return
    say(f"placed as turn {order.session_seq} of session {order.session_id}")
    if order.origin is not None and order.origin.note:
        say(order.origin.note)
    print(order.id)


def _made_from(order: "WorkOrder") -> str | None:
    origin = order.origin
    if origin is None:
        return None
    return f"{origin.kind} of {origin.order_id}" + (f" after entry {origin.after}" if origin.after is not None else "")


def _resting(client: "MCC", order: "WorkOrder") -> str | None:
    """Who is paused in an order that a drone holds."""
    from mcc.client import NotFound
    from mcc.contracts.status import OrderStatus
    from mcc.view.waiting import paused_in

    if order.status is not OrderStatus.RUNNING:
        return None
    try:
        return paused_in(client.orders.record(order.id))
    except NotFound:
        return None


def _facts(order: "WorkOrder", resting: str | None = None) -> list[tuple[str, object]]:
    from mcc.contracts.status import OrderStatus
    from mcc.view import figures
    from mcc.view.waiting import what_to_do

    why = order.reason or resting
    status = f"{order.status} ({why})" if why else str(order.status)
    reason = "paused" if resting else order.reason if order.status is OrderStatus.WAITING else None
    return [
        ("id", order.id),
        ("status", status),
        ("detail", order.detail),
        ("go on", what_to_do(order.id, reason)),
        ("session", f"{order.session_id}, turn {order.session_seq}"),
        ("agent", order.agent),
        ("model", order.model),
        ("workspace", order.workspace),
        ("drone", order.drone),
        ("attempt", order.attempt),
        ("position", order.queue_position),
        ("blocked by", order.blocked_by),
        ("made from", _made_from(order)),
        ("rolled back", "yes: not in its session's context" if order.left_out else None),
        ("created", clock(order.created_at)),
        ("started", clock(order.started_at) or None),
        ("finished", clock(order.finished_at) or None),
        ("spent", figures.spent(order.usage)),
        ("prompt", order.prompt),
    ]

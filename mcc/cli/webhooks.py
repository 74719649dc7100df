"""The command `mcc webhooks`: who hears of orders, and what became of telling them."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mcc.cli.command import USAGE, clock, fail, listed_id, print_table, say
from mcc.cli.server import ServiceCall, list_by_default, service_command
from mcc.view.output import brief

if TYPE_CHECKING:
    from datetime import datetime

    from mcc.contracts.webhooks import Webhook

app = typer.Typer(help="Addresses that hear of orders, and what was sent to them.", rich_markup_mode=None)

Named = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its name or its id; `orders` is built in.")]
Some = list[str] | None


@service_command(app, "list")
def list_webhooks(call: ServiceCall) -> None:
    """All endpoints. `orders` is built in: it signs what goes to the `webhook_url` of orders.

    Example: mcc webhooks list
    """
    listed = call.client.webhooks.list()
    if call.printed({"items": listed}):
        return
    rows = [
        (
            each.name,
            each.url or "(of each order)",
            ",".join(each.types) or "everything",
            _state(each),
            listed_id(each.id),
        )
        for each in listed
    ]
    print_table(("NAME", "URL", "HEARS OF", "STATE", "ID"), rows, empty="None: mcc webhooks add NAME URL")


list_by_default(app, list_webhooks)


@service_command(app)
def add(
    call: ServiceCall,
    name: Annotated[str, typer.Argument(help="What it is called.")],
    address: Annotated[str, typer.Argument(metavar="URL", help="Where messages go: https://…")],
    types: Annotated[Some, typer.Option("--type", help="What it hears of, as order.finished; repeatable.")] = None,
    kind: Annotated[Some, typer.Option(help="Only orders of this kind, as chat; repeatable.")] = None,
    label: Annotated[Some, typer.Option(help="Only orders with this label; repeatable.")] = None,
    agent: Annotated[Some, typer.Option(help="Only orders of this agent; repeatable.")] = None,
    principal: Annotated[Some, typer.Option(help="Only orders of this principal; repeatable.")] = None,
    door: Annotated[Some, typer.Option(help="Only orders that came this way, as page or cli; repeatable.")] = None,
    session: Annotated[Some, typer.Option(help="Only orders of this session; repeatable.")] = None,
) -> None:
    """Register an endpoint and print the secret that its messages are signed by, as Standard Webhooks say. It is told
    this once.

    Example: mcc webhooks add ci https://ci.example.com/hook --type order.finished
    """
    asked = {"kinds": kind, "labels": label, "agents": agent, "principals": principal, "doors": door}
    filters = {name: values for name, values in (*asked.items(), ("sessions", session)) if values}
    made = call.client.webhooks.add(name, address, types=types or (), filters=filters)
    if not call.printed(made):
        say(f"added: {made.name}. Its secret is told this once:")
        print(made.secret)


@service_command(app)
def show(call: ServiceCall, webhook: Named) -> None:
    """One endpoint: what it hears of, of which orders, since when its secret counts.

    Example: mcc webhooks show ci
    """
    shown = _webhook(call, webhook)
    if call.printed(shown):
        return
    filters = {name: ", ".join(values) for name, values in shown.filters.model_dump(mode="json").items() if values}
    lines = {
        "name": shown.name,
        "id": shown.id,
        "url": shown.url or "of each order",
        "hears of": ", ".join(shown.types) or "everything",
        **{f"only {name}": values for name, values in filters.items()},
        "state": _state(shown),
        "secret of": _when(shown.secret_at) or "nobody was told it: mcc webhooks rotate",
        "former secret": f"signs until {_when(shown.former_until)}" if shown.former_until else "",
        "made by": shown.principal,
    }
    for name, value in lines.items():
        if value:
            print(f"{name:14} {brief(value, 300)}")


@service_command(app)
def test(call: ServiceCall, webhook: Named) -> None:
    """Send it a message of type webhook.test. mcc webhooks deliveries shows what became of it.

    Example: mcc webhooks test ci
    """
    tested = _webhook(call, webhook)
    sent = call.client.webhooks.test(tested.id)
    if not call.printed(sent):
        say(f"sending {sent.id} to {tested.name}: mcc webhooks deliveries --endpoint {tested.name}")


@service_command(app)
def rotate(
    call: ServiceCall,
    webhook: Named,
    keep_seconds: Annotated[
        int, typer.Option(min=0, max=604_800, help="For so long the present secret signs too.")
    ] = 86_400,
) -> None:
    """Give it a new secret and print it. It is told this once. The present one signs too for a while, so that its
    receiver can change in peace.

    Example: mcc webhooks rotate ci
    """
    made = call.client.webhooks.rotate(_webhook(call, webhook).id, keep_seconds=keep_seconds)
    if not call.printed(made):
        until = f"; the former one signs until {_when(made.former_until)}" if made.former_until else ""
        say(f"rotated: {made.name}{until}. The new secret is told this once:")
        print(made.secret)


@service_command(app)
def off(call: ServiceCall, webhook: Named) -> None:
    """Send it nothing, and note nothing for it, until it is turned on.

    Example: mcc webhooks off ci
    """
    _turned(call, webhook, off=True)


@service_command(app)
def on(call: ServiceCall, webhook: Named) -> None:
    """Let it hear of what happens from now on; what waited for it goes on.

    Example: mcc webhooks on ci
    """
    _turned(call, webhook, off=False)


@service_command(app)
def remove(call: ServiceCall, webhook: Named) -> None:
    """Remove it. What waits for it is dead.

    Example: mcc webhooks remove ci
    """
    gone = _webhook(call, webhook)
    call.client.webhooks.remove(gone.id)
    if not call.printed({"id": gone.id, "removed": True}):
        say(f"removed: {gone.name}")


@service_command(app)
def deliveries(
    call: ServiceCall,
    state: Annotated[Literal["pending", "delivered", "dead"] | None, typer.Option(help="Only those.")] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(help="Only those to this endpoint, by its name or id, or to a table, as forges.hub."),
    ] = None,
    order_id: Annotated[
        str | None, typer.Option("--order", help="Only those of this order; part of its id is enough.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 50,
) -> None:
    """What is to be delivered, was delivered within a week, or died within 30 days; the newest first. Replies are
    among them: their endpoint is the table of mcc.toml that they go to, such as forges.hub.

    Example: mcc webhooks deliveries --state dead
    """
    from mcc.contracts.replies import is_reply

    names = {each.id: each.name for each in call.client.webhooks.list()}
    wanted = None if endpoint is None else _endpoint_id(call, endpoint)
    items = call.client.webhooks.deliveries(state=state, endpoint=wanted, order_id=order_id, limit=limit).items
    if call.printed({"items": items}):
        return
    names |= {each.endpoint_id: each.endpoint_id for each in items if is_reply(each.endpoint_id)}
    rows = [
        (
            each.id,
            names.get(each.endpoint_id, listed_id(each.endpoint_id)),
            each.type,
            listed_id(each.order_id),
            f"{each.state} {_when(each.due_at)}".strip(),
            str(each.tries),
            brief(each.last_error or "", 200),
        )
        for each in items
    ]
    print_table(("ID", "ENDPOINT", "TYPE", "ORDER", "STATE", "TRIES", "LAST ERROR"), rows, empty="Nothing yet.")


@service_command(app)
def replay(
    call: ServiceCall,
    delivery: Annotated[str | None, typer.Argument(help="Its id; without one, all that is dead.")] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(help="All that is dead of this endpoint, by name or id, or of a table, as forges.hub."),
    ] = None,
    hours: Annotated[float | None, typer.Option(min=0, help="All that died within so many hours.")] = None,
) -> None:
    """Try anew what is dead, with the same ids.

    Example: mcc webhooks replay --endpoint ci --hours 24
    """
    if delivery is not None:
        if endpoint is not None or hours is not None:
            fail("Give either the id of a delivery, or --endpoint and --hours.", USAGE)
        again = call.client.webhooks.replay(delivery)
        if not call.printed(again):
            say(f"tried again: {again.id}")
        return
    from datetime import timedelta

    from mcc.contracts.shape import now

    wanted = None if endpoint is None else _endpoint_id(call, endpoint)
    since = None if hours is None else now() - timedelta(hours=hours)
    count = call.client.webhooks.replay_all(endpoint=wanted, since=since)
    if not call.printed({"count": count}):
        say(f"tried again: {count}")


def _endpoint_id(call: ServiceCall, named: str) -> str:
    """The id of the endpoint of this name or id. Exits where there is none."""
    from mcc.contracts.replies import is_reply

    return named if is_reply(named) else _webhook(call, named).id


def _webhook(call: ServiceCall, named: str) -> "Webhook":
    """The endpoint of this name or id. Exits where there is none."""
    listed = call.client.webhooks.list()
    for each in listed:
        if named in (each.name, each.id):
            return each
    fail(f"No webhook is called {brief(named, 60)!r}: mcc webhooks list shows names and ids.", USAGE)


def _turned(call: ServiceCall, named: str, *, off: bool) -> None:
    changed = call.client.webhooks.change(_webhook(call, named).id, off=off)
    if not call.printed(changed):
        say(f"{changed.name} is {_state(changed)}")


def _state(webhook: "Webhook") -> str:
    return "on" if webhook.off_at is None else f"off since {clock(webhook.off_at)}: {webhook.off_why}"


def _when(at: "datetime | None") -> str:
    return "" if at is None else clock(at)

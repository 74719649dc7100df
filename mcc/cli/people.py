"""The commands `mcc people` and `mcc tokens`, `mcc me` and `mcc audit`: who may do what, and who did it."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from mcc.cli.command import USAGE, clock, fail, listed_id, print_table, say
from mcc.cli.server import ServiceCall, is_part_of_an_id, list_by_default, service_command
from mcc.view.output import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from mcc.contracts.answers import Listing
    from mcc.contracts.budgets import DayBudget
    from mcc.contracts.people import ApiToken, Person, PrincipalName

T = TypeVar("T")

people = typer.Typer(help="People of this service, and their roles.", rich_markup_mode=None)
tokens = typer.Typer(help="Tokens, by which programs and command lines call.", rich_markup_mode=None)

RoleName = Literal["viewer", "member", "operator", "admin"]
Named = Annotated[str, typer.Argument(metavar="PERSON", help="Their name, e-mail address, or part of their id.")]
Role = Annotated[
    RoleName,
    typer.Argument(help="viewer reads; member also works on own orders; operator on all; admin sees to people."),
]


@service_command(people, "list")
def list_people(call: ServiceCall) -> None:
    """All people, with their roles.

    Example: mcc people list
    """
    listed = list(_every(call.client.people.list))
    if call.printed({"items": listed}):
        return
    rows = [
        (
            listed_id(person.id),
            person.name,
            person.role,
            "disabled" if person.disabled else "",
            _when(person.last_seen_at),
            person.email or "",
        )
        for person in listed
    ]
    columns = ("ID", "NAME", "ROLE", "STATE", "LAST SEEN", "E-MAIL")
    print_table(columns, rows, empty="Nobody yet: mcc people add NAME --role member")


list_by_default(people, list_people)


@service_command(people)
def add(
    call: ServiceCall,
    name: Annotated[str, typer.Argument(help="What they are called.")],
    role: Annotated[RoleName, typer.Option(help="What they may do; mcc people role changes it.")] = "member",
    email: Annotated[str | None, typer.Option(help="Shown beside the name; nothing is sent to it.")] = None,
) -> None:
    """Add a person, and print the link that signs them in: once, within 24 hours. Give it to nobody else.

    Example: mcc people add "Ann Lee" --role member
    """
    person = call.client.people.add(name, role, email=email)
    link = call.client.people.link(person.id)
    if not call.printed({"person": person, "link": link}):
        say(f"added: {brief(person.name, 60)}, {person.role}. This signs them in, once within 24 hours:")
        print(link.url)


@service_command(people)
def role(call: ServiceCall, person: Named, role: Role) -> None:
    """Give a person another role, which counts from now on.

    Example: mcc people role ann@example.com operator
    """
    changed = call.client.people.change(_person(call, person).id, role=role)
    if not call.printed(changed):
        say(f"{brief(changed.name, 60)} is {changed.role}")


@service_command(people)
def disable(call: ServiceCall, person: Named) -> None:
    """Sign a person out everywhere; their tokens count no more until they are enabled again.

    Example: mcc people disable "Ann Lee"
    """
    changed = call.client.people.change(_person(call, person).id, disabled=True)
    if not call.printed(changed):
        say(f"{brief(changed.name, 60)} is disabled and signed out")


@service_command(people)
def enable(call: ServiceCall, person: Named) -> None:
    """Let a person in again: their tokens count, and a new link signs them in.

    Example: mcc people enable "Ann Lee"
    """
    changed = call.client.people.change(_person(call, person).id, disabled=False)
    if not call.printed(changed):
        say(f"{brief(changed.name, 60)} is enabled; for a browser: mcc people link")


Dollars = Annotated[float | None, typer.Option(min=0, help="US dollars a day.")]
DayOrders = Annotated[int | None, typer.Option(min=0, help="Orders a day.")]
OrderDollars = Annotated[
    float | None, typer.Option(min=0.000001, help="US dollars that an order reserves without a limit of its own.")
]


@service_command(people)
def budget(
    call: ServiceCall,
    person: Named,
    usd: Dollars = None,
    orders: DayOrders = None,
    order_usd: OrderDollars = None,
    unlimited: Annotated[bool, typer.Option(help="Any amount, whatever everybody else may spend.")] = False,
    usual: Annotated[bool, typer.Option(help="As everybody: [budgets] of the configuration.")] = False,
) -> None:
    """Say what a person may spend a day. What they spent today counts in it; without options, show it.

    Example: mcc people budget "Ann Lee" --usd 20 --orders 100
    """
    from mcc.contracts.budgets import DayBudget

    wanted = DayBudget(usd=usd, orders=orders, order_usd=order_usd)
    has_amounts = wanted != DayBudget()
    if has_amounts + unlimited + usual > 1:
        fail("Give amounts, or --unlimited, or --usual.", USAGE)
    if order_usd is not None and usd is None:
        fail("--order-usd is a part of --usd: give both.", USAGE)
    changed = _person(call, person)
    if has_amounts or unlimited or usual:
        changed = call.client.people.set_budget(changed.id, None if usual else wanted)
    if not call.printed(changed):
        say(f"{brief(changed.name, 60)}: {_spendable(changed.budget)}")


def _spendable(budget: "DayBudget | None") -> str:
    if budget is None:
        return "as everybody a day"
    money = None if budget.usd is None else f"{budget.usd:.10g} US dollars"
    orders = None if budget.orders is None else f"{budget.orders:,} {'order' if budget.orders == 1 else 'orders'}"
    part = None if budget.order_usd is None else f"{budget.order_usd:.10g} US dollars for each order"
    return ", ".join(filter(None, (money, orders, part))) + " a day" if money or orders else "any amount a day"


@service_command(people)
def link(call: ServiceCall, person: Named) -> None:
    """Print a link that signs a browser in as this person, once within 24 hours.

    Example: mcc people link "Ann Lee"
    """
    made = call.client.people.link(_person(call, person).id)
    if not call.printed(made):
        print(made.url)


@service_command(people)
def remove(call: ServiceCall, person: Named) -> None:
    """Remove a person for good: sign-ins and tokens end, name and e-mail are blanked, what they did stays readable.

    Example: mcc people remove "Ann Lee"
    """
    gone = _person(call, person)
    call.client.people.remove(gone.id)
    if not call.printed({"id": gone.id, "removed": True}):
        say(f"removed: {brief(gone.name, 60)}")


@service_command(tokens, "list")
def list_tokens(
    call: ServiceCall, every: Annotated[bool, typer.Option("--all", help="Everybody's; for admins.")] = False
) -> None:
    """Your tokens, the newest first. Of the tokens themselves only the beginnings are known.

    Example: mcc tokens list
    """
    listed = list(_every(partial(call.client.tokens.list, every=every)))
    if call.printed({"items": listed}):
        return
    names = _names(call, (each for token in listed for each in (token.principal, token.created_by)))
    rows = [
        (
            listed_id(token.id),
            token.name,
            *_who(names[token.principal]),
            # Whoever made a service token may be gone: it counts all the same, and an admin may want to revoke it.
            _who(names[token.created_by])[0] if token.kind == "service" else "",
            f"{token.prefix}…",
            ",".join(token.scopes),
            _state(token),
            _when(token.last_used_at),
        )
        for token in listed
    ]
    columns = ("ID", "NAME", "OF", "IS", "MADE BY", "TOKEN", "SCOPES", "ENDS", "LAST USED")
    print_table(columns, rows, empty="No tokens: mcc tokens create NAME")


list_by_default(tokens, list_tokens)


@service_command(tokens)
def create(
    call: ServiceCall,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="read, write, operate, admin or metrics; repeat it for several. Else all that you may, but admin."
        ),
    ] = None,
    service: Annotated[
        RoleName | None, typer.Option(help="A service token, which is nobody's, with this role; for admins.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=0, max=365, help="For how long; 0, until it is revoked, for services alone.")
    ] = 90,
    usd: Dollars = None,
    orders: DayOrders = None,
    order_usd: OrderDollars = None,
) -> None:
    """Make a token and print it. It is told this once: put it where your program reads MCC_TOKEN. Only the operator's
    token makes others; everybody else makes theirs in the page or by the API, signed in.

    Example: mcc tokens create deploy --service member --scope read --scope write
    """
    from mcc.contracts.budgets import DayBudget

    wanted = DayBudget(usd=usd, orders=orders, order_usd=order_usd)
    made = call.client.tokens.make(
        name,
        scope or _scopes(call, service),
        kind="personal" if service is None else "service",
        role=service,
        expires_in_days=days or None,
        budget=None if wanted == DayBudget() else wanted,
    )
    if not call.printed(made):
        say(f"made: {brief(made.name, 60)}, ends {_state(made)}. It is told this once:")
        print(made.token)


@service_command(tokens)
def revoke(call: ServiceCall, token: Annotated[str, typer.Argument(help="Its id, or part of it.")]) -> None:
    """Revoke a token: from now on it counts for nothing.

    Example: mcc tokens revoke 0197-a1b2
    """
    every = "admin" in call.client.signins.me().scopes
    listed = list(_every(partial(call.client.tokens.list, every=every)))
    matching = [each for each in listed if each.id == token or (is_part_of_an_id(token) and _is_part(token, each.id))]
    if len(matching) != 1:
        fail(f"{len(matching)} tokens have an id like {brief(token, 60)!r}: see mcc tokens list.", USAGE)
    call.client.tokens.revoke(matching[0].id)
    if not call.printed({"id": matching[0].id, "revoked": True}):
        say(f"revoked: {brief(matching[0].name, 60)}")


def me(call: ServiceCall) -> None:
    """Who you are here, and what you may do.

    Example: mcc me
    """
    who = call.client.signins.me()
    if call.printed(who):
        return
    by, ends = "the operator's token", None
    if who.token is not None:
        by, ends = f"the token {brief(who.token.name, 60)!r}", who.token.expires_at
    left = "any amount"
    if (budget := who.budget) is not None:
        usd, orders = budget.usd, budget.orders
        money = None if usd is None else f"{usd.limit - usd.spent - usd.reserved:.10g} of {usd.limit:.10g} US dollars"
        number = None if orders is None else f"{max(0, orders.limit - orders.used):,} of {orders.limit:,} orders"
        left = f"{', '.join(filter(None, (money, number)))}, until {clock(budget.resets_at)}"
    print_table(
        ("NAME", "ROLE", "MAY", "BY", "UNTIL", "PRINCIPAL", "LEFT TODAY"),
        [(who.name, who.role, ",".join(who.scopes), by, _when(ends), who.principal, left)],
        empty="",
    )


def audit(
    call: ServiceCall,
    who: Annotated[str | None, typer.Option(help="Only what this principal or person did.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind, such as token.made.")] = None,
    order_id: Annotated[
        str | None, typer.Option("--order", help="Only about this order; part of its id is enough.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 50,
) -> None:
    """What was done and stands in no order, newest first: sign-ins, people, tokens, decisions, deletions. What others
    did is for operators.

    Example: mcc audit --kind person.added
    """
    if who is not None and ":" not in who and who not in ("operator", "doctor", "retention"):
        who = _person(call, who).principal
    notes = call.client.audit.list(who=who, kind=kind, order_id=order_id, limit=limit).items
    if call.printed({"items": notes}):
        return
    names = _names(call, (note.principal for note in notes))
    rows = [
        (
            clock(note.at),
            *_who(names[note.principal]),
            note.kind,
            listed_id(note.order_id) if note.order_id else "",
            brief(" ".join(f"{name}={value}" for name, value in note.detail.items()), 200),
        )
        for note in notes
    ]
    print_table(("AT", "WHO", "IS", "WHAT", "ORDER", "DETAIL"), rows, empty="Nothing yet.")


def _every(page: "Callable[..., Listing[T]]") -> "Iterator[T]":
    """All items of a list that answers a page at a time."""
    cursor = None
    while True:
        answer = page(cursor=cursor, limit=200)
        yield from answer.items
        if (cursor := answer.next_cursor) is None:
            return


def _names(call: ServiceCall, principals: "Iterable[str]") -> "dict[str, PrincipalName]":
    wanted = list(dict.fromkeys(principals))
    hundreds = (wanted[start : start + 200] for start in range(0, len(wanted), 200))
    return {each.principal: each for some in hundreds for each in call.client.people.names(some)}


def _who(named: "PrincipalName") -> tuple[str, str]:
    """What the principal is called, and what it is: a person can be called `operator` too."""
    return f"{named.name or named.principal}{' (gone)' if named.gone else ''}", named.kind


def _person(call: ServiceCall, named: str) -> "Person":
    """The person of this name, e-mail address or part of an id. Exits where nobody is, or several are."""
    listed = list(_every(call.client.people.list))
    matching = [each for each in listed if named in (each.name, each.email, each.id, each.principal)]
    if not matching and is_part_of_an_id(named):
        matching = [each for each in listed if _is_part(named, each.id)]
    if len(matching) != 1:
        count = len(matching) or "no"
        fail(f"{count} people are called {brief(named, 60)!r}: mcc people list shows names and ids.", USAGE)
    return matching[0]


def _is_part(part: str, whole_id: str) -> bool:
    return whole_id.startswith(part) or whole_id.endswith(part)


def _scopes(call: ServiceCall, service: str | None) -> list[str]:
    """What a token may do where nothing is said: all that its maker, or the service's role, may, but admin."""
    from mcc.contracts.callers import SCOPES_OF, AccessScope, Role

    may = call.client.signins.me().scopes if service is None else SCOPES_OF[Role(service)]
    return sorted(scope for scope in may if scope is not AccessScope.ADMIN)


def _state(token: "ApiToken") -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "never" if token.expires_at is None else clock(token.expires_at)


def _when(at: "datetime | None") -> str:
    return "" if at is None else clock(at)

"""The commands `mcc triggers`: what from outside becomes an order, what was delivered, and trying a table."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from mcc.cli.command import (
    USAGE,
    AsJson,
    DataDir,
    clock,
    fail,
    listed_id,
    plain_errors,
    print_pairs,
    print_table,
)
from mcc.cli.server import ServiceCall, list_by_default, service_command
from mcc.view.output import brief, print_json

app = typer.Typer(help="Triggers: what from outside becomes an order.", rich_markup_mode=None)

Named = Annotated[str, typer.Argument(metavar="TRIGGER", help="Its name in mcc.toml: [triggers.NAME].")]


@service_command(app, "list")
def list_triggers(call: ServiceCall) -> None:
    """The triggers of the service, with where their deliveries are sent, where answers go, and the newest
    delivery.

    Example: mcc triggers list
    """
    listed = call.client.triggers.list()
    if call.printed({"items": listed}):
        return
    rows = [
        (
            each.name,
            each.scheme,
            each.url,
            brief(" ".join(f"{key}={value}" for key, value in (each.reply or {}).items()), 60),
            f"{each.last.verdict} {clock(each.last.at)}" if each.last else "",
        )
        for each in listed
    ]
    columns = ("NAME", "SCHEME", "URL", "REPLIES TO", "LAST")
    print_table(columns, rows, empty="None: add a table [triggers.NAME] to mcc.toml")


list_by_default(app, list_triggers)


@service_command(app)
def deliveries(
    call: ServiceCall, name: Named, limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20
) -> None:
    """What was delivered to a trigger, newest first, and what became of it.

    Example: mcc triggers deliveries issues
    """
    page = call.client.triggers.deliveries(name, limit=limit)
    if call.printed(page):
        return
    rows = [
        (clock(each.at), each.verdict, listed_id(each.order_id) if each.order_id else "", brief(each.why, 60), each.key)
        for each in page.items
    ]
    print_table(("AT", "VERDICT", "ORDER", "WHY", "KEY"), rows, empty="None yet.")


@app.command("try")
def try_table(
    name: Named,
    headers: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="A file with a line 'Name: value' each.")],
    payload: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="A file with the body as it was sent.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say what the trigger of this mcc.toml would make of a delivery. It places nothing, and looks at no signature.

    Example: mcc triggers try issues --headers headers.txt --payload payload.json
    """
    from mcc.contracts.shape import to_json
    from mcc.contracts.similar import did_you_mean
    from mcc.settings import load
    from mcc.triggers.checking import WrongTable, check_table
    from mcc.triggers.reading import QuestionOfDelivery, answered

    with plain_errors():
        settings = load(data_dir=data_dir)
    table = settings.triggers.get(name)
    if table is None:
        fail(f"mcc.toml has no table [triggers.{name}]{did_you_mean(name, settings.triggers)}.", USAGE)
    try:
        check_table(table, settings.reply_places)
    except WrongTable as wrong:
        fail(f"triggers.{name}.{wrong.place}: {wrong}.", USAGE)
    body = payload.read_bytes()
    sent = read_headers(headers.read_text("utf-8", "replace"))
    question = QuestionOfDelivery(
        trigger=name, table=table, headers=sent, body=body.decode("utf-8", "replace"), at=time.time(), seed=name
    )
    answer = answered(question)
    if as_json:
        print_json(answer)
        return
    pairs = {
        "outcome": answer.outcome,
        "why": answer.why,
        "event": answer.event,
        "id": answer.id or "",
        "session": answer.session or "",
        "reply": to_json(answer.reply).decode() if answer.reply else "",
        "order": to_json(answer.order).decode() if answer.order else "",
    }
    print_pairs([(label, value) for label, value in pairs.items() if value])


def read_headers(text: str) -> Mapping[str, str]:
    """Headers by their names in lower case, of lines as curl shows them. Exits where a line is none."""
    sent: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header, colon, value = line.partition(":")
        if line.strip() and not colon:
            fail(f"Line {number} of the headers is none: write Name: value.", USAGE)
        if colon:
            sent[header.strip().lower()] = value.strip()
    return sent

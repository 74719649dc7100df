"""The commands `mcc doctor` and `mcc db`: examine and repair an installation, and upgrade its database's schema."""

from contextlib import suppress
from typing import Annotated

import typer

from mcc.cli.command import DONE, FAILED, AsJson, DataDir, plain_errors, print_json, print_wrapped
from mcc.view.output import one_line, window, wrapped

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "broken": ("✗", "red"), "repaired": ("+", "cyan")}


def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what can be repaired by rule, note it in the audit, then look.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="How long to wait for what does not answer.", min=0.1)] = 3.0,
    stuck_after: Annotated[
        float | None,
        typer.Option(
            help="An order that is silent for so many seconds is stuck; what its own limits allow if left out.", min=1
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Look at database, Redis, Celery, drones, orders, sandbox, keys, prices, clock and disk.

    Compares what database, Celery and processes say of the same orders. Each line is ok, warning or broken, with what
    to do; the exit code is 1 when something is broken.

    Example: mcc doctor --json | jq '.findings[] | select(.state != "ok")'
    """
    import os

    from mcc.doctor.examination import examine
    from mcc.settings import BadSettings, load, redactor_of

    with plain_errors():
        settings = load(data_dir=data_dir)
        # Where family.json cannot be trusted this fails; the examination then reports why.
        with suppress(BadSettings):
            settings = load(data_dir=data_dir, join_family=True)
        examination = examine(settings, os.environ, seconds, stuck_seconds=stuck_after, fix=fix)
    redacted = redactor_of(settings).value
    if as_json:
        print_json(redacted(examination.as_dict()))
    else:
        if examination.unrepaired:
            print_finding("broken", "repair", f"nothing was repaired: {examination.unrepaired}", "")
        elif fix and not examination.repairs:
            print_finding("ok", "repair", "there was nothing to repair by rule", "")
        for repair in examination.repairs:
            print_finding(
                "repaired" if repair.done else "broken",
                "repair",
                redacted(f"order {repair.order_id}: {repair.detail}" if repair.order_id else repair.detail),
                "",
            )
        for finding in examination.findings:
            print_finding(finding.state, finding.what, redacted(finding.detail), redacted(finding.advice))
    raise typer.Exit(DONE if examination.ok else FAILED)


def print_finding(state: str, what: str, detail: str, advice: str) -> None:
    from rich.console import Console
    from rich.text import Text

    mark, style = MARKS[state]
    heading = f"{mark} {state:<8} {what:<12} "
    sentence = one_line(detail, 500) + (f"  → {one_line(advice, 500)}" if advice else "")
    line = Text("\n".join(wrapped(heading + sentence, window(), len(heading))))
    line.stylize(style, 0, heading.index(what))
    line.stylize("bold", heading.index(what), len(heading))
    Console(highlight=False, soft_wrap=True).print(line)


app = typer.Typer(help="The database's schema.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """The database's schema."""


@app.command()
def upgrade(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Bring the database to the schema of this version; nothing happens when it has it.

    Example: MCC_DATABASE_URL=postgresql://migrate@db/mcc mcc db upgrade
    """
    from mcc.local.data_dir import prepare_directory, upgrade_database
    from mcc.settings import load

    with plain_errors():
        settings = load(data_dir=data_dir)
        if settings.has_own_database:
            prepare_directory(settings.data_dir)
        done = upgrade_database(settings.database)
    sentence = done or "The database has the schema of this version already."
    print_json({"changed": done is not None, "detail": sentence}) if as_json else print_wrapped(sentence)

"""The command `mcc models`: what live drones can ask, and whether it answers."""

from collections.abc import Sequence
from typing import Annotated

import typer

from mcc.cli.command import FAILED, USAGE, fail, print_json, print_table, say
from mcc.cli.server import Call


def models(
    call: Call,
    names: Annotated[list[str] | None, typer.Argument(help="With --check: try these, not all of them.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Try each in one small call, which costs a little.")] = False,
) -> None:
    """Models that the live drones can ask, and what is wrong with the others.

    With --check a drone, which alone has the keys, asks each of them once: key, window, tools, streaming, thinking,
    caching, and what to do where it does not work. Exit code 1 when one of them has a problem.

    Example: mcc models --check
    """
    if check:
        _check(call, names or [])
        return
    if names:
        fail("names of models go with --check.", USAGE)
    found = call.client.models.list()
    if call.as_json:
        print_json({"items": found})
        return
    rows = [(one.name, one.problem or "ok", ",".join(one.drones), one.description) for one in found]
    print_table(("NAME", "STATE", "DRONES", "DESCRIPTION"), rows, empty="No model: is there a drone? mcc drones says.")


def _check(call: Call, names: Sequence[str]) -> None:
    say("A drone asks each model once; that may take a minute.")
    found = call.client.models.check(names)
    if call.as_json:
        print_json({"items": found})
    else:
        from mcc.view.model_checks import print_checks

        print_checks(found)
    if any(one.problem is not None for one in found):
        raise typer.Exit(FAILED)

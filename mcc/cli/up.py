"""This room is for `mcc up`: the family in the foreground, until it is told to stop."""

from typing import Annotated

import typer

from mcc.cli.options import AsJson, DataDir, plain_errors, say, say_configuration


def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 if left out.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 8420 if left out, 0 for any free one.", min=0, max=65535)
    ] = None,
    drones: Annotated[int, typer.Option(help="Drone processes.", min=0, max=100)] = 1,
    slots: Annotated[int | None, typer.Option(help="Orders at a time and drone; 200 if left out.", min=1)] = None,
    data_dir: DataDir = None,
    flower: Annotated[bool, typer.Option("--flower/--no-flower", help="With or without Flower.")] = True,
    as_json: AsJson = False,
) -> None:
    """Start everything on this machine and stay: API, drones, Flower, Redis.

    Example: mcc up --drones 2 --data-dir ~/mcc-data
    """
    import asyncio

    from mcc.cli.staying import stay
    from mcc.local.family import Family
    from mcc.local.programs import Staff
    from mcc.settings import load

    with plain_errors():
        settings = load(host=host, port=port, data_dir=data_dir)
        say_configuration(settings)
        family = Family(settings, Staff(drones, slots, flower), tell=say)
        asyncio.run(stay(family, as_json))

"""The commands `mcc up` and `mcc serve`: a family, or the API alone, in the foreground."""

import json
import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import AsJson, DataDir, plain_errors, say, say_configuration

if TYPE_CHECKING:
    from mcc.local.family import Family


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

    from mcc.local.family import Family
    from mcc.local.programs import Staff
    from mcc.settings import load

    with plain_errors():
        settings = load(host=host, port=port, data_dir=data_dir)
        say_configuration(settings)
        family = Family(settings, Staff(drones, slots, flower), notify=say)
        asyncio.run(_stay(family, as_json))


async def _stay(family: "Family", as_json: bool) -> None:
    """Keep the family until a signal; a second one ends everything at once."""
    import asyncio
    import signal

    running = asyncio.create_task(_run(family, as_json))
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        if len(signals) == 1:
            running.cancel()
            say("Stopping; once more ends everything at once.")
        else:
            family.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        await running
    except asyncio.CancelledError:
        if not signals:
            raise
        say("Stopped.")


async def _run(family: "Family", as_json: bool) -> None:
    import asyncio

    say("Starting …")
    async with family:
        print(json.dumps(_addresses(family)) if as_json else _greeting(family), flush=True)
        await asyncio.Event().wait()


def _addresses(family: "Family") -> dict[str, object]:
    from mcc.settings import token_file

    data_dir = family.settings.data_dir
    return {
        "url": family.url,
        "api_url": f"{family.url}/api/v1",
        "flower_url": family.flower_url,
        "pid": os.getpid(),
        "data_dir": str(data_dir),
        "token_file": None if family.settings.token else str(token_file(family.settings)),
        "family_file": str(family.settings.family_file),
        "logs": str(family.logs),
    }


def _greeting(family: "Family") -> str:
    from mcc.local.redis import ConfiguredRedis, RedisBinary
    from mcc.redaction import FLOWER_FILE

    addresses = _addresses(family)
    match family.redis:
        case ConfiguredRedis():
            redis = "the configured one"
        case RedisBinary(path=path):
            redis = f"embedded, on a private socket ({path})"
        case _:
            redis = "none"
    flower = f"{family.flower_url}  (login in {family.settings.data_dir / FLOWER_FILE})" if family.flower_url else "off"
    token = addresses["token_file"] or "the configured one (MCC_TOKEN)"
    return "\n".join(
        (
            f"API     {addresses['api_url']}  (described in {family.url}/api/docs)",
            f"Flower  {flower}",
            f"Token   {token}",
            f"Data    {addresses['data_dir']}",
            f"Logs    {addresses['logs']}",
            f"Redis   {redis}",
            f"Drones  {family.staff.drones}",
            'Try: mcc run "Explain this repository"    Stop with Ctrl-C.',
        )
    )


if TYPE_CHECKING:
    from mcc.settings import Settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 if left out.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 8420 if left out.", min=0, max=65535)] = None,
    data_dir: DataDir = None,
    descriptor: Annotated[int | None, typer.Option("--socket", hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Serve the API alone. Redis, database and drones run elsewhere; `mcc up` starts all of them.

    Example: MCC_DATABASE_URL=postgresql://mcc@db/mcc MCC_REDIS_URL=redis://redis:6379 mcc serve --port 8420
    """
    from mcc.local.data_dir import make_private
    from mcc.settings import load

    with plain_errors():
        settings = load(host=host, port=port, data_dir=data_dir)
        say_configuration(settings)
        if settings.data_dir.is_dir():
            for sentence in make_private(settings.data_dir):
                say(sentence)
        from mcc.api.serve import serve as serve_api

        listening = None if descriptor is None else socket.socket(fileno=descriptor)
        if as_json:
            listening = _announced(settings)
        raise typer.Exit(serve_api(settings, listening=listening))


def _announced(settings: "Settings") -> socket.socket | None:
    """The socket to serve on, after its address was printed as JSON; None where `serve` says why there is none."""
    import json
    import os

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError:
        return None
    host, port = listening.getsockname()[:2]
    print(json.dumps({"host": host, "port": port, "pid": os.getpid()}), flush=True)
    return listening

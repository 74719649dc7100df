"""The command `mcc serve`: the API in this process, nothing else."""

import socket
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.options import AsJson, DataDir, plain_errors, say, say_configuration

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

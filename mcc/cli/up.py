"""The commands `mcc up` and `mcc serve`: all processes, here or in the background, or the API alone."""

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.cli.command import USAGE, AsJson, DataDir, fail, plain_errors, say, say_configuration
from mcc.loading import gc_frozen_after

if TYPE_CHECKING:
    from mcc.local.family import Family
    from mcc.settings import ServiceSettings

MOST_DRONES = 100


def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 if left out.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 8420 if left out, 0 for any free one.", min=0, max=65535)
    ] = None,
    drones: Annotated[str, typer.Option(help="Drone processes, or `auto`: one a core.")] = "1",
    slots: Annotated[int | None, typer.Option(help="Orders at a time and drone; 200 if left out.", min=1)] = None,
    workspace: Annotated[
        list[Path] | None,
        typer.Option(help="Let orders work in this directory too, besides the configured or current one; repeatable."),
    ] = None,
    data_dir: DataDir = None,
    flower: Annotated[bool, typer.Option("--flower/--no-flower", help="With or without Flower.")] = True,
    detach: Annotated[bool, typer.Option(help="Return once it is ready; `mcc down` stops it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start everything on this machine and stay: API, drones, Flower, Redis.

    Example: mcc up --detach --workspace ~/project
    """
    import asyncio

    from mcc.local.family import Family
    from mcc.local.programs import Staff
    from mcc.settings import load

    workspaces, count = _directories(workspace or []), _drones(drones)
    with plain_errors():
        settings = load(host=host, port=port, data_dir=data_dir)
        if detach:
            options = {"--host": host, "--port": port, "--drones": drones, "--slots": slots, "--data-dir": data_dir}
            words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
            words += [word for directory in workspaces for word in ("--workspace", str(directory))]
            _detach([*words, "--flower" if flower else "--no-flower"], settings, as_json)
            return
        say_configuration(settings)
        family = Family(settings, Staff(count, slots, flower, workspaces), notify=say)
        asyncio.run(_stay(family, as_json))


def _drones(wanted: str) -> int:
    from mcc.local.programs import drones_for
    from mcc.resources import cores_here

    if wanted == "auto":
        return drones_for(cores_here())
    if not wanted.isdecimal() or int(wanted) > MOST_DRONES:
        fail(f"--drones {wanted}: say auto, or a number from 0 to {MOST_DRONES}.", USAGE)
    return int(wanted)


def _directories(paths: list[Path]) -> tuple[Path, ...]:
    for path in paths:
        if not path.expanduser().is_dir():
            fail(f"--workspace {path}: there is no such directory.", USAGE)
    return tuple(path.expanduser().absolute() for path in paths)


def _detach(words: list[str], settings: "ServiceSettings", as_json: bool) -> None:
    from mcc.settings import operator_token

    say("Starting …")
    try:
        facts, log, code = _start_detached(words, settings.data_dir)
    except KeyboardInterrupt:
        fail("Stopped before it was ready.")
    for line in log.splitlines():
        if not line.startswith("Starting"):
            say(line)
    if not facts:
        raise typer.Exit(code or 1)
    if as_json:
        print(facts.rstrip(), flush=True)
        return
    running = json.loads(facts)
    print(_greeting(running, "Stop with: mcc down"), flush=True)
    _show_link(running["url"], operator_token(settings))


def _start_detached(words: list[str], data_dir: Path) -> tuple[str, str, int]:
    """Start `mcc up --json` with these arguments in a session of its own; it stays when this process ends.

    Answers the line of JSON that it prints once it is ready, "" where it ended instead; what it logged until then; and
    its exit code, 0 while it runs. Interrupting the start stops it. Raises `UnusableDirectory`, and `FamilyRunning`;
    then the log of the running family is not touched.
    """
    import signal
    import subprocess
    import sys

    from mcc.local.child import LogFile
    from mcc.local.data_dir import prepare_directory
    from mcc.local.presence import refuse_second

    refuse_second(data_dir)
    prepare_directory(data_dir)
    prepare_directory(data_dir / "logs")
    log = LogFile(data_dir / "logs" / "up.log")
    log.rotate()
    output = log.open()
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mcc.cli.main", "up", "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,
        )
    finally:
        os.close(output)
    assert process.stdout is not None
    try:
        with process.stdout:
            facts = process.stdout.readline()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    return facts, log.tail(100), 0 if facts else process.wait()


async def _stay(family: "Family", as_json: bool) -> None:
    """Run the family until a signal stops it; a second signal kills everything at once."""
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
        facts = _facts(family)
        print(json.dumps(facts) if as_json else _greeting(facts, "Stop with Ctrl-C."), flush=True)
        if not as_json:
            await asyncio.to_thread(_show_link, family.url, family.token)
        await asyncio.Event().wait()


def _show_link(url: str, token: str) -> None:
    """Print a link that signs a browser in; on a terminal only, as whoever reads a log must not find one in it."""
    import sys

    from mcc.client import MCC
    from mcc.client.errors import ClientError

    if not sys.stdout.isatty():
        return
    try:
        with MCC(url, token=token) as client:
            link = client.signins.link().url
    except ClientError as error:
        say(f"No link to the page was made ({error}); mcc open makes one.")
        return
    print(f"The page, for one browser within 10 minutes (mcc open makes another link):\n{link}", flush=True)


def _facts(family: "Family") -> dict[str, Any]:
    from mcc.local.redis import ConfiguredRedis
    from mcc.resources import cores_here
    from mcc.settings import token_file

    settings = family.settings
    return {
        "url": family.url,
        "api_url": f"{family.url}/api/v1",
        "docs_url": f"{family.url}/api/docs",
        "flower_url": family.flower_url,
        "pid": os.getpid(),
        "data_dir": str(settings.data_dir),
        "token_file": None if settings.token else str(token_file(settings)),
        "family_file": str(settings.family_file),
        "logs": str(family.logs),
        "redis": "the configured one" if isinstance(family.redis, ConfiguredRedis) else "embedded, on a private socket",
        "drones": family.staff.drones,
        "cores": cores_here(),
        "workspace_roots": list(family.roots),
    }


def _greeting(family: dict[str, Any], stop: str) -> str:
    from mcc.redaction import FLOWER_FILE

    rows = [
        ("API", family["api_url"]),
        ("Docs", family["docs_url"]),
        ("Flower", f"{family['flower_url']}  (in a moment)" if family["flower_url"] else "off"),
    ]
    if family["flower_url"]:
        rows.append(("  login", _short(f"{family['data_dir']}/{FLOWER_FILE}")))
    rows += [
        ("Token", _short(family["token_file"]) if family["token_file"] else "the configured one (MCC_TOKEN)"),
        ("Data", _short(family["data_dir"])),
        ("Logs", f"{_short(family['logs'])}  (mcc logs)"),
        ("Redis", family["redis"]),
        ("Drones", _drones_on(family["drones"], family["cores"])),
    ]
    rows += [("Works in" if number == 0 else "", _short(root)) for number, root in enumerate(family["workspace_roots"])]
    lines = [f"{name:<9} {value}" for name, value in rows]
    return "\n".join((*lines, f'Try: mcc run "Explain this repository"    {stop}'))


def _drones_on(drones: int, cores: float) -> str:
    """The number of drones and cores; where cores stay idle, the option that uses them."""
    from mcc.local.programs import drones_for

    more = "; --drones auto starts one for each core" if drones < drones_for(cores) else ""
    return f"{drones}  ({cores:g} {'core' if cores == 1 else 'cores'}{more})"


def _short(path: str) -> str:
    """`path` with ~ for the home directory."""
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if home != "/" and path.startswith(f"{home}/") else path


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
        with gc_frozen_after():
            from mcc.api.serve import serve as serve_api

        listening = None if descriptor is None else socket.socket(fileno=descriptor)
        if as_json:
            listening = _announced(settings)
        raise typer.Exit(serve_api(settings, listening=listening))


def _announced(settings: "ServiceSettings") -> socket.socket | None:
    """Listen, and print the address as JSON. Answers the socket; None where that fails: the API's own attempt to listen
    then says why."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError:
        return None
    host, port = listening.getsockname()[:2]
    print(json.dumps({"host": host, "port": port, "pid": os.getpid()}), flush=True)
    return listening

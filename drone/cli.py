"""The command `drone`: `work` runs a worker; `run` and `models` need neither broker nor database."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.addresses import without_password
from mcc.loading import gc_frozen_after
from mcc.options import OrderOptions, VerifyOptions, taking_options
from mcc.view.output import brief, print_json, say, write_anything

if TYPE_CHECKING:
    from drone.settings import Settings

DONE, FAILED, USAGE = 0, 1, 2

app = typer.Typer(
    name="drone",
    help="A drone does work orders.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from mcc import __version__

        print(f"drone {__version__}")
        raise typer.Exit


@app.callback()
def _drone(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    """A drone does work orders."""


@app.command()
def work(
    queues: Annotated[str | None, typer.Option(help="Queues to serve, separated by commas.")] = None,
    slots: Annotated[int | None, typer.Option(help="Orders at a time.", min=1)] = None,
    name: Annotated[str | None, typer.Option(help="Name to be shown; host and pid if left out.")] = None,
) -> None:
    """Serve work orders until it is told to stop.

    Beside a service that `mcc up` started it uses the same Redis, database and directories.

    Example: drone work --queues default,slow --slots 50
    """
    with gc_frozen_after():
        from drone.access import plan_of
        from drone.worker.app import work as serve

    settings = _settings(join_family=True, queues=queues, slots=slots, name=name)
    addresses = ", ".join(map(without_password, (settings.redis_url, settings.database_url)))
    say(f"Serves {', '.join(settings.queues)}: {addresses}")
    for problem in plan_of(settings).problems:
        say(f"[sandbox.secrets] {problem}")
    raise typer.Exit(serve(settings))


@app.command()
@taking_options
def run(
    prompt: Annotated[str, typer.Argument(help="What to do.")],
    options: OrderOptions,
    verify: VerifyOptions,
    workspace: Annotated[Path | None, typer.Option(help="Directory to work in; the current one if left out.")] = None,
    agent: Annotated[str, typer.Option(help="Agent to ask.")] = "master",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the answer alone, or why none.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines on stdout: every entry, then the order; with --quiet the order.")
    ] = False,
) -> None:
    """Do one turn right here: no broker, no database, nothing kept.

    On a terminal it asks there for approvals and answers. Without one, or with --json or --quiet, nobody is asked, and
    a call that needs approval is denied. Its first call that may write waits while an order, or another `drone run`,
    writes in the workspace on this machine, and says for whom.

    Example: drone run "Explain this repository" --limit rounds=20
    """
    from drone.local_run import order_from, run_here
    from mcc.contracts.drones import AS_ROOT, AS_ROOT_ADVICE
    from mcc.view.screens import Shown

    directory = (workspace or Path()).resolve()
    try:
        order = order_from(prompt, directory, agent, fields={**options.order(), **verify.order()})
    except ValueError as error:
        say(f"drone run: {error}")
        raise typer.Exit(USAGE) from error
    settings = _settings(workspace_roots=(directory,))
    if os.geteuid() == 0:
        say(f"drone run: {AS_ROOT}; {AS_ROOT_ADVICE}.")
    done = asyncio.run(run_here(settings, order, Shown.of(as_json=as_json, quiet=quiet)))
    raise typer.Exit(DONE if done else FAILED)


@app.command()
def models(
    names: Annotated[list[str] | None, typer.Argument(help="With --check: try these, not all of them.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Try each in one small call, which costs a little.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout.")] = False,
) -> None:
    """Models that a drone with this configuration can ask; with --check, whether each of them answers.

    Example: drone models --check fast openai/gpt-6.1-terra
    """
    from drone.local_run import check_here, list_here

    if names and not check:
        say("drone models: names of models go with --check.")
        raise typer.Exit(USAGE)
    settings = _settings()
    good = asyncio.run(check_here(settings, names or [], as_json=as_json)) if check else list_here(settings, as_json)
    raise typer.Exit(DONE if good else FAILED)


@app.command()
def login(server: Annotated[str, typer.Argument(help="The NAME of its table [mcp.NAME], which says oauth.")]) -> None:
    """Log in to an MCP server once, with a browser on this machine, for all drones of the database.

    Example: drone login tracker
    """
    from drone.worker.mcp_state import log_in

    settings = _settings(join_family=True)
    config = settings.mcp.get(server)
    if config is None or config.oauth is None:
        have = ", ".join(name for name, known in settings.mcp.items() if known.oauth) or "none"
        say(f"drone login: {server!r} is no MCP server with oauth in mcc.toml; there is {have}.")
        raise typer.Exit(USAGE)
    tested = asyncio.run(log_in(settings, server, config, say))
    say(tested.problem or f"Logged in: {server} offers {tested.tools} tools.")
    raise typer.Exit(FAILED if tested.problem else DONE)


@app.command(hidden=True)
def check() -> None:
    """Say what is wrong with the configuration, if anything is; nothing else happens."""
    from drone.settings import load
    from mcc.configuration.settings import BadSettings

    try:
        load()
    except BadSettings as problem:
        say(str(problem))
        raise typer.Exit(USAGE) from problem


@app.command()
def walls() -> None:
    """Try the sandbox with this configuration, and say as JSON which of its walls stand.

    Example: drone walls
    """
    from drone.tools.catalog import Toolbox
    from mcc.contracts.drones import AS_ROOT, AS_ROOT_ADVICE

    settings = _settings()
    toolbox = Toolbox.found(settings.prompts_dir, sandboxing=settings.sandbox)
    state = asyncio.run(toolbox.sandbox())
    print_json(state)
    if state.as_root:
        say(f"drone walls: {AS_ROOT}; {AS_ROOT_ADVICE}.")


def _settings(**given: Any) -> "Settings":
    from drone.settings import load
    from mcc.configuration.settings import BadSettings

    try:
        settings = load(**given)
    except BadSettings as problem:
        say(f"drone: {problem}")
        raise typer.Exit(USAGE) from problem
    if summary := settings.configuration.summary:
        say(brief(summary, 2_000))
    return settings


def main() -> None:
    write_anything()
    app()


if __name__ == "__main__":
    main()

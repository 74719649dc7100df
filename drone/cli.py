"""The command `drone`: `work` runs a worker; `run` and `models` do without broker and database."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.view.clean import clean, one_line

if TYPE_CHECKING:
    from drone.settings import Settings

DONE, FAILED, USAGE = 0, 1, 2

app = typer.Typer(
    name="drone", help="A drone does work orders.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.command()
def work(
    queues: Annotated[str | None, typer.Option(help="Queues to serve, separated by commas.")] = None,
    slots: Annotated[int | None, typer.Option(help="Orders at a time.", min=1)] = None,
    name: Annotated[str | None, typer.Option(help="Name to be shown; host and pid if left out.")] = None,
) -> None:
    """Serve work orders until it is told to stop.

    Example: drone work --queues default,slow --slots 50
    """
    from drone.worker.app import work as serve

    raise typer.Exit(serve(_settings(queues=queues, slots=slots, name=name)))


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to do.")],
    workspace: Annotated[Path | None, typer.Option(help="Directory to work in; the current one if left out.")] = None,
    agent: Annotated[str, typer.Option(help="Agent to ask.")] = "master",
    model: Annotated[str | None, typer.Option(help="Alias or provider/model.")] = None,
    limit: Annotated[list[str] | None, typer.Option(help="key=value, for example rounds=10; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The journal on stdout, one entry a line.")] = False,
) -> None:
    """Do one turn right here: no broker, no database, nothing kept.

    Example: drone run "Explain this repository" --limit rounds=20
    """
    from drone.local_run import order_from, run_here

    directory = (workspace or Path()).resolve()
    try:
        order = order_from(prompt, directory, agent, model, limit or [])
    except ValueError as error:
        _say(f"drone run: {error}")
        raise typer.Exit(USAGE) from error
    settings = _settings(workspace_roots=(directory,))
    done = asyncio.run(run_here(settings, order, as_json=as_json))
    raise typer.Exit(DONE if done else FAILED)


@app.command()
def models(
    names: Annotated[list[str] | None, typer.Argument(help="With --check: try these, not all of them.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Try each in one small call, which costs a little.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout.")] = False,
) -> None:
    """Models that a drone with the configuration of here can ask; with --check, whether each of them answers.

    Example: drone models --check fast openai/gpt-6.1-terra
    """
    from drone.local_models import check_here, list_here

    if names and not check:
        _say("drone models: names of models go with --check.")
        raise typer.Exit(USAGE)
    settings = _settings()
    good = asyncio.run(check_here(settings, names or [], as_json=as_json)) if check else list_here(settings, as_json)
    raise typer.Exit(DONE if good else FAILED)


def _settings(**given: Any) -> "Settings":
    from drone.settings import load
    from mcc.configuration.settings import BadSettings

    try:
        settings = load(**given)
    except BadSettings as problem:
        _say(f"drone: {problem}")
        raise typer.Exit(USAGE) from problem
    if summary := settings.configuration.summary:
        _say(one_line(summary, 2_000))
    return settings


def _say(sentence: str) -> None:
    print(clean(sentence), file=sys.stderr, flush=True)


def main() -> None:
    app()


if __name__ == "__main__":
    main()

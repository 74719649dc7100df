"""The commands `mcc config`: the settings in force with their sources, and trust in a directory's mcc.toml."""

from pathlib import Path
from typing import Annotated

import typer

from mcc.cli.command import USAGE, AsJson, DataDir, fail, plain_errors, print_json, say

app = typer.Typer(help="The configuration.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """The configuration."""


@app.command()
def show(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Every setting of the service as it counts now, passwords and tokens masked, and the files that it comes from.

    Where `mcc up` runs on the data directory, its settings are shown, except those that are set otherwise here.

    Example: MCC_PORT=9000 mcc config show
    """
    from mcc.local.presence import Presence, find_family
    from mcc.settings import load
    from mcc.view.output import exact_line

    with plain_errors():
        settings = load(data_dir=data_dir, join_family=True)
        family = find_family(settings.data_dir)
    files = settings.configuration
    passed_over = (*files.passed_over, *filter(None, (settings.passed_over,)))
    running = f"{family.url} (pid {family.pid})" if isinstance(family, Presence) else ""
    shown = {"config_file": str(files.own or ""), "trusted_file": str(files.trusted or ""), "running": running}
    if as_json:
        print_json({**shown, "passed_over": passed_over, **settings.shown()}, indented=True)
        return
    pairs = [*shown.items(), *(("passed_over", place) for place in passed_over), *settings.shown().items()]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        print(exact_line(f"{name:<{width}}  {value or '-'}"))


@app.command()
def trust(
    path: Annotated[Path, typer.Argument(help="An mcc.toml, or the directory in which it lies.")],
    forget: Annotated[bool, typer.Option("--forget", help="Trust it no longer.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let the mcc.toml of a directory count when something is started in that directory.

    It is laid over your own file and may set [defaults], [roles] and, of [models.ALIAS], what a model is called; never
    an address, a key, a token or a directory. Look at it first. Trust holds for this path and this content: give it
    again after every change.

    Example: mcc config trust ./mcc.toml
    """
    from mcc.configuration.file import KIND, NAME, ConfigProblem, content_of, key_of, laid_over, parsed
    from mcc.configuration.trust import TrustProblem, digest_of
    from mcc.settings import trust_store

    file = key_of(path / NAME if path.is_dir() else path)
    if file.name != NAME:
        fail(f"{file} is not called {NAME}, so it would never be read.", USAGE)
    store = trust_store()
    try:
        if forget:
            store.forget(KIND, [file])
            left: tuple[str, ...] = ()
        else:
            content = content_of(file)
            _, left = laid_over({}, parsed(file, content))
            store.keep(KIND, {file: digest_of(content)})
    except (ConfigProblem, TrustProblem) as problem:
        fail(str(problem))
    except OSError as problem:
        fail(f"{file} cannot be read: {problem.strerror or problem}.")
    if as_json:
        print_json({"path": str(file), "trusted": not forget, "passed_over": left}, indented=True)
        return
    say(f"{file} is trusted no longer." if forget else f"{file} is trusted as it is now.")
    if left:
        say(f"It also sets {', '.join(left)}: only your own mcc.toml may, so that is passed over.")

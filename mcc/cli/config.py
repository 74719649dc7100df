"""This room is for `mcc config`: what counts here, and where it was said."""

import json
import os
from pathlib import Path

import typer

from mcc.cli.options import AsJson, DataDir, plain_errors

app = typer.Typer(help="The configuration.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """The configuration."""


@app.command()
def show(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Every setting of the service as it counts now, passwords and tokens masked.

    Example: MCC_PORT=9000 mcc config show
    """
    from mcc.settings import config_file, load
    from mcc.view.clean import clean

    with plain_errors():
        settings = load(data_dir=data_dir)
        file = config_file(os.environ, Path.cwd(), settings.data_dir)
    shown = {"config_file": str(file) if file else "", **settings.shown()}
    if as_json:
        print(json.dumps(shown, indent=1))
        return
    width = max(map(len, shown))
    for name, value in shown.items():
        print(f"{name:<{width}}  {clean(value) or '-'}")

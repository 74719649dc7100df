"""The command `mcc db upgrade`: the database's schema."""

import json

import typer

from mcc.cli.command import AsJson, DataDir, plain_errors

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
        done = upgrade_database(settings.database_url)
    sentence = done or "The database has the schema of this version already."
    print(json.dumps({"changed": done is not None, "detail": sentence}) if as_json else sentence)

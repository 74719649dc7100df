"""The commands `mcc blueprints`: list and show blueprints, and check a blueprint's file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from mcc.cli.command import (
    FAILED,
    USAGE,
    AsJson,
    DataDir,
    Url,
    fail,
    plain_errors,
    print_json,
    print_pairs,
    print_table,
    print_wrapped,
    say,
)
from mcc.cli.server import exit_on_client_errors, find_server
from mcc.view.output import exact_line

if TYPE_CHECKING:
    from mcc.contracts.documents import BlueprintDetail, BlueprintSummary
    from mcc.documents.blueprint import Blueprint
    from mcc.documents.reading import BlueprintError
    from mcc.settings import ServiceSettings

app = typer.Typer(help="Blueprints: what documents are made of.", no_args_is_help=True, rich_markup_mode=None)


File = Annotated[Path, typer.Argument(help="A blueprint's file, YAML or JSON.")]
Name = Annotated[str, typer.Argument(help="The blueprint's name, or name:DIGEST12.")]


@app.command()
def check(file: File, as_json: AsJson = False) -> None:
    """Read a blueprint and say all that is wrong with it, with its lines. Needs no service.

    Example: mcc blueprints check course.yaml
    """
    from mcc.documents.reading import BlueprintError

    try:
        blueprint = load_blueprint(file)
    except BlueprintError as error:
        print_mistakes(error, as_json)
        raise typer.Exit(FAILED) from None
    from mcc.api.blueprints import kept

    made = kept(blueprint)
    if as_json:
        print_json(made)
        return
    count = len(made.components)
    parts = f"{count} component{'' if count == 1 else 's'}"
    print_wrapped(exact_line(f"{file}: {made.name}, {parts}, {made.digest[:19]}: all is well"))


@app.command("list")
def list_blueprints(url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Blueprints that ship, and your own in ~/.config/mcc/blueprints; those of the service where one runs.

    Example: mcc blueprints list
    """
    with open_blueprints(url, data_dir) as (blueprints, _):
        listed = blueprints.list()
    if as_json:
        print_json({"items": listed})
        return
    rows = [
        (blueprint.name, blueprint.version, blueprint.origin, ", ".join(blueprint.components), blueprint.description)
        for blueprint in listed
    ]
    print_table(("NAME", "VERSION", "ORIGIN", "COMPONENTS", "DESCRIPTION"), rows, empty="No blueprint.")


@app.command()
def show(name: Name, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """One blueprint: its components with their fields, rules and children.

    Example: mcc blueprints show course
    """
    with open_blueprints(url, data_dir) as (blueprints, _):
        blueprint = blueprints.get(name)
    if as_json:
        print_json(blueprint)
        return
    from mcc.contracts.blueprints import BlueprintSpec
    from mcc.view.blueprints import lines_of

    print_pairs(
        (
            ("name", blueprint.name),
            ("version", blueprint.version),
            ("description", blueprint.description or None),
            ("origin", blueprint.origin),
            ("digest", blueprint.digest),
        )
    )
    for line in lines_of(BlueprintSpec.model_validate(blueprint.content)):
        print(line)


def load_blueprint(file: Path) -> "Blueprint":
    """The blueprint in a file. Raises `BlueprintError`; exits where there is no such file."""
    from mcc.documents.blueprint import Blueprint

    if not file.is_file():
        fail(f"{file} is no file.", USAGE)
    return Blueprint.load(file)


def print_mistakes(error: "BlueprintError", as_json: bool) -> None:
    """Print all mistakes in a blueprint, a line each; or as JSON the problem details that the service would answer."""
    if as_json:
        from mcc.api.problems import of_blueprint

        print_json(of_blueprint(error).model_dump(exclude_none=True))
        return
    print_wrapped(str(error))


class KnownBlueprints(Protocol):
    """The blueprints of a service, or of this machine."""

    def list(self) -> "Sequence[BlueprintSummary]": ...

    def get(self, name: str) -> "BlueprintDetail": ...


@contextmanager
def open_blueprints(url: str | None, data_dir: Path | None) -> Iterator[tuple[KnownBlueprints, bool]]:
    """The service's blueprints and True; where none runs and no URL is given, this machine's and False."""
    from mcc.settings import load

    with plain_errors():
        settings = load(data_dir=data_dir)
        server = find_server(settings, url)
    if server is None:
        yield LocalBlueprints(settings), False
        return
    with exit_on_client_errors(settings.data_dir, server):
        from mcc.client import MCC

        with MCC(server.url, token=server.token) as client:
            yield client.blueprints, True


class LocalBlueprints:
    """The blueprints of this machine; mistakes in their files are printed to stderr."""

    def __init__(self, settings: "ServiceSettings") -> None:
        from mcc.api.catalogue import Catalogue

        self._catalogue = Catalogue(settings.own_blueprints())

    def list(self) -> "Sequence[BlueprintSummary]":
        from mcc.api.blueprints import summary

        return [summary(one) for one in self._catalogue.usable(lambda error: say(str(error)))]

    def get(self, name: str) -> "BlueprintDetail":
        from mcc.api.blueprints import detail
        from mcc.api.catalogue import UnlistedBlueprint
        from mcc.documents.reading import BlueprintError

        try:
            return detail(self._catalogue.find(name))
        except UnlistedBlueprint as error:
            fail(str(error), USAGE)
        except BlueprintError as error:
            print_mistakes(error, as_json=False)
            raise typer.Exit(FAILED) from None

"""The commands `mcc blueprints`: what documents can be made of, and whether a file of them is right."""

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
    say,
)
from mcc.cli.server import find_server, refusals

if TYPE_CHECKING:
    from mcc.contracts.documents import BlueprintDetail, BlueprintSummary
    from mcc.documents.blueprint import Blueprint
    from mcc.documents.reading import BlueprintError
    from mcc.settings import Settings

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
        blueprint = loaded(file)
    except BlueprintError as error:
        print_wrong(error, as_json)
        raise typer.Exit(FAILED) from None
    from mcc.api.blueprints import kept

    made = kept(blueprint)
    if as_json:
        print_json(made)
        return
    count = len(made.components)
    print(f"{file}: {made.name}, {count} component{'' if count == 1 else 's'}, {made.digest[:19]}: all is well")


@app.command("list")
def list_blueprints(url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Blueprints that ship, and your own in ~/.config/mcc/blueprints; those of the service where one runs.

    Example: mcc blueprints list
    """
    with offered(url, data_dir) as (there, _):
        found = there.list()
    if as_json:
        print_json({"items": found})
        return
    rows = [(one.name, one.version, one.origin, ", ".join(one.components), one.description) for one in found]
    print_table(("NAME", "VERSION", "ORIGIN", "COMPONENTS", "DESCRIPTION"), rows, empty="No blueprint.")


@app.command()
def show(name: Name, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """One blueprint: its components with their fields, rules and children.

    Example: mcc blueprints show course
    """
    with offered(url, data_dir) as (there, _):
        found = there.get(name)
    if as_json:
        print_json(found)
        return
    from mcc.contracts.blueprints import BlueprintSpec
    from mcc.view.blueprints import lines_of

    print_pairs(
        (
            ("name", found.name),
            ("version", found.version),
            ("description", found.description or None),
            ("origin", found.origin),
            ("digest", found.digest),
        )
    )
    for line in lines_of(BlueprintSpec.model_validate(found.content)):
        print(line)


def loaded(file: Path) -> "Blueprint":
    """The blueprint of a file that its user named. Raises `BlueprintError`; ends the command where there is no file."""
    from mcc.documents.blueprint import Blueprint

    if not file.is_file():
        fail(f"{file} is no file.", USAGE)
    return Blueprint.load(file)


def print_wrong(error: "BlueprintError", as_json: bool) -> None:
    """All that is wrong with a blueprint: a line each, or the problem that the service would answer."""
    from mcc.view.output import clean

    if as_json:
        from mcc.api.problems import of_blueprint

        print_json(of_blueprint(error).model_dump(exclude_none=True))
        return
    print(clean(str(error)))


class Offers(Protocol):
    """What there is of blueprints, by a service or on this machine."""

    def list(self) -> "Sequence[BlueprintSummary]": ...

    def get(self, name: str) -> "BlueprintDetail": ...


@contextmanager
def offered(url: str | None, data_dir: Path | None) -> Iterator[tuple[Offers, bool]]:
    """The service's blueprints, or where none runs and none is named those of this machine; and which it is."""
    from mcc.settings import load

    with plain_errors():
        settings = load(data_dir=data_dir)
        server = find_server(settings, url)
    if server is None:
        yield Here(settings), False
        return
    with refusals(settings.data_dir):
        from mcc.client import MCC

        with MCC(server.url, token=server.token) as client:
            yield client.blueprints, True


class Here:
    """The blueprints of this machine; wrong files are told on stderr."""

    def __init__(self, settings: "Settings") -> None:
        from mcc.api.catalogue import Catalogue

        self._catalogue = Catalogue(settings.own_blueprints())

    def list(self) -> "Sequence[BlueprintSummary]":
        from mcc.api.blueprints import summary

        return [summary(one) for one in self._catalogue.usable(lambda error: say(str(error)))]

    def get(self, name: str) -> "BlueprintDetail":
        from mcc.api.blueprints import detail
        from mcc.api.catalogue import UnknownBlueprint
        from mcc.documents.reading import BlueprintError

        try:
            return detail(self._catalogue.find(name))
        except UnknownBlueprint as error:
            fail(str(error), USAGE)
        except BlueprintError as error:
            print_wrong(error, as_json=False)
            raise typer.Exit(FAILED) from None

"""The service that a command talks to: found, called, and its refusals turned into exit codes."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate
from urllib.parse import urlsplit

import typer

from mcc.cli.command import UNREACHABLE, USAGE, AsJson, DataDir, Url, fail, plain_errors, print_json, say
from mcc.options import gathered, spread, with_parameters

if TYPE_CHECKING:
    from mcc.cli.archive import Reader
    from mcc.client import MCC
    from mcc.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
NONE_FOUND = (
    "No control service runs here: start one with `mcc up`, or name one with --url or MCC_URL "
    "(with its token in MCC_TOKEN or MCC_TOKEN_FILE)."
)


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a service, and the token for it."""

    url: str
    token: str


def find_server(settings: "Settings", url: str | None, *, lasting: bool = False) -> Server | None:
    """The service at `url`, else the family on this data directory; None when there is neither.

    A family that still starts is waited for. `lasting`: so is the end of a family that runs for another order only.
    """
    if url:
        from mcc.client.address import base_url

        return Server(base_url(url), _token(settings, local=urlsplit(url).hostname in LOOPBACK))
    from mcc.local.presence import Presence, await_end, await_family

    presence = await_family(settings.data_dir)
    if lasting and isinstance(presence, Presence) and presence.purpose == "run":
        say("Another mcc run is at work on this data directory: waiting for its end (with mcc up, several go at once).")
        await_end(settings.data_dir)
        return find_server(settings, url, lasting=True)
    return Server(presence.url, _token(settings, local=True)) if isinstance(presence, Presence) else None


@contextmanager
def served(url: str | None, data_dir: Path | None) -> "Iterator[MCC]":
    """A client of the service that the command talks to; errors become a sentence and an exit code."""
    with plain_errors():
        settings = _settings(data_dir)
        server = find_server(settings, url)
    if server is None:
        fail(NONE_FOUND, UNREACHABLE)
    with _client(settings, server) as client:
        yield client


@contextmanager
def _client(settings: "Settings", server: Server) -> "Iterator[MCC]":
    with refusals(settings.data_dir):
        from mcc.client import MCC

        with MCC(server.url, token=server.token) as client:
            yield client


@contextmanager
def read_from(url: str | None, data_dir: Path | None) -> "Iterator[Reader]":
    """The service that a command reads from, or where none runs and none is named the database itself."""
    with plain_errors():
        settings = _settings(data_dir)
        server = find_server(settings, url)
        if server is None:
            from mcc.cli.archive import archive

            with refusals(settings.data_dir), archive(settings) as kept:
                if kept is None:
                    fail(NONE_FOUND, UNREACHABLE)
                say("No service runs here: this is what the database says.")
                yield kept
            return
    with _client(settings, server) as client:
        yield client


def _settings(data_dir: Path | None) -> "Settings":
    from mcc.settings import load

    return load(data_dir=data_dir)


@dataclass(frozen=True, slots=True)
class Call:
    """What a command that calls the service works with; `as_json`: JSON is wanted on stdout."""

    client: "MCC"
    data_dir: Path | None
    as_json: bool

    def printed(self, value: object) -> bool:
        """Whether JSON is wanted; `value` is then on stdout, and nothing is left to say."""
        if self.as_json:
            print_json(value)
        return self.as_json


@dataclass(frozen=True, slots=True)
class Look:
    """What a command that only reads works with: a service, or the database where none runs."""

    reader: "Reader"
    as_json: bool

    def printed(self, value: object) -> bool:
        """As of a `Call`."""
        if self.as_json:
            print_json(value)
        return self.as_json


Work = Callable[Concatenate[Call, ...], None]
Reading = Callable[Concatenate[Look, ...], None]
Run = Callable[[str | None, Path | None, bool, dict[str, Any]], None]


def service_command(app: typer.Typer, name: str | None = None) -> Callable[[Work], Callable[..., None]]:
    """Turns a function of a `Call` into a command of `app`; --url, --data-dir and --json follow its own options.

    What it takes as `order_id` or `document_id` is the id, however it is named on the command line.
    """

    def register(work: Work) -> Callable[..., None]:
        def run(url: str | None, data_dir: Path | None, as_json: bool, own: dict[str, Any]) -> None:
            with served(url, data_dir) as client:
                work(Call(client, data_dir, as_json), **_with_id(client, own))

        return _registered(app, name, work, run)

    return register


def reading_command(app: typer.Typer, name: str | None = None) -> Callable[[Reading], Callable[..., None]]:
    """The same for a function of a `Look`, which does its work where no service runs too."""

    def register(work: Reading) -> Callable[..., None]:
        def run(url: str | None, data_dir: Path | None, as_json: bool, own: dict[str, Any]) -> None:
            with read_from(url, data_dir) as reader:
                work(Look(reader, as_json), **_with_id(reader, own))

        return _registered(app, name, work, run)

    return register


def _with_id(reader: "Reader", own: dict[str, Any]) -> dict[str, Any]:
    if (named := own.get("order_id")) is not None:
        return {**own, "order_id": order_named(reader, named)}
    if (named := own.get("document_id")) is not None:
        return {**own, "document_id": document_named(reader, named)}
    return own


def _registered(app: typer.Typer, name: str | None, work: Callable[..., None], run: Run) -> Callable[..., None]:
    _, *owns = inspect.signature(work).parameters.values()

    def command(*, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False, **own: Any) -> None:
        run(url, data_dir, as_json, gathered(owns, own))

    shared = inspect.signature(command).parameters
    options = [
        *(option for parameter in owns for option in spread(parameter)),
        *(shared[option] for option in ("url", "data_dir", "as_json")),
    ]
    app.command(name)(with_parameters(command, work, options))
    return command


def lists_by_itself(app: typer.Typer, listing: Callable[..., None]) -> None:
    """Without a further word, a group of commands is its list."""

    def group(context: typer.Context, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
        if context.invoked_subcommand is None:
            listing(url=url, data_dir=data_dir, as_json=as_json)

    app.callback(invoke_without_command=True, help=f"{app.info.help} Without a further word, the list of them.")(group)


LAST = "@last"
SHORTEST = 4
"""Characters of an id's beginning or end that name an order where no other one has them."""


def order_named(reader: "Reader", named: str) -> str:
    """The id of the order that is named by its id, by a beginning or end that no other one has, or as the newest.

    Raises `ClientError`, of a database `StoreError`.
    """
    from mcc.view.output import one_line

    def found(part: str | None, limit: int) -> list[tuple[str, str]]:
        orders = reader.orders.list(part=part, limit=limit).items
        return [(one.id, f"{one.status}  {one_line(one.prompt, 60)}") for one in orders]

    return _named("order", named, found)


def document_named(reader: "Reader", named: str) -> str:
    """The same of a document. Raises `ClientError`, of a database `StoreError`."""
    from mcc.view.output import one_line

    def found(part: str | None, limit: int) -> list[tuple[str, str]]:
        documents = reader.documents.list(part=part, limit=limit).items
        return [(one.id, f"{one.status}  {one_line(one.title, 60)}") for one in documents]

    return _named("document", named, found)


def _named(what: str, named: str, look: Callable[[str | None, int], list[tuple[str, str]]]) -> str:
    """`look` finds ids, the newest first, with words about each."""
    from mcc.contracts.ids import is_identifier

    part = named.strip().lower()
    if is_identifier(part):
        return part
    if part == LAST:
        newest = look(None, 1)
        return newest[0][0] if newest else fail(f"{LAST}: there is no {what} yet.")
    if len(part) < SHORTEST or set(part) - set("0123456789abcdef-"):
        fail(
            f"{named!r} names no {what}: give its id, at least {SHORTEST} characters of an end of it, or {LAST}.", USAGE
        )
    found = look(part, 6)
    if len(found) == 1:
        return found[0][0]
    if not found:
        fail(f"No {what}'s id begins or ends with {part}.")
    say(f"mcc: {part} begins or ends the ids of several {what}s:")
    for id, words in found[:5]:
        say(f"  {id}  {words}")
    if len(found) > 5:
        say("  …")
    raise typer.Exit(USAGE)


@contextmanager
def refusals(data_dir: Path) -> Iterator[None]:
    """Exit codes for the errors of a client: 3 for a service that is not reached, 2 for invalid arguments, else 1.

    A family on `data_dir` has its token in there.
    """
    from mcc.client.errors import ClientError, Invalid, NoToken, Unauthorized, Unreachable

    try:
        yield
    except Unreachable as error:
        fail(str(error), UNREACHABLE)
    except NoToken as error:
        fail(str(error))
    except Unauthorized as error:
        what = "There is no token" if "Send the operator" in error.detail else "This token is not the right one"
        told = f"{what} (see {data_dir / 'token'}, of another service the same file in its own data directory)"
        fail(f"{told}: it belongs in MCC_TOKEN or MCC_TOKEN_FILE." if error.status == 401 else error.detail)
    except Invalid as error:
        fail("; ".join(map(_placed, error.errors)) or str(error), USAGE)
    except ClientError as error:
        fail(str(error))


def _placed(mistake: Mapping[str, Any]) -> str:
    """What is wrong, behind its place where it does not begin with that."""
    place, said = str(mistake.get("field") or mistake.get("place") or ""), str(mistake.get("message"))
    return said if said.startswith(place) else f"{place}: {said}"


def _token(settings: "Settings", *, local: bool) -> str:
    """The configured token; the token in the data directory is sent to services on this machine only."""
    if settings.token is not None:
        return settings.token.get_secret_value()
    file = settings.token_file or (settings.data_dir / "token" if local else None)
    if file is None or not (settings.token_file or file.exists()):
        return ""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"The token in {file} cannot be read ({error}).")

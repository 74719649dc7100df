"""Connects commands to a service or the database: finds it, resolves ids, turns errors into exit codes."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate

import typer

from mcc.cli.command import UNREACHABLE, USAGE, AsJson, DataDir, Url, fail, plain_errors, print_json, say
from mcc.options import arguments_from, options_of, with_parameters

if TYPE_CHECKING:
    from mcc.cli.archive import ArchiveReader
    from mcc.client import MCC
    from mcc.contracts.answers import Offer
    from mcc.settings import ServiceSettings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
NONE_FOUND = (
    "No control service runs here: start one with `mcc up`, or name one with --url or MCC_URL "
    "(with mcc login, or its token in MCC_TOKEN or MCC_TOKEN_FILE)."
)


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The address of a service, and the token for it. `login_file`: where `mcc login` has kept that, None where it is
    from elsewhere."""

    url: str
    token: str
    login_file: Path | None = None


def find_server(settings: "ServiceSettings", url: str | None, *, lasting: bool = False) -> ServiceAddress | None:
    """The service at `url`, else the one that runs on this data directory; None when there is neither.

    Waits for a service that is still starting. `lasting`: waits also until a service that runs for another order only
    has ended, and does not answer it.
    """
    if url:
        from mcc.client.address import base_url

        return _with_token(settings, base_url(url), is_family=False)
    from mcc.local.presence import Presence, await_end, await_family

    presence = await_family(settings.data_dir)
    if lasting and isinstance(presence, Presence) and presence.purpose == "run":
        say("Another mcc run is at work on this data directory: waiting for its end (with mcc up, several go at once).")
        await_end(settings.data_dir)
        # Once more, as another such run may have begun meanwhile.
        return find_server(settings, url, lasting=True)
    return _with_token(settings, presence.url, is_family=True) if isinstance(presence, Presence) else None


@contextmanager
def connected(url: str | None, data_dir: Path | None) -> "Iterator[MCC]":
    """A client of the service that the command uses. Errors become a sentence and an exit code."""
    with plain_errors():
        settings = _settings(data_dir)
        server = find_server(settings, url)
    if server is None:
        fail(NONE_FOUND, UNREACHABLE)
    with _client(settings, server) as client:
        yield client


def tools_of_drones(url: str | None, data_dir: Path | None) -> "Sequence[Offer] | None":
    """The tools of the live drones of the service at `url`, or of the one that runs here; None without any."""
    with plain_errors():
        if find_server(_settings(data_dir), url) is None:
            return None
    with connected(url, data_dir) as client:
        return client.tools.list() or None


@contextmanager
def _client(settings: "ServiceSettings", server: ServiceAddress) -> "Iterator[MCC]":
    with exit_on_client_errors(settings.data_dir, server):
        from mcc import __version__
        from mcc.client import MCC
        from mcc.contracts.callers import CLI_AGENT

        with MCC(server.url, token=server.token, user_agent=f"{CLI_AGENT}{__version__}") as client:
            yield client


@contextmanager
def reader_of(url: str | None, data_dir: Path | None) -> "Iterator[ArchiveReader]":
    """A client of the service, or where none runs and no URL is given, the database. Errors become exit codes."""
    with plain_errors():
        settings = _settings(data_dir)
        server = find_server(settings, url)
        if server is None:
            from mcc.cli.archive import archive

            with exit_on_client_errors(settings.data_dir), archive(settings) as kept:
                if kept is None:
                    fail(NONE_FOUND, UNREACHABLE)
                say("No service runs here: this is what the database says.")
                yield kept
            return
    with _client(settings, server) as client:
        yield client


def _settings(data_dir: Path | None) -> "ServiceSettings":
    from mcc.settings import load

    return load(data_dir=data_dir)


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """What a command that calls the service gets. `as_json`: it prints JSON to stdout."""

    client: "MCC"
    data_dir: Path | None
    as_json: bool

    def printed(self, value: object) -> bool:
        """Where JSON is wanted, print `value`, and answer True: nothing else is printed then."""
        if self.as_json:
            print_json(value)
        return self.as_json


@dataclass(frozen=True, slots=True)
class Query:
    """What a command that only reads gets: a service, or the database where none runs."""

    reader: "ArchiveReader"
    as_json: bool

    def printed(self, value: object) -> bool:
        """As `ServiceCall.printed`."""
        if self.as_json:
            print_json(value)
        return self.as_json


CallCommand = Callable[Concatenate[ServiceCall, ...], None]
QueryCommand = Callable[Concatenate[Query, ...], None]
Run = Callable[[str | None, Path | None, bool, dict[str, Any]], None]


def service_command(app: typer.Typer, name: str | None = None) -> Callable[[CallCommand], Callable[..., None]]:
    """A decorator that registers a function of a `ServiceCall` as a command of `app`; --url, --data-dir and --json
    follow its own options.

    Arguments called `order_id` and `document_id` may be abbreviated on the command line; the function gets the full id.
    """

    def register(work: CallCommand) -> Callable[..., None]:
        def run(url: str | None, data_dir: Path | None, as_json: bool, arguments: dict[str, Any]) -> None:
            with connected(url, data_dir) as client:
                work(ServiceCall(client, data_dir, as_json), **_with_full_id(client, arguments))

        return _register(app, name, work, run)

    return register


def reading_command(app: typer.Typer, name: str | None = None) -> Callable[[QueryCommand], Callable[..., None]]:
    """As `service_command`, for a function of a `Query`: the command works without a service too."""

    def register(work: QueryCommand) -> Callable[..., None]:
        def run(url: str | None, data_dir: Path | None, as_json: bool, arguments: dict[str, Any]) -> None:
            with reader_of(url, data_dir) as reader:
                work(Query(reader, as_json), **_with_full_id(reader, arguments))

        return _register(app, name, work, run)

    return register


def _with_full_id(reader: "ArchiveReader", arguments: dict[str, Any]) -> dict[str, Any]:
    if (named := arguments.get("order_id")) is not None:
        return {**arguments, "order_id": resolve_order_id(reader, named)}
    if (named := arguments.get("document_id")) is not None:
        return {**arguments, "document_id": resolve_document_id(reader, named)}
    if (named := arguments.get("session_id")) is not None:
        return {**arguments, "session_id": resolve_session_id(reader, named)}
    return arguments


def _register(app: typer.Typer, name: str | None, work: Callable[..., None], run: Run) -> Callable[..., None]:
    _, *parameters = inspect.signature(work).parameters.values()

    def command(*, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False, **arguments: Any) -> None:
        run(url, data_dir, as_json, arguments_from(parameters, arguments))

    shared = inspect.signature(command).parameters
    options = [
        *(option for parameter in parameters for option in options_of(parameter)),
        *(shared[option] for option in ("url", "data_dir", "as_json")),
    ]
    app.command(name)(with_parameters(command, work, options))
    return command


def list_by_default(app: typer.Typer, listing: Callable[..., None]) -> None:
    """Let a group of commands, called without a command, run `listing`."""

    def group(context: typer.Context, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
        if context.invoked_subcommand is None:
            listing(url=url, data_dir=data_dir, as_json=as_json)

    app.callback(invoke_without_command=True, help=f"{app.info.help} Without a further word, the list of them.")(group)


LAST = "@last"
SHORTEST = 4
"""Least characters of the beginning or end of an id that may stand for it."""


def resolve_order_id(reader: "ArchiveReader", named: str) -> str:
    """The id of the order that `named` means: its id, a unique beginning or end of it, or @last for the newest. Exits
    where no order or several match.

    Raises `ClientError`; where `reader` is the database, `StoreError`.
    """
    from mcc.view.output import brief

    def found(part: str | None, limit: int) -> list[tuple[str, str]]:
        orders = reader.orders.list(part=part, limit=limit).items
        return [(one.id, f"{one.status}  {brief(one.prompt, 60)}") for one in orders]

    return _resolve_id("order", named, found)


def resolve_document_id(reader: "ArchiveReader", named: str) -> str:
    """As `resolve_order_id`, for a document."""
    from mcc.view.output import brief

    def found(part: str | None, limit: int) -> list[tuple[str, str]]:
        documents = reader.documents.list(part=part, limit=limit).items
        return [(one.id, f"{one.status}  {brief(one.title, 60)}") for one in documents]

    return _resolve_id("document", named, found)


def resolve_session_id(reader: "ArchiveReader", named: str) -> str:
    """The same of a session. Raises `ClientError`; where `reader` is the database, `StoreError`."""
    from mcc.view.output import brief

    def found(part: str | None, limit: int) -> list[tuple[str, str]]:
        return [(one.id, brief(one.title, 60)) for one in reader.sessions.list(part=part, limit=limit).items]

    return _resolve_id("session", named, found)


def is_part_of_an_id(text: str) -> bool:
    """Whether an id may begin or end with `text`, which is long enough to stand for it."""
    return len(text) >= SHORTEST and not set(text) - set("0123456789abcdef-")


def _resolve_id(what: str, named: str, find: Callable[[str | None, int], list[tuple[str, str]]]) -> str:
    """`find`, given a part of an id (None = any) and a limit, answers matching ids, newest first, with a description
    of each; `what` is the noun for messages."""
    from mcc.contracts.ids import is_identifier

    part = named.strip().lower()
    if is_identifier(part):
        return part
    if part == LAST:
        newest = find(None, 1)
        return newest[0][0] if newest else fail(f"{LAST}: there is no {what} yet.")
    if not is_part_of_an_id(part):
        fail(
            f"{named!r} names no {what}: give its id, at least {SHORTEST} characters of an end of it, or {LAST}.", USAGE
        )
    # One more than are shown, to know whether there are more.
    candidates = find(part, 6)
    if len(candidates) == 1:
        return candidates[0][0]
    if not candidates:
        fail(f"No {what}'s id begins or ends with {part}.")
    say(f"mcc: {part} begins or ends the ids of several {what}s:")
    for id, words in candidates[:5]:
        say(f"  {id}  {words}")
    if len(candidates) > 5:
        say("  …")
    raise typer.Exit(USAGE)


@contextmanager
def exit_on_client_errors(data_dir: Path, server: ServiceAddress | None = None) -> Iterator[None]:
    """Turn errors of a client into a sentence and an exit code: 3 where no service is reached, 2 for invalid arguments,
    else 1.

    `data_dir`: where the local service keeps its token, for the sentence about a missing or wrong one; `server`: the
    service, for where that one came from.
    """
    from mcc.client.errors import ClientError, Invalid, NoToken, Unauthorized, Unreachable

    try:
        yield
    except Unreachable as error:
        fail(str(error), UNREACHABLE)
    except NoToken as error:
        fail(str(error))
    except Unauthorized as error:
        fail(error.detail if error.status != 401 else _about_token(error.detail, data_dir, server))
    except Invalid as error:
        fail("; ".join(map(_with_place, error.errors)) or str(error), USAGE)
    except ClientError as error:
        fail(str(error))


def _about_token(detail: str, data_dir: Path, server: ServiceAddress | None) -> str:
    """What to do about a token that is missing, wrong, or has ended, of which the service says `detail`."""
    login = f"mcc login --url {server.url}" if server is not None else "mcc login"
    kinds = {"Send the operator": "There is no token", "not the right one": "This token is not the right one"}
    what = next((sentence for part, sentence in kinds.items() if part in detail), None)
    if server is not None and server.login_file is not None:
        return f"{what or detail.partition(':')[0].rstrip('.')}. mcc login kept it in {server.login_file}: {login}"
    # A token that was right and has ended is told as the service tells it.
    if what is None:
        return detail
    where = f"{what} (see {data_dir / 'token'}, of another service the same file in its own data directory)"
    return f"{where}: it belongs in MCC_TOKEN or MCC_TOKEN_FILE. One of your own: {login}"


def _with_place(mistake: Mapping[str, Any]) -> str:
    """The message of a mistake, after its place unless it begins with that."""
    place, message = str(mistake.get("field") or mistake.get("place") or ""), str(mistake.get("message"))
    return message if message.startswith(place) else f"{place}: {message}"


def _with_token(settings: "ServiceSettings", url: str, *, is_family: bool) -> ServiceAddress:
    """The service with the token for it, "" where there is none. Exits where a file of tokens cannot be read."""
    from mcc.client.address import token_for
    from mcc.client.errors import NoToken, Unreachable

    try:
        known = token_for(settings, url, is_family=is_family)
    except Unreachable as error:
        fail(str(error), UNREACHABLE)
    except NoToken as error:
        fail(str(error))
    return ServiceAddress(url, known.text, known.login_file) if known is not None else ServiceAddress(url, "")

"""This room is for finding the service that a command talks to, and for what its refusals mean to a shell."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcc.cli.options import UNREACHABLE, USAGE, fail, plain_errors, say

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.settings import Settings

NONE_FOUND = (
    "No control service runs here: start one with `mcc up`, or name one with --url or MCC_URL "
    "(with its token in MCC_TOKEN or MCC_TOKEN_FILE)."
)


@dataclass(frozen=True, slots=True)
class Server:
    """Where a service is, and the token for it."""

    url: str
    token: str


def find_server(settings: "Settings", url: str | None, *, lasting: bool = False) -> Server | None:
    """The service at `url`, else the family on this data directory; None when there is neither.

    A family that is just starting is waited for. `lasting`: one that is there for another order only is of no use;
    its end is waited for.
    """
    if url:
        return Server(url.rstrip("/"), _token(settings, local=_is_here(url)))
    from mcc.local.presence import Presence, await_end, await_family

    presence = await_family(settings.data_dir)
    if lasting and isinstance(presence, Presence) and presence.purpose == "run":
        say("Another mcc run is at work on this data directory: waiting for its end (with mcc up, several go at once).")
        await_end(settings.data_dir)
        return find_server(settings, url, lasting=True)
    return Server(presence.url, _token(settings, local=True)) if isinstance(presence, Presence) else None


@contextmanager
def served(url: str | None, data_dir: Path | None) -> "Iterator[MCC]":
    """A client of the service that the command talks to; what goes wrong becomes a sentence and an exit code."""
    from mcc.settings import load

    with plain_errors():
        server = find_server(load(data_dir=data_dir), url)
    if server is None:
        fail(NONE_FOUND, UNREACHABLE)
    with refusals():
        from mcc.client import MCC

        with MCC(server.url, token=server.token) as client:
            yield client


@contextmanager
def refusals() -> Iterator[None]:
    """Exit codes for what a client raises: 3 for a service that is not reached, 2 for a question asked wrongly."""
    from mcc.client.errors import ClientError, Invalid, NoToken, Unauthorized, Unreachable

    try:
        yield
    except Unreachable as error:
        fail(str(error), UNREACHABLE)
    except (NoToken, Unauthorized) as error:
        fail(f"{error} Its token belongs in MCC_TOKEN or MCC_TOKEN_FILE.")
    except Invalid as error:
        several = "; ".join(f"{one.get('field')}: {one.get('message')}" for one in error.errors)
        fail(several or str(error), USAGE)
    except ClientError as error:
        fail(str(error))


def _token(settings: "Settings", *, local: bool) -> str:
    """The configured token; the one in the data directory is told to services on this machine only."""
    if settings.token is not None:
        return settings.token.get_secret_value()
    file = settings.token_file or (settings.data_dir / "token" if local else None)
    if file is None or not (settings.token_file or file.exists()):
        return ""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"The token in {file} cannot be read ({error}).")


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")

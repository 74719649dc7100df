"""The commands `mcc login` and `mcc logout`: a token of one's own, kept for the commands that follow."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import (
    INTERRUPTED,
    UNREACHABLE,
    USAGE,
    AsJson,
    DataDir,
    Url,
    clock,
    fail,
    plain_errors,
    print_json,
    say,
)
from mcc.cli.server import NONE_FOUND, ServiceAddress, exit_on_client_errors, find_server

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.login import DeviceLogin, DeviceToken
    from mcc.settings import LoginToken, ServiceSettings

ClientName = Annotated[
    str | None, typer.Option("--name", help="What the page and the list of tokens call this command line.")
]


def login(url: Url = None, name: ClientName = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Get a token of your own, for this and all other commands: open the address that is printed in a browser that is
    signed in, and enter the code. The token counts for 90 days, with the rights of your role but `admin`.

    Example: mcc login --url https://mcc.example
    """
    from mcc.client import MCC
    from mcc.contracts.people import NAME_CHARACTERS
    from mcc.settings import login_tokens

    if name is not None and not 0 < len(name) <= NAME_CHARACTERS:
        fail(f"--name has 1 to {NAME_CHARACTERS} characters.", USAGE)
    settings, server = _service(url, data_dir)
    with exit_on_client_errors(settings.data_dir), MCC(server.url, token="") as client:
        try:
            begun = client.signins.begin_login(name or f"mcc on {socket.gethostname() or 'a machine without a name'}")
            say(f"Open {begun.verification_uri} in a browser that is signed in, and enter the code {begun.user_code}")
            token = _when_let_in(client, begun)
        except KeyboardInterrupt:
            fail("Stopped before anybody had decided.", INTERRUPTED)
    with _told_problems():
        before = (kept := login_tokens()).of(server.url)
        ends = token.expires_at.isoformat()
        kept.keep(server.url, {"token": token.access_token, "id": token.id, "expires_at": ends})
    if before is not None:
        _is_revoked(server.url, before)
    if as_json:
        print_json({"url": server.url, **token.model_dump(mode="json", exclude={"access_token", "token_type"})})
        return
    say(f"Logged in at {server.url} until {clock(token.expires_at)}. The token is in {kept.file}")
    if settings.token is not None or settings.token_file is not None:
        say("It is not used yet: MCC_TOKEN or MCC_TOKEN_FILE comes first. Unset that.")


def logout(url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Revoke the token that `mcc login` has kept for a service, and forget it.

    Example: mcc logout --url https://mcc.example
    """
    from mcc.settings import login_tokens

    _, server = _service(url, data_dir)
    with _told_problems():
        token = (kept := login_tokens()).of(server.url)
        revoked = token is not None and _is_revoked(server.url, token)
        kept.forget(server.url)
    if as_json:
        print_json({"url": server.url, "forgotten": token is not None, "revoked": revoked})
    elif token is None:
        say(f"Nobody is logged in at {server.url} by mcc login.")
    elif revoked:
        say(f"Logged out at {server.url}.")
    else:
        say(f"The token for {server.url} is forgotten, but was not revoked, as the service did not say so.")


def _service(url: str | None, data_dir: Path | None) -> "tuple[ServiceSettings, ServiceAddress]":
    from mcc.settings import load

    with plain_errors():
        settings = load(data_dir=data_dir)
        server = find_server(settings, url)
    return (settings, server) if server is not None else fail(NONE_FOUND, UNREACHABLE)


@contextmanager
def _told_problems() -> Iterator[None]:
    from mcc.settings import CredentialsProblem

    try:
        yield
    except CredentialsProblem as problem:
        fail(str(problem))


def _when_let_in(client: "MCC", begun: "DeviceLogin") -> "DeviceToken":
    """Ask until somebody has decided. Exits where nobody lets this command line in, and raises `ClientError`."""
    from mcc.client.calls import RETRYABLE
    from mcc.client.errors import Refused, Unreachable

    interval, ends_at = begun.interval, time.monotonic() + begun.expires_in
    while True:
        time.sleep(interval)
        try:
            return client.signins.redeem_login(begun.device_code)
        except Unreachable:
            # The service may be on its way back, and has kept what it was asked.
            if time.monotonic() > ends_at:
                raise
        except Refused as error:
            match error.problem.get("error"):
                case "authorization_pending":
                    continue
                case "slow_down":
                    interval += begun.interval
                case _ if error.status in RETRYABLE and time.monotonic() < ends_at:
                    interval += begun.interval
                case None:
                    raise
                case _:
                    fail(error.detail)


def _is_revoked(url: str, kept: "LoginToken") -> bool:
    """Revoke a token by itself. It may have ended, or the service be away."""
    from mcc.client import MCC
    from mcc.client.errors import ClientError, Unauthorized

    try:
        with MCC(url, token=kept["token"]) as client:
            client.tokens.revoke(kept["id"])
    except Unauthorized as error:
        return error.status == 401
    except ClientError:
        return False
    return True

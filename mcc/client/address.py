"""Address and token of a service: given, from the environment, or of the service that `mcc up` started here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcc.client.errors import NoToken, Unreachable

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class Address:
    """`url` without a path, `token` the operator's."""

    url: str
    token: str


def find(url: str | None, token: str | None, environ: Mapping[str, str] | None = None) -> Address:
    """The service to call. A missing `url` comes from `MCC_URL`, else from family.json in the data directory; a missing
    `token` from `MCC_TOKEN` or `MCC_TOKEN_FILE`, else from the file `token` there.

    `environ` None: the environment of this process. Raises `Unreachable` when no service is known, `NoToken`.
    """
    if url is not None and token is not None:
        return Address(base_url(url), token)
    from mcc.settings import BadSettings, load, service_url

    try:
        settings = load(environ)
    except BadSettings as error:
        raise Unreachable(str(error)) from error
    url = url or service_url(environ) or _local_url(settings.data_dir)
    if token is None and settings.token is not None:
        token = settings.token.get_secret_value()
    if token is None:
        token = _token_in(settings.token_file or _local_token_file(settings.data_dir, url))
    return Address(base_url(url), token)


def verification(url: str) -> "ssl.SSLContext | bool":
    """The `verify` argument of an httpx client for this service.

    Without TLS it is an empty context, as httpx would otherwise load the list of certificate authorities, which takes
    longer than a call.
    """
    import ssl

    return url.lower().startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def base_url(url: str) -> str:
    """The base address of a service; `url` may also be the address of its API or of the API's description."""
    return url.rstrip("/").removesuffix("/docs").removesuffix("/v1").removesuffix("/api").rstrip("/")


def _local_token_file(data_dir: Path, url: str) -> Path:
    """The file of this machine's own token. Raises `NoToken` for a service elsewhere, which must not get it."""
    if urlsplit(url).hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise NoToken(f"No token for {url}: set MCC_TOKEN or MCC_TOKEN_FILE.")
    return data_dir / "token"


def _local_url(data_dir: Path) -> str:
    """The address of the service whose processes hold the data directory now. Raises `Unreachable` when none does:
    another program may have taken the port of a service that is gone, and must not get the token."""
    from mcc.local.errors import UnusableDirectory
    from mcc.local.presence import Presence, find_family

    try:
        found = find_family(data_dir)
    except UnusableDirectory as problem:
        raise Unreachable(str(problem)) from problem
    if not isinstance(found, Presence):
        raise Unreachable(
            "No control service is known here: start one with `mcc up`, or name one with MCC_URL or --url."
        )
    return found.url


def _token_in(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise NoToken(f"No token: set MCC_TOKEN or MCC_TOKEN_FILE ({file} cannot be read).") from error

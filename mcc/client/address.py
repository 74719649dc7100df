"""Address and token of a service: as given, by the environment, or by the family of this machine."""

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
    """What is not given comes from `MCC_URL` and `MCC_TOKEN[_FILE]`, else from family.json and the data dir.

    `environ` None: the process's own. Raises `Unreachable` when no service is known, `NoToken`.
    """
    if url is not None and token is not None:
        return Address(bare(url), token)
    from mcc.settings import BadSettings, load, service_url

    try:
        settings = load(environ)
    except BadSettings as error:
        raise Unreachable(str(error)) from error
    url = url or service_url(environ) or _family(settings.data_dir)
    if token is None and settings.token is not None:
        token = settings.token.get_secret_value()
    if token is None:
        token = _kept(settings.token_file or _own_token_file(settings.data_dir, url))
    return Address(bare(url), token)


def verification(url: str) -> "ssl.SSLContext | bool":
    """How the certificate of a service is verified, as httpx wants it told.

    Without TLS it is a context that trusts nobody: to read the list of those who are trusted takes longer than a call.
    """
    import ssl

    return url.lower().startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def bare(url: str) -> str:
    """The address of a service, however much of an address below it was given: that of its API, of its description."""
    return url.rstrip("/").removesuffix("/docs").removesuffix("/v1").removesuffix("/api").rstrip("/")


def _own_token_file(data_dir: Path, url: str) -> Path:
    """The token that this machine made for itself is never sent to another one."""
    if urlsplit(url).hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise NoToken(f"No token for {url}: set MCC_TOKEN or MCC_TOKEN_FILE.")
    return data_dir / "token"


def _family(data_dir: Path) -> str:
    """The address of the family that holds the data dir; whoever took the port of one that is gone is told nothing."""
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


def _kept(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise NoToken(f"No token: set MCC_TOKEN or MCC_TOKEN_FILE ({file} cannot be read).") from error

"""Address and token of a service: given, from the environment, of who has logged in, or of the service that `mcc up`
started here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcc.addresses import is_loopback
from mcc.client.errors import NoToken, Unreachable
from mcc.client.surroundings import Surroundings, surroundings_of

if TYPE_CHECKING:
    from mcc.settings import ServiceSettings


@dataclass(frozen=True, slots=True)
class Address:
    """`url` without a path; `surroundings`: how the service is reached."""

    url: str
    token: str
    surroundings: Surroundings = field(default_factory=Surroundings)

    @classmethod
    def at(cls, url: str, token: str, environ: Mapping[str, str] | None = None) -> "Address":
        """Raises `Unreachable` for an address that cannot be one."""
        base = base_url(url)
        try:
            return cls(base, token, surroundings_of(base, environ))
        except ValueError:
            raise Unreachable("This is no address of a service: write http://HOST:PORT or https://HOST.") from None


def find(url: str | None, token: str | None, environ: Mapping[str, str] | None = None) -> Address:
    """The service to call. A missing `url` comes from `MCC_URL`, else from family.json in the data directory; a missing
    `token` is what `token_for` answers.

    `environ` None: the environment of this process. Raises `Unreachable` when no service is known, `NoToken`.
    """
    if url is not None and token is not None:
        return Address.at(url, token, environ)
    from mcc.settings import BadSettings, load, service_url

    try:
        settings = load(environ)
    except BadSettings as error:
        raise Unreachable(str(error)) from error
    is_family = not (url or service_url(environ))
    url = url or service_url(environ) or _local_url(settings.data_dir)
    if token is None:
        known = token_for(settings, url, environ, is_family=is_family)
        if known is None:
            raise NoToken(f"No token for {url}: mcc login gets one; or set MCC_TOKEN or MCC_TOKEN_FILE.")
        token = known.text
    return Address.at(url, token, environ)


@dataclass(frozen=True, slots=True)
class ClientToken:
    """A token for a service. `login_file`: where `mcc login` has kept it, None where it is from elsewhere."""

    text: str
    login_file: Path | None = None


def token_for(
    settings: "ServiceSettings", url: str, environ: Mapping[str, str] | None = None, *, is_family: bool = False
) -> ClientToken | None:
    """The token for the service at `url`: `MCC_TOKEN`, or what is in the file `MCC_TOKEN_FILE`; else what `mcc login`
    has kept for this service; else, on this machine alone, what is in the file `token` of the data directory. None
    where there is none.

    `is_family`: it is the service of `mcc up` on this data directory. Raises `NoToken` for a file that cannot be read,
    and `Unreachable` where `url` is no address.
    """
    if settings.token is not None:
        return ClientToken(settings.token.get_secret_value())
    if settings.token_file is not None:
        return _token_in(settings.token_file)
    from mcc.settings import CredentialsProblem, login_tokens

    logins = login_tokens(environ)
    try:
        host = urlsplit(url).hostname or ""
        kept = logins.of(url)
    except CredentialsProblem as problem:
        raise NoToken(str(problem)) from problem
    except ValueError:
        raise Unreachable("This is no address of a service: write http://HOST:PORT or https://HOST.") from None
    if kept is not None:
        return ClientToken(kept["token"], logins.file)
    # A service elsewhere must not get this machine's own token.
    return _token_in(settings.data_dir / "token", may_lack=True) if is_family or is_loopback(host) else None


def base_url(url: str) -> str:
    """The base address of a service; `url` may also be the address of its API or of the API's description."""
    return url.rstrip("/").removesuffix("/docs").removesuffix("/v1").removesuffix("/api").rstrip("/")


def _local_url(data_dir: Path) -> str:
    """The address of the service whose processes hold the data directory now. Raises `Unreachable` when none does:
    another program may have taken the port of a service that is gone, and must not get the token."""
    from mcc.local.errors import UnusableDirectory
    from mcc.local.presence import Presence, find_family

    try:
        family = find_family(data_dir)
    except UnusableDirectory as problem:
        raise Unreachable(str(problem)) from problem
    if not isinstance(family, Presence):
        raise Unreachable(
            "No control service is known here: start one with `mcc up`, or name one with MCC_URL or --url."
        )
    return family.url


def _token_in(file: Path, *, may_lack: bool = False) -> ClientToken | None:
    try:
        return ClientToken(file.read_text("utf-8").strip())
    except (OSError, ValueError) as error:
        if may_lack and isinstance(error, FileNotFoundError):
            return None
        raise NoToken(f"No token: set MCC_TOKEN or MCC_TOKEN_FILE ({file} cannot be read).") from error

"""Address and token of a service: given, from the environment, or of the service that `mcc up` started here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from mcc.addresses import is_loopback
from mcc.client.errors import NoToken, Unreachable
from mcc.client.surroundings import Surroundings, surroundings_of


@dataclass(frozen=True, slots=True)
class Address:
    """`url` without a path, `token` the operator's; `surroundings`: how the service is reached."""

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
    `token` from `MCC_TOKEN` or `MCC_TOKEN_FILE`, else from the file `token` there.

    `environ` None: the environment of this process. Raises `Unreachable` when no service is known, `NoToken`.
    """
    if url is not None and token is not None:
        return Address.at(url, token, environ)
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
    return Address.at(url, token, environ)


def base_url(url: str) -> str:
    """The base address of a service; `url` may also be the address of its API or of the API's description."""
    return url.rstrip("/").removesuffix("/docs").removesuffix("/v1").removesuffix("/api").rstrip("/")


def _local_token_file(data_dir: Path, url: str) -> Path:
    """The file of this machine's own token. Raises `NoToken` for a service elsewhere, which must not get it."""
    if not is_loopback(urlsplit(url).hostname or ""):
        raise NoToken(f"No token for {url}: set MCC_TOKEN or MCC_TOKEN_FILE.")
    return data_dir / "token"


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


def _token_in(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise NoToken(f"No token: set MCC_TOKEN or MCC_TOKEN_FILE ({file} cannot be read).") from error

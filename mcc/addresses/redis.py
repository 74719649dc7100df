"""Addresses of Redis: of one server, and of the Sentinels that know which server is the master."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from mcc.addresses.credentials import unreadable
from mcc.addresses.names import AddressRefused, Endpoint, endpoint_of

SOCKETS = ("unix", "redis+socket")
SENTINELS = ("sentinel", "sentinels")
SCHEMES = ("redis", "rediss", *SOCKETS, *SENTINELS)
SENTINEL_PORT = 26379
SENTINEL_FORM = "sentinel://USER:PASSWORD@HOST:26379,HOST:26379/NAME?db=0"
OPTIONS = ("db", "sentinel_username", "sentinel_password")
TLS_OPTIONS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    """Sentinels, and the `name` under which they watch a master. `username`, `password` and `db` are the master's;
    `tls` holds for both. `tls_options`: redis-py's, by name."""

    hosts: tuple[Endpoint, ...]
    name: str
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_options: Mapping[str, str] = field(default_factory=dict)


def redis_problem(url: str) -> str:
    """Why this is no address of a Redis, as part of a sentence without any part of the address; "" where it is one."""
    scheme = url.partition("://")[0]
    if "://" not in url or scheme not in SCHEMES:
        return f"a Redis address begins with one of {', '.join(f'{allowed}://' for allowed in SCHEMES)}"
    if problem := unreadable(url, numbered=scheme in ("redis", "rediss")):
        return problem
    if scheme in SENTINELS:
        try:
            sentinel_address(url)
        except ValueError as problem_found:
            return str(problem_found)
    return ""


def sentinel_address(url: str) -> SentinelAddress | None:
    """The parts of a `sentinel://` or `sentinels://` address; None for another one. Raises ValueError, whose message
    has no part of the address."""
    scheme, _, rest = url.partition("://")
    if scheme not in SENTINELS:
        return None
    place, _, query = rest.partition("?")
    authority, _, name = place.partition("/")
    user, _, hosts = authority.rpartition("@")
    username, _, password = user.partition(":")
    options = {key: unquote(value) for key, _, value in (part.partition("=") for part in query.split("&") if part)}
    tls_options = {key: value for key, value in options.items() if key in TLS_OPTIONS}
    if len(tls_options) + sum(option in options for option in OPTIONS) != len(options):
        raise ValueError(f"after the ? of a Sentinel's address may stand {', '.join((*OPTIONS, *TLS_OPTIONS))}")
    if not name or "/" in name:
        raise ValueError(f"a Sentinel's address ends with the name of the master that it watches: {SENTINEL_FORM}")
    if not options.get("db", "0").isdecimal():
        raise ValueError("db is the number of a database")
    try:
        endpoints = tuple(endpoint_of(host, SENTINEL_PORT) for host in hosts.split(","))
    except AddressRefused:
        raise ValueError(f"the hosts of the Sentinels cannot be read; write {SENTINEL_FORM}") from None
    return SentinelAddress(
        endpoints,
        unquote(name),
        int(options.get("db", "0")),
        unquote(username) or None,
        unquote(password) or None,
        options.get("sentinel_username") or None,
        options.get("sentinel_password") or None,
        scheme == "sentinels",
        tls_options,
    )

"""Host names, ports and URLs in one canonical spelling, and allow lists of hosts."""

import ipaddress
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from urllib.parse import parse_qs, quote, urlsplit

LONGEST_URL = 8_000
"""The longest URL accepted, in characters."""

WEB_PORTS = (443, 80)
"""The ports that a `HostList` entry without a port allows."""

_SCHEMES = {"http": 80, "https": 443}
_LONGEST_HOST = 253
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_KEPT = "/%:@!$&'()*+,;=~?"
_SHOWN = 200


class AddressRefused(ValueError):
    """The address is invalid or not allowed, so no connection is made. The message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host in canonical spelling (see `host_of`) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_address(self) -> bool:
        return _address(self.host) is not None


@dataclass(frozen=True, slots=True)
class Url:
    """An http or https URL. `target` is the encoded path and query; the fragment is dropped, it is never sent."""

    scheme: str
    endpoint: Endpoint
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        whole = str(self.endpoint)
        return whole.rpartition(":")[0] if self.endpoint.port == _SCHEMES[self.scheme] else whole


def host_of(text: str) -> str:
    """The canonical spelling: a name in lower-case ASCII without trailing dot, or an IP address without brackets.

    Refuses a host that ends in a number but is not a dotted-quad IPv4 address (`0x7f000001`, `2130706433`,
    `017700000001`, `127.1`), because some programs read it as an address. Raises `AddressRefused`.
    """
    if not text or len(text) > _LONGEST_HOST + 2:
        raise AddressRefused(f"{_shown(text)} is not a host name.")
    if text.startswith("[") or ":" in text:
        return _bracketed(text)
    name = _ascii(text).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(_is_label(label) for label in labels):
        raise AddressRefused(f"{_shown(text)} is not a host name.")
    if labels[-1].isdigit() or labels[-1].startswith("0x"):
        address = _address(name)
        if address is None:
            raise AddressRefused(f"{_shown(text)} is an unusual spelling of an address: write it as 93.184.216.34.")
        return str(address)
    return name


def endpoint_of(text: str, port: int | None = None) -> Endpoint:
    """Parse `host:port`, or a host alone, which then gets the default `port`. Raises `AddressRefused`."""
    host, colon, digits = text.rpartition(":")
    if not colon or digits.endswith("]") or (":" in host and not host.startswith("[")):
        host, digits = text, "" if port is None else str(port)
    return Endpoint(host_of(host), _port(digits, text))


_SERVICES = {
    **{"postgresql": 5432, "postgres": 5432, "http": 80, "https": 443},
    **{"redis": 6379, "rediss": 6379, "sentinel": 26379, "sentinels": 26379},
}


def services_in(addresses: Iterable[str | None]) -> tuple[Endpoint, ...]:
    """The network endpoints named in these database, broker and service URLs.

    Files, Unix sockets, unknown schemes and unparsable hosts are left out.
    """
    endpoints: list[Endpoint] = []
    for address in filter(None, addresses):
        scheme, _, rest = address.partition("://")
        port = 0 if scheme.endswith("+socket") else _SERVICES.get(scheme.partition("+")[0], 0)
        authority = rest.partition("/")[0].partition("?")[0].rpartition("@")[2].split(",")
        places = [*_hosts_in_query(rest), *filter(None, authority)] or ["localhost"]
        for place in places if port else ():
            with suppress(AddressRefused):
                endpoints.append(endpoint_of(place, port))
    return tuple(endpoints)


def _hosts_in_query(rest: str) -> list[str]:
    """The hosts of a libpq address that names them in its query, singly or as lists, with their ports."""
    query = parse_qs(rest.partition("?")[2])
    hosts = [host for name in ("host", "hostaddr") for listed in query.get(name, ()) for host in listed.split(",")]
    ports = [port for listed in query.get("port", ()) for port in listed.split(",")]
    if len(ports) == 1:
        ports *= len(hosts)
    named = zip_longest(hosts, ports[: len(hosts)], fillvalue="")
    bracketed = ((f"[{host}]" if host.count(":") > 1 else host, port) for host, port in named if host)
    return [f"{host}:{port}" if port and not _has_port(host) else host for host, port in bracketed]


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")


def url_of(text: str) -> Url:
    """Parse an http or https URL; one with a user or password is refused. Raises `AddressRefused`."""
    if len(text) > LONGEST_URL:
        raise AddressRefused(f"A URL has at most {LONGEST_URL:,} characters.")
    if any(character <= " " or character in "\\\x7f" or character.isspace() for character in text):
        raise AddressRefused("A URL has no spaces, control characters or backslashes; encode them.")
    try:
        text.encode()
        parts = urlsplit(text)
    except ValueError as error:
        raise AddressRefused(f"{_shown(text)} is not a URL.") from error
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise AddressRefused(f"Only http:// and https:// are fetched, and not {_shown(text)}.")
    if "@" in parts.netloc:
        raise AddressRefused("A URL holds no user and no password.")
    target = quote(parts.path or "/", safe=_KEPT.replace("?", ""))
    if parts.query:
        target += "?" + quote(parts.query, safe=_KEPT)
    return Url(scheme, endpoint_of(parts.netloc.removesuffix(":"), _SCHEMES[scheme]), target)


class HostList:
    """An allow list of hosts.

    An entry is `name:port`, or `name` for ports 443 and 80. `*.name` covers all subdomains of a name at any depth, but
    not the name itself; `*` covers every host. Raises `AddressRefused` for an entry that is not a host.
    """

    def __init__(self, entries: Iterable[str] = (), ports: tuple[int, ...] = WEB_PORTS) -> None:
        self.names = tuple(entries)
        self._whole: set[Endpoint] = set()
        self._below: set[Endpoint] = set()
        self._every: set[int] = set()
        for entry in self.names:
            self._add(entry, ports)

    @classmethod
    def lenient(cls, entries: Iterable[str]) -> "HostList":
        """Skip entries that are not hosts. Only for a list that narrows another one, where they could cover nothing."""
        return cls(entry for entry in entries if _is_entry(entry))

    def _add(self, entry: str, ports: tuple[int, ...]) -> None:
        if entry == "*" or entry.startswith("*:"):
            digits = entry[2:]
            self._every.update([_port(digits, entry)] if digits else ports)
            return
        place = self._below if entry.startswith("*.") else self._whole
        plain = entry.removeprefix("*.")
        endpoints = {endpoint_of(plain, port) for port in ports}
        if place is self._below and any(endpoint.is_address for endpoint in endpoints):
            raise AddressRefused(f"{_shown(entry)}: nothing is below an address; name it as it is.")
        place.update(endpoints)

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        """The entries without a wildcard."""
        return frozenset(self._whole)

    def covers(self, endpoint: Endpoint) -> bool:
        if endpoint in self._whole or endpoint.port in self._every:
            return True
        if not self._below or endpoint.is_address:
            return False
        labels = endpoint.host.split(".")
        return any(Endpoint(".".join(labels[at:]), endpoint.port) in self._below for at in range(1, len(labels)))


def _is_entry(entry: str) -> bool:
    try:
        HostList([entry])
    except AddressRefused:
        return False
    return True


def _port(digits: str, whole: str) -> int:
    if not digits.isascii() or not digits.isdigit() or len(digits) > 5 or not 0 < int(digits) < 65_536:
        raise AddressRefused(f"{_shown(whole)}: a port is a number from 1 to 65535.")
    return int(digits)


def _bracketed(text: str) -> str:
    inner = text.removeprefix("[").removesuffix("]") if text.startswith("[") == text.endswith("]") else ""
    address = _address(inner)
    # An IPv6 zone (fe80::1%eth0) names a network interface of this machine, so it is no address of another host.
    if address is None or "%" in inner:
        raise AddressRefused(f"{_shown(text)} is not an IPv6 address.")
    return str(address)


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise AddressRefused(f"{_shown(text)} is not a host name.") from error


def _is_label(label: str) -> bool:
    return 0 < len(label) < 64 and _LABEL.issuperset(label) and label[0] != "-" and label[-1] != "-"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _shown(text: str) -> str:
    return ascii(text[:_SHOWN])

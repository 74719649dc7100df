"""Hosts, ports and URLs as they are written: one spelling of each, and lists of those that are allowed."""

import ipaddress
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

LONGEST_URL = 8_000
"""Characters of a URL that is looked at."""

WEB_PORTS = (443, 80)
"""Of a name in a list that says no port."""

_SCHEMES = {"http": 80, "https": 443}
_LONGEST_HOST = 253
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_KEPT = "/%:@!$&'()*+,;=~?"
_SHOWN = 200


class Refused(ValueError):
    """Nobody is asked: a sentence that says what is wrong with the address."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`host` in its one spelling (`host_of`) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_address(self) -> bool:
        return _address(self.host) is not None


@dataclass(frozen=True, slots=True)
class Url:
    """An address of the web: `target` is path and query, encoded; a fragment is nobody's but the reader's."""

    scheme: str
    endpoint: Endpoint
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """What stands in the header Host."""
        whole = str(self.endpoint)
        return whole.rpartition(":")[0] if self.endpoint.port == _SCHEMES[self.scheme] else whole


def host_of(text: str) -> str:
    """A host name in lower case ASCII without its last dot, or an address as it is usually written, without brackets.

    A host that ends in a number and is no usual IPv4 address (`0x7f000001`, `2130706433`, `017700000001`, `127.1`) is
    refused: some programs take it for one. Raises `Refused`.
    """
    if not text or len(text) > _LONGEST_HOST + 2:
        raise Refused(f"{_shown(text)} is not a host name.")
    if text.startswith("[") or ":" in text:
        return _bracketed(text)
    name = _ascii(text).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(_is_label(label) for label in labels):
        raise Refused(f"{_shown(text)} is not a host name.")
    if _is_number(labels[-1]):
        address = _address(name)
        if address is None:
            raise Refused(f"{_shown(text)} is an unusual spelling of an address: write it as 93.184.216.34.")
        return str(address)
    return name


def endpoint_of(text: str, port: int | None = None) -> Endpoint:
    """`host:port`, or the host alone where `port` says what is meant then. Raises `Refused`."""
    host, colon, digits = text.rpartition(":")
    if not colon or digits.endswith("]") or (":" in host and not host.startswith("[")):
        host, digits = text, "" if port is None else str(port)
    return Endpoint(host_of(host), _port(digits, text))


_SERVICES = {"postgresql": 5432, "postgres": 5432, "redis": 6379, "rediss": 6379, "http": 80, "https": 443}


def services_in(addresses: Iterable[str | None]) -> tuple[Endpoint, ...]:
    """Who answers at these addresses of databases, brokers and services; files and sockets are nobody's."""
    found: list[Endpoint] = []
    for address in filter(None, addresses):
        scheme, _, rest = address.partition("://")
        port = 0 if scheme.endswith("+socket") else _SERVICES.get(scheme.partition("+")[0], 0)
        for place in rest.partition("/")[0].partition("?")[0].rpartition("@")[2].split(",") if port else ():
            with suppress(Refused):
                found.append(endpoint_of(place or "localhost", port))
    return tuple(found)


def url_of(text: str) -> Url:
    """An http or https URL without user and password. Raises `Refused`."""
    if len(text) > LONGEST_URL:
        raise Refused(f"A URL has at most {LONGEST_URL:,} characters.")
    if any(one <= " " or one in "\\\x7f" or one.isspace() for one in text):
        raise Refused("A URL has no spaces, control characters or backslashes; encode them.")
    try:
        text.encode()
        parts = urlsplit(text)
    except ValueError as error:
        raise Refused(f"{_shown(text)} is not a URL.") from error
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise Refused(f"Only http:// and https:// are fetched, and not {_shown(text)}.")
    if "@" in parts.netloc:
        raise Refused("A URL holds no user and no password.")
    target = quote(parts.path or "/", safe=_KEPT.replace("?", ""))
    if parts.query:
        target += "?" + quote(parts.query, safe=_KEPT)
    return Url(scheme, endpoint_of(parts.netloc.removesuffix(":"), _SCHEMES[scheme]), target)


class HostList:
    """Hosts that may be reached, each as `name:port`, or `name` for ports 443 and 80; `*.name` are all hosts below a
    name, at any depth and without itself; `*` is every host. Raises `Refused`."""

    def __init__(self, entries: Iterable[str] = (), ports: tuple[int, ...] = WEB_PORTS) -> None:
        self.names = tuple(entries)
        self._whole: set[Endpoint] = set()
        self._below: set[Endpoint] = set()
        self._every: set[int] = set()
        for entry in self.names:
            self._add(entry, ports)

    @classmethod
    def whatever(cls, entries: Iterable[str]) -> "HostList":
        """Of a list that only leaves less of another one: what in it is no host covers nothing."""
        return cls(entry for entry in entries if _is_entry(entry))

    def _add(self, entry: str, ports: tuple[int, ...]) -> None:
        if entry == "*" or entry.startswith("*:"):
            digits = entry[2:]
            self._every.update([_port(digits, entry)] if digits else ports)
            return
        place = self._below if entry.startswith("*.") else self._whole
        plain = entry.removeprefix("*.")
        found = {endpoint_of(plain, port) for port in ports}
        if place is self._below and any(one.is_address for one in found):
            raise Refused(f"{_shown(entry)}: nothing is below an address; name it as it is.")
        place.update(found)

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        """Those that are named one by one."""
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
    except Refused:
        return False
    return True


def _port(digits: str, whole: str) -> int:
    if not digits.isascii() or not digits.isdigit() or len(digits) > 5 or not 0 < int(digits) < 65_536:
        raise Refused(f"{_shown(whole)}: a port is a number from 1 to 65535.")
    return int(digits)


def _bracketed(text: str) -> str:
    inner = text.removeprefix("[").removesuffix("]") if text.startswith("[") == text.endswith("]") else ""
    address = _address(inner)
    # A zone (fe80::1%eth0) names an interface of this machine.
    if address is None or "%" in inner:
        raise Refused(f"{_shown(text)} is not an IPv6 address.")
    return str(address)


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise Refused(f"{_shown(text)} is not a host name.") from error


def _is_label(label: str) -> bool:
    return 0 < len(label) < 64 and _LABEL.issuperset(label) and label[0] != "-" and label[-1] != "-"


def _is_number(label: str) -> bool:
    return label.isdigit() or label.startswith("0x")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _shown(text: str) -> str:
    return ascii(text[:_SHOWN])

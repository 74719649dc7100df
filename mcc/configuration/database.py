"""The address of a database and how it is reached: directly or through a connection pooler, on one of several hosts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

Pooler = Literal["auto", "none", "session", "transaction"]
"""What is between this process and PostgreSQL. "auto": found out when connecting; "transaction": whoever gives each
transaction to any of its connections, as PgBouncer does with pool_mode=transaction."""


@dataclass(frozen=True, slots=True)
class DatabaseAccess:
    """`url`: as in the setting `database_url`. `prepared`: the pooler keeps prepared statements."""

    url: str
    pooler: Pooler = "auto"
    prepared: bool = False


def with_hosts_in_query(url: str) -> str:
    """An address with a list of hosts as libpq takes it (`h1:5432,[::1]:5433`), written so that every reader of URLs
    accepts it: `host=h1,::1&port=5432,5433` in the query. Any other address is returned unchanged."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = _split(rest)
    login, at, hosts = authority.rpartition("@")
    if not separator or "," not in hosts:
        return url
    places = [_host_and_port(address) for address in hosts.split(",")]
    listed = f"host={quote(','.join(host for host, _ in places), safe=',:')}"
    if any(port for _, port in places):
        listed += f"&port={','.join(port for _, port in places)}"
    base, _, query = path.partition("?")
    return f"{scheme}://{login}{at}{slash or '/'}{base}?{listed}{'&' if query else ''}{query}"


def _split(rest: str) -> tuple[str, str, str]:
    """Authority, separator and what follows; a query may follow without a slash."""
    end = min((found for mark in "/?" if (found := rest.find(mark)) >= 0), default=len(rest))
    if rest[end : end + 1] == "?":
        return rest[:end], "/", rest[end:]
    return rest[:end], rest[end : end + 1], rest[end + 1 :]


def _host_and_port(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, after = place[1:].partition("]")
        return host, after.removeprefix(":")
    host, _, port = place.partition(":")
    return host, port


class UnreadableOptions(ValueError):
    """The `options` of an address hold more than settings, which only the server itself could read."""


def settings_in(options: str) -> Mapping[str, str]:
    """The settings in libpq's `options` (`-c NAME=VALUE`, `-cNAME=VALUE`, `--NAME=VALUE`), where a backslash keeps the
    character after it. Raises `UnreadableOptions`."""
    settings: dict[str, str] = {}
    words = _words(options)
    for word in words:
        setting = next(words, "") if word == "-c" else word[2:] if word.startswith(("-c", "--")) else ""
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise UnreadableOptions(
                "the options of the database address can hold only settings (-c NAME=VALUE) where a connection pooler "
                f"is in between, and not {word!r}"
            )
        settings[name.replace("-", "_")] = value
    return settings


def _words(options: str) -> Iterator[str]:
    word, begun, kept = "", False, False
    for character in options:
        if kept or not (character.isspace() or character == "\\"):
            word, begun, kept = word + character, True, False
        elif character == "\\":
            kept = True
        elif begun:
            yield word
            word, begun = "", False
    if begun:
        yield word

"""User and password in the addresses of servers: refused where they were cut, masked where an address is shown."""

import ipaddress
from urllib.parse import urlsplit

ENCODE = "encode @ / # as %40 %2F %23 (and : ? % [ ] as %3A %3F %25 %5B %5D) in user and password"

_ENDS = "/?#"


def unreadable(address: str, *, numbered: bool = False) -> str:
    """Why user, password and host in the address of a server cannot be told apart, as part of a sentence, in which no
    part of the address stands; "" where they can.

    A raw password ends at its first `/`, `#` or `?`. What is left of it would be taken for a host or a database, and
    be shown. `numbered`: the path can only be the number of a database.
    """
    authority, rest = _split(address)
    path, _, query = rest.partition("?")
    user, _, hosts = authority.rpartition("@")
    if "#" in rest or "@" in rest or "@" in user or any(character in user for character in "[]"):
        return f"user, password and host cannot be told apart: {ENCODE}"
    if any(character.isspace() or not character.isprintable() for character in authority):
        return f"a blank stands in user, password or host: write %20, and {ENCODE}"
    if not all(map(_is_place, hosts.split(","))):
        return f"a host or port is invalid, or a password was cut off: {ENCODE}"
    if numbered and not path.removeprefix("/").isdecimal() and path not in ("", "/"):
        return f"the path is not the number of a database, or else a password was cut: {ENCODE}"
    if not all("=" in part for part in query.split("&") if part):
        return f"after the ? stand no pairs name=value, or else a password was cut: {ENCODE}"
    return ""


def without_password(address: str) -> str:
    """`address` for display: `***` stands for the password of its user, and for passwords among its parameters."""
    scheme, mark, _ = address.partition("://")
    authority, rest = _split(address)
    user, at, host = authority.rpartition("@")
    name, colon, _ = user.partition(":")
    path, question, query = rest.partition("?")
    shown = "&".join(_masked(part) for part in query.split("&"))
    return f"{scheme}{mark}{name}{colon}{'***' if colon else ''}{at}{host}{path}{question}{shown}" if mark else address


def is_loopback(host: str) -> bool:
    """Whether `host` is `localhost` or a loopback address, in any spelling of a URL; no name is resolved."""
    plain = host.strip("[]").rstrip(".").lower()
    if plain == "localhost":
        return True
    try:
        address = ipaddress.ip_address(plain.partition("%")[0])
    except ValueError:
        return False
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (inner or address).is_loopback


def _split(address: str) -> tuple[str, str]:
    """What stands between `://` and the path, and all that follows."""
    whole = address.partition("://")[2]
    end = min((at for mark in _ENDS if (at := whole.find(mark)) >= 0), default=len(whole))
    return whole[:end], whole[end:]


def _is_place(place: str) -> bool:
    """Whether this can be a host with or without a port, or nothing, as before a path of a socket."""
    try:
        parts = urlsplit(f"//{place}")
        _ = parts.port
    except ValueError:
        return False
    return parts.netloc == place


def _masked(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=***" if equals and name.lower().endswith("password") else parameter

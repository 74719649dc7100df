"""The check against server-side request forgery: a host may only resolve to public addresses, never to our services."""

import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from mcc.addresses.names import AddressRefused, Endpoint

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Resolve a host name to its addresses; an empty result when it has none. Must not block the event loop."""

Dial = Callable[[Endpoint], Endpoint]
"""Map a checked address to the one that is dialled. The identity in production; tests redirect to a local server."""

_KNOWN_SECONDS = 30.0
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TEREDO = ipaddress.IPv6Network("2001::/32")
_UNICAST = ipaddress.IPv6Network("2000::/3")
_NOBODY = (
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("192.88.99.0/24"),
    ipaddress.ip_network("3fff::/20"),
)
"""Ranges reserved for protocols and documentation that the `ipaddress` module of some Python versions calls global."""

_DISCARD_PORT = 9


def look_up(host: str) -> tuple[str, ...]:
    """The addresses of a host name by the system's resolver, () when there are none. Blocks."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))


def itself(endpoint: Endpoint) -> Endpoint:
    return endpoint


class AddressRule:
    """Decides which addresses a connection may go to.

    The caller must connect to exactly an address that `resolve` returned, and call it again for each new connection:
    a name may resolve to something else the next time (DNS rebinding).
    """

    def __init__(
        self,
        resolve: Resolve,
        *,
        own: Iterable[Endpoint] = (),
        allow_private: Iterable[Endpoint] = (),
        dial: Dial = itself,
        is_here: Callable[[Address], bool] | None = None,
    ) -> None:
        """`own` are services of this installation, which are never reachable. `allow_private` are endpoints that the
        operator allows although their addresses are not public. `is_here` tells whether an address belongs to this
        machine (None: ask the operating system)."""
        self._resolve = resolve
        self._own = frozenset(own)
        self._own_hosts = frozenset(endpoint.host for endpoint in self._own)
        self._private = frozenset(allow_private)
        self._dial = dial
        self._is_here = is_here or is_of_this_machine
        self._own_found: frozenset[Endpoint] = frozenset()
        self._known_until = 0.0

    async def resolve(self, endpoint: Endpoint) -> tuple[Endpoint, ...]:
        """All addresses of the endpoint's host, in the order in which to try them. Raises `AddressRefused`.

        One forbidden address refuses the whole host, because the owner of the name decides which address comes first.
        """
        private = endpoint in self._private
        if endpoint in self._own or (endpoint.host in self._own_hosts and not private):
            raise AddressRefused(f"{endpoint} is a service of this installation, which nobody reaches from here.")
        hosts = (endpoint.host,) if endpoint.is_address else await self._resolve(endpoint.host)
        addresses = [ipaddress.ip_address(host.partition("%")[0]) for host in hosts]
        if not addresses:
            raise AddressRefused(f"{endpoint.host} has no address: check the name.")
        services = await self._services()
        for address in addresses:
            self._check(endpoint, address, private)
            # By address too: another name, or none, may lead to the same service.
            if Endpoint(str(unmapped(address)), endpoint.port) in services:
                raise AddressRefused(f"{endpoint} is a service of this installation, which nobody reaches from here.")
        return tuple(self._dial(Endpoint(str(address), endpoint.port)) for address in addresses)

    def _check(self, endpoint: Endpoint, address: Address, private: bool) -> None:
        # An IPv6 address may carry an IPv4 one, which is then the one that is reached.
        plain = unmapped(address)
        # Whatever the operator allows: link-local addresses are where clouds keep the credentials of a machine.
        if plain.is_link_local or plain.is_unspecified or plain.is_multicast:
            raise AddressRefused(f"{endpoint} leads to {address}, which is never reached from here.")
        if private:
            return
        if not is_public(plain):
            raise AddressRefused(f"{endpoint} leads to {address}, which is not a public address.")
        if self._is_here(plain):
            raise AddressRefused(f"{endpoint} leads to {address}, which is this machine.")

    async def _services(self) -> frozenset[Endpoint]:
        """The addresses of `own`. Resolved again every `_KNOWN_SECONDS`, because a service may move."""
        if time.monotonic() >= self._known_until:
            services: set[Endpoint] = set()
            for endpoint in self._own:
                addresses = (endpoint.host,) if endpoint.is_address else await self._resolve(endpoint.host)
                services.update(
                    Endpoint(str(unmapped(ipaddress.ip_address(each))), endpoint.port) for each in addresses
                )
            self._own_found = frozenset(services)
            self._known_until = time.monotonic() + _KNOWN_SECONDS
        return self._own_found


def unmapped(address: Address) -> Address:
    """The IPv4 address embedded in an IPv6 address (mapped, NAT64, 6to4), otherwise the address unchanged."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def is_public(address: Address) -> bool:
    """Whether this is the unicast address of a host on the internet. Call `unmapped` first: an embedded IPv4 address
    is not looked at here."""
    if not address.is_global or address.is_multicast or address.is_reserved or any(address in net for net in _NOBODY):
        return False
    # IANA assigns unicast addresses only in 2000::/3, whatever Python says; a Teredo address hides another one.
    return address.version == 4 or (address in _UNICAST and address not in _TEREDO)


def is_of_this_machine(address: Address) -> bool:
    """Whether the address belongs to a network interface of this machine. Sends no packet."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            # Connecting a UDP socket only picks a route; to an own address the kernel picks that address as the source.
            way.connect((str(address), _DISCARD_PORT))
            return str(way.getsockname()[0]) == str(address)
    except OSError:
        return False

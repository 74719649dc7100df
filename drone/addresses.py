"""Where tools of this drone may connect to: the rule of addresses, with what this installation has of its own."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from drone.agent.threads import in_thread
from drone.settings import Settings
from mcc.addresses import AddressRule, Endpoint, Refused, endpoint_of, look_up, url_of
from mcc.configuration.egress import endpoints_of

_PORTS = {"redis": 6379, "rediss": 6379, "postgresql": 5432}


def addresses_of(settings: Settings) -> AddressRule:
    """Private addresses are reached where the operator names them: in [sandbox.egress], and as a server's own."""
    named = (url_of(server.url).endpoint for server in settings.mcp.values() if server.url)
    private = (*endpoints_of(settings.sandbox.egress.allow_private), *named)
    return AddressRule(_resolved, own=services_of(settings), allow_private=private)


def services_of(settings: Settings) -> Iterator[Endpoint]:
    """Redis and the database of this installation, where they are reached by an address."""
    for url in (settings.redis_url, settings.database_url):
        parts = urlsplit(url)
        try:
            if parts.hostname:
                yield endpoint_of(parts.hostname, parts.port or _PORTS.get(parts.scheme.partition("+")[0], 0))
        except (Refused, ValueError):
            continue


async def _resolved(host: str) -> Sequence[str]:
    return await in_thread(look_up, host)

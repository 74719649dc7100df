"""Where tools of this drone may connect to: the rule of addresses, with what this installation has of its own."""

from collections.abc import Sequence

from drone.agent.threads import in_thread
from drone.settings import Settings
from mcc.addresses import AddressRule, look_up, url_of
from mcc.configuration.egress import endpoints_of


def addresses_of(settings: Settings, private: Sequence[str] = ()) -> AddressRule:
    """Private addresses are reached where the operator names them: in `private`."""
    return AddressRule(_resolved, own=settings.own_services, allow_private=endpoints_of(tuple(private)))


def addresses_of_servers(settings: Settings) -> AddressRule:
    """For MCP: private addresses are also those in [sandbox.egress], and a server's own."""
    named = (url_of(server.url).endpoint for server in settings.mcp.values() if server.url)
    allowed = (*settings.sandbox.egress.allow_private, *map(str, named))
    return addresses_of(settings, allowed)


async def _resolved(host: str) -> Sequence[str]:
    return await in_thread(look_up, host)

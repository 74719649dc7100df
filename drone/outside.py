"""The tools of this drone, what they reach of the world, and where its orders may work, by its settings."""

from collections.abc import Sequence
from dataclasses import replace

from drone.agent.threads import in_thread
from drone.egress.egress import Egress
from drone.egress.plan import ConfiguredSecret, Plan
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.contained import Contained
from drone.sandbox.paths import Roots
from drone.sandbox.private import Private
from drone.sandbox.protected import Protected
from drone.settings import Settings
from drone.tools.catalog import Toolbox
from drone.tools.own import OwnTools
from drone.tools.web import WebTools
from mcc.addresses import AddressRule, look_up, url_of
from mcc.configuration.network import endpoints_of
from mcc.configuration.running import AddedRoots

WORKTREES = "worktrees"
CHECKOUTS = "checkouts"
"""The directory of them in the data directory."""


def toolbox_of(settings: Settings, own: OwnTools) -> Toolbox:
    """The tools of this machine, as the operator wants them."""
    protected = Protected(settings.permission.protected)
    found = Toolbox.found(settings.prompts_dir, own, settings.sandbox, web_tools(settings), protected)
    return replace(found, shell=replace(found.shell, egress=egress_of(settings, found.shell.sandbox)))


def web_tools(settings: Settings) -> WebTools:
    """What the configuration lets agents read of the web."""
    web = settings.web
    key = settings.key(web.search.key_env) if web.search and web.search.key_env else None
    return WebTools.of(web, addresses_of(settings, web.allow_private), key, lambda data: settings.redactor.finds(data))


def egress_of(settings: Settings, sandbox: Bubblewrap | None) -> Egress | None:
    """The way out of programs in the sandbox; None where there is none."""
    if sandbox is None or isinstance(sandbox, Contained):
        return None
    return Egress(plan_of(settings), sandbox.custody)


def plan_of(settings: Settings) -> Plan:
    """What the configuration lets programs reach."""
    table = settings.sandbox
    secrets = tuple(
        ConfiguredSecret(name, settings.key(secret.env) or "", secret.hosts) for name, secret in table.secrets.items()
    )
    own = tuple(map(str, settings.own_services))
    return Plan(table.egress.allow, table.egress.allow_private, own, secrets)


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


def roots_of(settings: Settings) -> Roots:
    """Where orders of this drone may work."""
    added = AddedRoots(settings.data_dir)
    private = Private(
        settings.private_places(), except_below=(settings.data_dir / WORKTREES, settings.data_dir / CHECKOUTS)
    )
    return Roots(settings.workspace_roots, private, added=added)

"""What a drone's settings give its agents access to: tools, addresses, and directories to work in."""

from collections.abc import Sequence
from dataclasses import replace

from drone.egress.egress import Egress
from drone.egress.plan import ConfiguredSecret, EgressPlan
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.contained import Contained
from drone.sandbox.places.paths import Roots
from drone.sandbox.places.private import Private
from drone.sandbox.protection.protected import Protected
from drone.settings import Settings
from drone.threads import in_thread
from drone.tools.catalog import Toolbox
from drone.tools.frame.own import OwnTools
from drone.tools.web.reading import WebTools
from mcc.addresses import AddressRule, look_up, url_of
from mcc.configuration.network import endpoints_of
from mcc.configuration.running import AddedRoots

WORKTREES = "worktrees"
CHECKOUTS = "checkouts"
"""Names of their directories in the data directory."""


def toolbox_of(settings: Settings, own: OwnTools) -> Toolbox:
    """The tools that this machine offers, as configured; `own` are those of the operator."""
    protected = Protected(settings.permission.protected, settings.permission.unprotected)
    found = Toolbox.found(settings.prompts_dir, own, settings.sandbox, web_tools(settings), protected)
    return replace(found, shell=replace(found.shell, egress=egress_of(settings, found.shell.sandbox)))


def web_tools(settings: Settings) -> WebTools:
    """The tools with which the configuration lets agents read the web."""
    web = settings.web
    key = settings.key(web.search.key_env) if web.search and web.search.key_env else None
    return WebTools.of(web, addresses_of(settings, web.allow_private), key, lambda data: settings.redactor.finds(data))


def egress_of(settings: Settings, sandbox: Bubblewrap | None) -> Egress | None:
    """The proxy through which sandboxed programs reach allowed hosts; None where no bubblewrap runs programs."""
    if sandbox is None or isinstance(sandbox, Contained):
        return None
    return Egress(plan_of(settings), sandbox.custody)


def plan_of(settings: Settings) -> EgressPlan:
    """The hosts that the configuration lets sandboxed programs reach, and the secrets inserted for them."""
    table = settings.sandbox
    secrets = tuple(
        ConfiguredSecret(name, settings.key(secret.env) or "", secret.hosts) for name, secret in table.secrets.items()
    )
    own = tuple(map(str, settings.own_services))
    return EgressPlan(table.egress.allow, table.egress.allow_private, own, secrets)


def addresses_of(settings: Settings, private: Sequence[str] = ()) -> AddressRule:
    """The rule for addresses that tools may reach. Private addresses are allowed only where the operator names them, in
    `private`."""
    return AddressRule(
        lambda host: in_thread(look_up, host), own=settings.own_services, allow_private=endpoints_of(tuple(private))
    )


def addresses_of_servers(settings: Settings) -> AddressRule:
    """The rule for MCP servers: also allows the private addresses in [sandbox.egress], and those of the servers
    themselves."""
    named = (url_of(server.url).endpoint for server in settings.mcp.values() if server.url)
    allowed = (*settings.sandbox.egress.allow_private, *map(str, named))
    return addresses_of(settings, allowed)


def addresses_of_forges(settings: Settings) -> AddressRule:
    """The rule for forges: also allows the private addresses of the hosts that their tables name."""
    return addresses_of(settings, [str(endpoint) for forge in settings.forges.values() for endpoint in forge.endpoints])


def roots_of(settings: Settings) -> Roots:
    """The directories in which this drone's orders may work."""
    # The checkouts and worktrees that orders work in lie among MCC's own files, and are none of them.
    working = (settings.data_dir / WORKTREES, settings.data_dir / CHECKOUTS)
    private = Private(settings.private_places(), except_below=working)
    return Roots(settings.workspace_roots, private, added=AddedRoots(settings.data_dir))

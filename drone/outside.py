"""The tools of this drone, and what they reach of the world, by its settings."""

from dataclasses import replace

from drone.addresses import addresses_of
from drone.egress.egress import Egress
from drone.egress.plan import GivenSecret, Plan, texts
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.contained import Contained
from drone.sandbox.protected import Protected
from drone.settings import Settings
from drone.tools.catalog import Toolbox
from drone.tools.own import OwnTools
from drone.tools.web import WebTools


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
        GivenSecret(name, settings.key(secret.env) or "", secret.hosts) for name, secret in table.secrets.items()
    )
    own = texts(settings.own_services)
    return Plan(table.egress.allow, table.egress.allow_private, own, secrets)

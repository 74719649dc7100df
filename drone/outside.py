"""What tools of this drone reach of the world, by its settings."""

from drone.addresses import addresses_of
from drone.settings import Settings
from drone.tools.web import WebTools


def web_tools(settings: Settings) -> WebTools:
    """What the configuration lets agents read of the web."""
    web = settings.web
    key = settings.key(web.search.key_env) if web.search and web.search.key_env else None
    return WebTools.of(web, addresses_of(settings, web.allow_private), key, lambda data: settings.redactor.finds(data))

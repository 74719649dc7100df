"""Providers: the addresses that the operator set and those that may be asked, the default model."""

import http.client
import ipaddress
import json
from collections.abc import Callable, Iterator
from urllib.parse import SplitResult, urlsplit

from drone.settings import Settings
from mcc.configuration.providers import OLLAMA, PROVIDERS, Provider, provider
from mcc.rules.patterns import Pattern

PROBE_SECONDS = 0.3

_API_VERSION = Pattern(r"api-version=[0-9A-Za-z.-]{1,40}")


def addressed(name: str, settings: Settings) -> Provider | None:
    """The provider behind the address that the operator set for it; None when there is none of this name."""
    known = provider(name)
    address = settings.base_urls.get(name)
    return known.at(address) if known and address else known


def default_name(settings: Settings, probe: Callable[[str], str | None]) -> str | None:
    """The model of the first provider that has a key, or that is an Ollama with a model; None when there is none.

    `probe` answers the first model of the Ollama at an address.
    """
    for known in PROVIDERS:
        if any(map(settings.key, known.key_names)):
            return f"{known.name}/{known.first_model}"
    local = OLLAMA.at(settings.base_urls.get(OLLAMA.name, OLLAMA.base_url))
    model = probe(local.base_url.removesuffix(local.version_path))
    return model and f"{local.name}/{model}"


def first_model_of_ollama(base_url: str) -> str | None:
    """The newest model that the Ollama there can chat with; None when none answers within `PROBE_SECONDS`."""
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", f"{parts.path}/api/tags")
        told = json.loads(connection.getresponse().read(1 << 20))
        return next(_chatting(told), None)
    except (OSError, ValueError, http.client.HTTPException, RecursionError):
        return None
    finally:
        connection.close()


def _chatting(told: object) -> Iterator[str]:
    models = told.get("models") if isinstance(told, dict) else None
    for model in models if isinstance(models, list) else ():
        name = model.get("name") if isinstance(model, dict) else None
        if isinstance(name, str) and "embed" not in name:
            yield name


def host_of(base_url: str) -> str:
    """Host and port, without what might be a secret."""
    parts = _split(base_url)
    if parts is None or not parts.hostname:
        return "an unreadable address"
    return parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"


def problem_with(base_url: str, *, allow_http: bool = False) -> str | None:
    """Why models at this address cannot be asked; None when they can. `allow_http`: also at another machine."""
    if not base_url:
        return "every user of its provider has an address of their own: name it as base_url in [models.ALIAS]"
    parts = _split(base_url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return f"its base_url {base_url!r} is not an address; write https://host/path"
    if parts.username or parts.password:
        return "its base_url holds a user name or password; name the variable of the key in api_key_env instead"
    if (parts.query and not _API_VERSION.fullmatch(parts.query)) or parts.fragment:
        return "its base_url must end with the path, without # and, but for ?api-version=…, without ?"
    if parts.scheme == "http" and not allow_http and not is_on_this_machine(parts.hostname):
        return (
            f"its base_url is http and {parts.hostname} is not this machine; use https, or write allow_http = true "
            "into its table [models.…] of your own mcc.toml"
        )
    return None


def _split(base_url: str) -> SplitResult | None:
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def is_on_this_machine(host: str) -> bool:
    """Whether the name is that of the loopback, without asking anybody."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

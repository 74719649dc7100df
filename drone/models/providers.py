"""This room is for providers known by name: their addresses, keys and first models."""

import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from drone.models.prices import Price
from drone.settings import Settings

OLLAMA = "ollama"
OLLAMA_URL = "http://127.0.0.1:11434"
PROBE_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Provider:
    """`form`: openai or anthropic. `first_model`: asked where nobody names one."""

    name: str
    form: Literal["openai", "anthropic"]
    base_url: str
    key_name: str
    first_model: str


KNOWN = (
    Provider("anthropic", "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "claude-sonnet-4-6"),
    Provider("openai", "openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-4.1"),
    Provider("openrouter", "openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openrouter/auto"),
    Provider(OLLAMA, "openai", f"{OLLAMA_URL}/v1", "", ""),
)
"""In the order in which a default is looked for."""


def provider(name: str, settings: Settings) -> Provider | None:
    """The provider with the address that the operator set for it; None when there is none of this name."""
    known = next((one for one in KNOWN if one.name == name), None)
    if known is None:
        return None
    said = {
        "openai": settings.openai_base_url,
        "anthropic": settings.anthropic_base_url,
        OLLAMA: _ollama_url(settings) and f"{_ollama_url(settings)}/v1",
    }.get(name)
    return known if not said else Provider(name, known.form, said.rstrip("/"), known.key_name, known.first_model)


def default_name(settings: Settings, probe: Callable[[str], str | None]) -> str | None:
    """The model of the first provider that has a key, or that is an Ollama with a model; None when there is none.

    `probe` answers the first model of the Ollama at an address.
    """
    for known in KNOWN:
        if known.key_name and settings.key(known.key_name):
            return f"{known.name}/{known.first_model}"
    model = probe(_ollama_url(settings) or OLLAMA_URL)
    return model and f"{OLLAMA}/{model}"


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


def known_price(provider_name: str, model: str) -> Price | None:
    """What the list of the extra `cost` (genai-prices) says; None without it, or where it does not know the model."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None

    def per_million(usage: Usage) -> float:
        return float(calc_price(usage, model_ref=model, provider_id=provider_name).total_price) * 1000

    try:
        return Price(
            input=per_million(Usage(input_tokens=1000)),
            output=per_million(Usage(output_tokens=1000)),
            cached_input=per_million(Usage(input_tokens=1000, cache_read_tokens=1000)),
        )
    except LookupError:
        return None


def _chatting(told: object) -> Iterator[str]:
    models = told.get("models") if isinstance(told, dict) else None
    for model in models if isinstance(models, list) else ():
        name = model.get("name") if isinstance(model, dict) else None
        if isinstance(name, str) and "embed" not in name:
            yield name


def _ollama_url(settings: Settings) -> str | None:
    return settings.ollama_base_url and settings.ollama_base_url.rstrip("/").removesuffix("/v1")

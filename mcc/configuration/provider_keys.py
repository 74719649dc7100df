"""Which hosts the keys of known providers are for, and why one of them is not sent somewhere else."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

HOSTS: Mapping[str, tuple[str, ...]] = {
    "ANTHROPIC_API_KEY": ("api.anthropic.com",),
    "AZURE_OPENAI_API_KEY": ("openai.azure.com", "services.ai.azure.com"),
    "DEEPSEEK_API_KEY": ("api.deepseek.com",),
    "GEMINI_API_KEY": ("generativelanguage.googleapis.com",),
    "GOOGLE_API_KEY": ("generativelanguage.googleapis.com",),
    "GROQ_API_KEY": ("api.groq.com",),
    "MISTRAL_API_KEY": ("api.mistral.ai",),
    "OPENAI_API_KEY": ("api.openai.com",),
    "OPENROUTER_API_KEY": ("openrouter.ai",),
    "TOGETHER_API_KEY": ("api.together.xyz", "api.together.ai"),
    "XAI_API_KEY": ("api.x.ai",),
}
"""Variable to the provider's own hosts; those below one of them count as well."""

PORTS = {"http": 80, "https": 443}


class End(NamedTuple):
    """The other end of a connection; `host` is empty where an address has none."""

    scheme: str
    host: str
    port: int


def address_variable(key_name: str) -> str:
    """The variable that names another address beside a key: `OPENAI_BASE_URL` beside `OPENAI_API_KEY`."""
    return f"{key_name.removesuffix('_API_KEY')}_BASE_URL"


def refusal(key_name: str, base_url: str, beside: str | None) -> str | None:
    """Why the key in this variable is not sent to `base_url`; None when it may be.

    `beside` is the address that the environment names beside the key. A variable of no known provider may go anywhere:
    it was named for that address.
    """
    hosts, there = HOSTS.get(key_name), _end(base_url)
    if hosts is None or _is_one_of(there.host, hosts) or (there.host and beside and there == _end(beside)):
        return None
    return (
        f"the key in {key_name} is for {hosts[0]} and is not sent to {there.host or base_url!r}; name the variable of "
        f"that server's key in api_key_env, or set {address_variable(key_name)} in the environment to that address, "
        "or write send_key_to_other_host = true into its table [models.…] of your own mcc.toml"
    )


def _is_one_of(host: str, hosts: tuple[str, ...]) -> bool:
    return any(host == own or host.endswith(f".{own}") for own in hosts)


def _end(address: str) -> End:
    """Without a host for what is no address."""
    try:
        parts = urlsplit(address)
        return End(parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0))
    except ValueError:
        return End("", "", 0)

"""The table of providers known by name, and the hosts that their keys may be sent to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

Form = Literal["chat", "responses", "anthropic", "gemini"]
"""Wire forms: OpenAI's chat completions and Responses, Anthropic's Messages, Google's Gemini."""

OFFLINE: Final = "offline"
SCRIPTED: Final = "scripted"
WITHOUT_NETWORK = (OFFLINE, SCRIPTED)
"""Models of ours, where a provider may be named: rules in place of a language model, and replies from a file."""


@dataclass(frozen=True, slots=True)
class Provider:
    """`key_name`: the variable with its key; empty where none is needed. `first_model`: asked where nobody names one.

    `other_key_names`: variables in which people keep the same key; asked where `key_name` is not set.

    `version_path` ends every address of it, whether or not the address that is set for it says so. `form` is spoken at
    its own host, `form_elsewhere` at any other address that is set for it. Without a `base_url` every user has an
    address of their own at it, below one of `other_hosts`; `*` there stands for the rest of a label.
    `form_below`: a path, and what is spoken at its own addresses that end so.
    """

    name: str
    form: Form
    base_url: str
    key_name: str = ""
    first_model: str = ""
    version_path: str = ""
    form_elsewhere: Form | None = None
    other_hosts: tuple[str, ...] = ()
    form_below: tuple[str, Form] = ("", "chat")
    other_key_names: tuple[str, ...] = ()

    @property
    def key_names(self) -> tuple[str, ...]:
        """All variables that may hold its key, the first one first."""
        return (self.key_name, *self.other_key_names) if self.key_name else ()

    @property
    def address_setting(self) -> str:
        """The setting of drones that names another address, and in capitals the environment variable."""
        return f"{self.name}_base_url"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    def at(self, address: str) -> "Provider":
        """This provider behind another address."""
        address = address.rstrip("/").removesuffix(self.version_path) + self.version_path
        return replace(self, base_url=address)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Those that its key may be sent to; those below one of them count as well."""
        return tuple(filter(None, (self.host, *self.other_hosts)))

    def form_at(self, base_url: str) -> Form:
        """What is spoken at this address."""
        if not self.is_at(base_url):
            return self.form_elsewhere or self.form
        path, form = self.form_below
        return form if path and base_url.rstrip("/").endswith(path) else self.form

    def is_at(self, base_url: str) -> bool:
        """Whether this address is the provider's own."""
        return _is_one_of(_peer(base_url).host, self.hosts)


OLLAMA = Provider("ollama", "chat", "http://127.0.0.1:11434/v1", version_path="/v1")

OPENAI = Provider(
    "openai",
    "responses",
    "https://api.openai.com/v1",
    "OPENAI_API_KEY",
    "gpt-6.1-terra",
    form_elsewhere="chat",
)

PROVIDERS = (
    Provider("anthropic", "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "claude-sonnet-5-5"),
    OPENAI,
    Provider(
        "gemini",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        "gemini-3.8-flash",
        version_path="/v1beta",
        other_key_names=("GOOGLE_API_KEY",),
    ),
    Provider("openrouter", "chat", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openrouter/auto"),
    Provider("mistral", "chat", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-medium-latest"),
    Provider("deepseek", "chat", "https://api.deepseek.com", "DEEPSEEK_API_KEY", "deepseek-v4-pro"),
    Provider("xai", "chat", "https://api.x.ai/v1", "XAI_API_KEY", "grok-latest"),
    Provider("groq", "chat", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai/gpt-oss-120b"),
    Provider(
        "together",
        "chat",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        "openai/gpt-oss-120b",
        other_hosts=("api.together.ai",),
    ),
    Provider(
        "azure",
        "chat",
        "",
        "AZURE_OPENAI_API_KEY",
        other_hosts=("openai.azure.com", "services.ai.azure.com"),
        form_below=("/openai/v1", "responses"),
    ),
    Provider(
        "bedrock",
        "chat",
        "",
        "AWS_BEARER_TOKEN_BEDROCK",
        other_hosts=("bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"),
    ),
    Provider("vertex", "chat", "", other_hosts=("aiplatform.googleapis.com", "*-aiplatform.googleapis.com")),
    OLLAMA,
    Provider("vllm", "chat", "http://127.0.0.1:8000/v1", version_path="/v1"),
    Provider("llamacpp", "chat", "http://127.0.0.1:8080/v1", version_path="/v1"),
    Provider("lmstudio", "chat", "http://127.0.0.1:1234/v1", version_path="/v1"),
)
"""In the order in which a default is looked for. A model of theirs is named `provider/model`."""

LISTED_AS: Mapping[str, str] = {"gemini": "google", "xai": "x-ai"}
"""Providers that lists of prices know by other names."""

MAKERS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "google": "gemini",
    "mistralai": "mistral",
    "openai": "openai",
    "deepseek": "deepseek",
    "x-ai": "xai",
}
"""How names of models begin at those who serve other people's (`anthropic/claude-…`), to the row of their maker."""

FAMILIES: Mapping[str, str] = {"claude-": "anthropic", "gpt-": "openai"}
"""How names of models begin that are one maker's wherever they run, to the maker's row."""

NAMES = tuple(provider.name for provider in PROVIDERS)

KEY_NAMES = tuple(provider.key_name for provider in PROVIDERS if provider.key_name and provider.first_model)
"""Variables with a key that is enough to ask a model."""

HOSTS: Mapping[str, tuple[str, ...]] = {
    **{key_name: one.hosts for one in PROVIDERS for key_name in one.key_names},
}
"""Variable with a key to the provider's own hosts; those below one of them count as well."""

PORTS = {"http": 80, "https": 443}


class _Peer(NamedTuple):
    """Where an address leads; `host` is empty where it leads nowhere."""

    scheme: str
    host: str
    port: int


def provider(name: str) -> Provider | None:
    """The row of this name."""
    return next((one for one in PROVIDERS if one.name == name), None)


def provider_at(name: str, base_url: str) -> str:
    """Who answers there: the provider whose own address it is, else the one of this name."""
    there = (one.name for one in PROVIDERS if one.is_at(base_url) and not one.base_url.startswith("http://"))
    return next(there, name)


def form_at(name: str, base_url: str) -> Form:
    """What the provider of this name speaks at this address, or the one whose own address it is."""
    known = provider(provider_at(name, base_url))
    return known.form_at(base_url) if known else "chat"


def any_key(names: Iterable[str] = KEY_NAMES) -> str:
    """The names of keys for a sentence: `A, B or C`."""
    *before, last = names
    return f"{', '.join(before)} or {last}" if before else last


def address_variable(key_name: str) -> str:
    """The variable that names another address beside a key: `X_BASE_URL` beside `X_API_KEY`."""
    return f"{key_name.removesuffix('_API_KEY')}_BASE_URL"


def refusal(key_name: str, base_url: str, beside: str | None) -> str | None:
    """Why the key in this variable is not sent to `base_url`; None when it may be.

    `beside` is the address that the environment names beside the key. A variable of no known provider may go anywhere:
    it was named for that address.
    """
    hosts, there = HOSTS.get(key_name), _peer(base_url)
    if hosts is None or _is_one_of(there.host, hosts) or (there.host and beside and there == _peer(beside)):
        return None
    return (
        f"the key in {key_name} is for {hosts[0]} and is not sent to {there.host or base_url!r}; name the variable of "
        f"that server's key in api_key_env, or set {address_variable(key_name)} in the environment to that address, "
        "or write send_key_to_other_host = true into its table [models.…] of your own mcc.toml"
    )


def _is_one_of(host: str, hosts: tuple[str, ...]) -> bool:
    labels = host.split(".")
    return any(_is_below(labels, own.split(".")) for own in hosts)


def _is_below(labels: list[str], own: list[str]) -> bool:
    last = labels[-len(own) :]
    return len(last) == len(own) and all(
        label == wanted or (wanted.startswith("*") and label.endswith(wanted[1:]))
        for label, wanted in zip(last, own, strict=True)
    )


def _peer(address: str) -> _Peer:
    """Without a host for what is no address."""
    try:
        parts = urlsplit(address)
        return _Peer(parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0))
    except ValueError:
        return _Peer("", "", 0)

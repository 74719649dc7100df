"""The providers known by name, and the hosts to which their API keys may be sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

Form = Literal["chat", "responses", "anthropic", "gemini"]
"""Wire formats: OpenAI's Chat Completions and Responses, Anthropic's Messages, Google's Gemini."""

OFFLINE: Final = "offline"
SCRIPTED: Final = "scripted"
WITHOUT_NETWORK = (OFFLINE, SCRIPTED)
"""Built-in stand-ins for a provider: "offline" answers by rules without a language model, "scripted" from a file."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider of models.

    `key_name` is the environment variable with its API key, empty when it needs none; `other_key_names` are variables
    that commonly hold the same key, read when `key_name` is unset. `first_model` is the default model.

    `version_path` is appended to every address of the provider that does not already end with it. `form` is the wire
    format at its own hosts, `form_elsewhere` (None: the same) at any other address. `form_below` is a path and the
    format at own addresses that end with that path.

    An empty `base_url` means that each user has an address of their own, below one of `other_hosts`. A `*` in a label
    of those stands for any prefix of it, or for the whole label.
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
        """All variables that may hold its key, in order of precedence."""
        return (self.key_name, *self.other_key_names) if self.key_name else ()

    @property
    def address_setting(self) -> str:
        """The drone setting that overrides `base_url`; in capitals, the environment variable."""
        return f"{self.name}_base_url"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    def at(self, address: str) -> "Provider":
        """The same provider at another address."""
        address = address.rstrip("/").removesuffix(self.version_path) + self.version_path
        return replace(self, base_url=address)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts to which its key may be sent, subdomains included."""
        return tuple(filter(None, (self.host, *self.other_hosts)))

    def form_at(self, base_url: str) -> Form:
        """The wire format at this address."""
        if not self.is_at(base_url):
            return self.form_elsewhere or self.form
        path, form = self.form_below
        return form if path and base_url.rstrip("/").endswith(path) else self.form

    def is_at(self, base_url: str) -> bool:
        """Whether this address is at one of the provider's own hosts."""
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
"""In the order in which a default model is sought. Their models are named `provider/model`."""

LISTED_AS: Mapping[str, str] = {"gemini": "google", "xai": "x-ai"}
"""Providers that price lists call by another name."""

MAKERS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "google": "gemini",
    "mistralai": "mistral",
    "openai": "openai",
    "deepseek": "deepseek",
    "x-ai": "xai",
}
"""First part of model names at resellers (`anthropic/claude-…`) to the provider that makes the model."""

FAMILIES: Mapping[str, str] = {"claude-": "anthropic", "gpt-": "openai"}
"""Prefix of model names that belong to one maker wherever the model runs, to the provider that makes it."""

NAMES = tuple(provider.name for provider in PROVIDERS)

KEY_NAMES = tuple(provider.key_name for provider in PROVIDERS if provider.key_name and provider.first_model)
"""Key variables that suffice to use a provider, because it has a default model."""

HOSTS: Mapping[str, tuple[str, ...]] = {
    **{key_name: one.hosts for one in PROVIDERS for key_name in one.key_names},
}
"""Key variable to the provider's own hosts, subdomains included."""

PORTS = {"http": 80, "https": 443}


class _Peer(NamedTuple):
    """The peer that an address names; `host` is empty when it names none."""

    scheme: str
    host: str
    port: int


def provider(name: str) -> Provider | None:
    """The provider of this name, None when it is unknown."""
    return next((one for one in PROVIDERS if one.name == name), None)


def provider_at(name: str, base_url: str) -> str:
    """The name of the provider to whom this address belongs, else `name`."""
    # Local servers (http://127.0.0.1) are left out: their default address may belong to any program.
    owners = (one.name for one in PROVIDERS if one.is_at(base_url) and not one.base_url.startswith("http://"))
    return next(owners, name)


def form_at(name: str, base_url: str) -> Form:
    """The wire format at this address: that of the provider to whom it belongs, else of the provider `name`."""
    known = provider(provider_at(name, base_url))
    return known.form_at(base_url) if known else "chat"


def any_key(names: Iterable[str] = KEY_NAMES) -> str:
    """Key names joined for a sentence: `A, B or C`."""
    *before, last = names
    return f"{', '.join(before)} or {last}" if before else last


def address_variable(key_name: str) -> str:
    """The variable that overrides the address for a key: `X_BASE_URL` for `X_API_KEY`."""
    return f"{key_name.removesuffix('_API_KEY')}_BASE_URL"


def refusal(key_name: str, base_url: str, beside: str | None) -> str | None:
    """Why the key in this variable must not be sent to `base_url`; None when it may be.

    `beside` is the address that the environment sets together with the key (`address_variable`). A variable that
    belongs to no known provider may be sent anywhere, because the operator named it for that very address.
    """
    hosts, peer = HOSTS.get(key_name), _peer(base_url)
    if hosts is None or _is_one_of(peer.host, hosts) or (peer.host and beside and peer == _peer(beside)):
        return None
    return (
        f"the key in {key_name} is for {hosts[0]} and is not sent to {peer.host or base_url!r}; name the variable of "
        f"that server's key in api_key_env, or set {address_variable(key_name)} in the environment to that address, "
        "or write send_key_to_other_host = true into its table [models.…] of your own mcc.toml"
    )


def _is_one_of(host: str, hosts: tuple[str, ...]) -> bool:
    labels = host.split(".")
    return any(_is_at_or_below(labels, own.split(".")) for own in hosts)


def _is_at_or_below(labels: list[str], own: list[str]) -> bool:
    last = labels[-len(own) :]
    return len(last) == len(own) and all(
        label == wanted or (wanted.startswith("*") and label.endswith(wanted[1:]))
        for label, wanted in zip(last, own, strict=True)
    )


def _peer(address: str) -> _Peer:
    try:
        parts = urlsplit(address)
        return _Peer(parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0))
    except ValueError:
        return _Peer("", "", 0)

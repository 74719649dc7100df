"""Settings of a drone. No other module of `drone` reads the environment or mcc.toml."""

import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    PrivateAttr,
    SecretStr,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from mcc.addresses import Endpoint, is_loopback, services_in
from mcc.configuration.file import Configuration
from mcc.configuration.mcp_servers import McpServer, ServerName
from mcc.configuration.network import Sandbox, Web
from mcc.configuration.places import config_home, own_agents, own_files
from mcc.configuration.providers import NAMES, OFFLINE, PROVIDERS, WITHOUT_NETWORK, Form, address_variable
from mcc.configuration.settings import PREFIX, SHARED_TABLES, BadSettings, ModuleName, SharedSettings, absolute
from mcc.configuration.trust import TrustStore
from mcc.contracts.order import ModelName, Temperature, Thinking
from mcc.contracts.shape import Closed, Name
from mcc.contracts.similar import close_matches, did_you_mean
from mcc.redaction import Redactor, WatchedSecrets
from mcc.redaction.secrets import looks_secret

OWN_TABLES = frozenset({"models", "defaults", "roles", "tools", "sandbox", "web", "mcp"}) | SHARED_TABLES

NOT_IN_THE_ENVIRONMENT = OWN_TABLES | {"keys", "base_urls"}
"""Fields without an environment variable: tables of the file, or arguments only. `base_urls` has one setting per
provider instead."""

ADDRESS_SETTINGS = {one.address_setting: one.name for one in PROVIDERS}
"""Setting to provider, such as `openai_base_url`, which is `OPENAI_BASE_URL` in the environment."""

PROXY_ADDRESS = r"^https?://[^/@\s]+/?$"
FROM_ENVIRONMENT = "environment"
METRICS_ADDRESS = r"^(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$"
PROXY = rf"^{FROM_ENVIRONMENT}$|{PROXY_ADDRESS}"

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderText = Annotated[str, Field(pattern=r"^[\x20-\x7e]{1,8000}$")]

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Price(Closed):
    """US dollars per million tokens. None: costs the same as `input`; for `cache_write_1h`, the same as
    `cache_write`."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None
    cache_write: Annotated[float, Field(ge=0)] | None = None
    cache_write_1h: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _former_name(cls, given: Any) -> Any:
        """Accept `cached_input`, the former name of `cached`."""
        if isinstance(given, Mapping) and "cached_input" in given and "cached" not in given:
            others = {name: value for name, value in given.items() if name != "cached_input"}
            return {**others, "cached": given["cached_input"]}
        return given


def words(value: Any) -> Any:
    """Split a command given as one text into words by a shell's rules; no shell ever runs it."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"cannot be read as a command: {error}") from error


class ModelConfig(Closed):
    """One table [models.ALIAS]. `api_key_env` names an environment variable; `fallback` lists models to use instead.

    `context_tokens`: size of its context; None = from the table of models, else from its server.

    `api`: the wire format; None = the one that the provider uses at that address.

    `images`: whether it accepts images; None = as the table of models says, else not. `pictures`: the most of them in
    one request; None = as its provider says.

    `first_token_seconds`, `stall_seconds`: longest silence of a streamed reply before and after its first token.
    `retry_seconds`: how long a busy or broken provider is retried before the agent waits for it; None = 300, or 10 with
    a fallback.

    `key_command`: a program with its arguments that prints the key; `key_seconds`: how long each key is used, None =
    until it is refused.

    `call_seconds`: longest duration of a whole call, whether its reply is streamed or not.

    `thinking`, `temperature`: the defaults for agents where neither order, agent file nor parent says otherwise.
    `extra_body`, `extra_headers`: are part of every request, and replace fields and headers of the same name.

    `cache_replies`: answers an identical request with the earlier reply, from this process's memory.

    `allow_http`: `base_url` may use http to another machine. `proxy`: an address, or `environment` for what the
    variables HTTPS_PROXY and NO_PROXY say about https to other machines.

    `send_key_to_other_host`: a known provider's key may be sent to `base_url` although that is another host.
    """

    provider: str
    api: Form | None = None
    base_url: str | None = None
    model: str = ""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    key_command: Annotated[tuple[str, ...], BeforeValidator(words)] = ()
    key_seconds: Positive | None = None
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    images: bool | None = None
    pictures: Annotated[int, Field(ge=0, le=500)] | None = None
    thinking: Thinking = "inherit"
    temperature: Temperature | None = None
    extra_body: Annotated[Mapping[str, JsonValue], WithJsonSchema({"type": "object"})] = {}
    extra_headers: Mapping[HeaderName, HeaderText] = Field(default={}, repr=False)
    cache_ttl: Literal["5m", "1h"] = "5m"
    cache_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None
    cache_replies: bool = False
    send_key_to_other_host: bool = False
    allow_http: bool = False
    proxy: Annotated[str, Field(pattern=PROXY)] | None = None
    stream: bool = True
    first_token_seconds: Positive = 300.0
    stall_seconds: Positive = 120.0
    call_seconds: Positive | None = None
    retry_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    fallback: tuple[str, ...] = ()
    price: Price | None = None

    @field_validator("provider")
    @classmethod
    def _is_known(cls, value: str) -> str:
        known = (*NAMES, *WITHOUT_NETWORK)
        if value not in known:
            near = close_matches(value, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"there is no provider {value!r}; {hint}")
        return value

    @field_validator("base_url")
    @classmethod
    def _an_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/") if value else value

    @field_validator("key_command")
    @classmethod
    def _a_program(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if words and (not words[0] or ("/" in words[0] and not words[0].startswith(("/", "~/")))):
            raise ValueError("begins with the name of a program, or with its whole path")
        return words

    @model_validator(mode="after")
    def _one_key(self) -> "ModelConfig":
        if self.key_command and self.api_key_env:
            raise ValueError("api_key_env and key_command both say where the key is: leave one of them out")
        return self

    @model_validator(mode="after")
    def _names_a_model(self) -> "ModelConfig":
        if self.provider not in WITHOUT_NETWORK and not self.model:
            raise ValueError(f'provider {self.provider} needs model = "…", the name that the provider knows')
        return self


class Defaults(Closed):
    """The table [defaults]. `model` is used where neither order nor agent file names one."""

    model: str | None = None


class ToolModules(Closed):
    """The table [tools]. `modules` are files beside the operator's own mcc.toml, or names of importable modules."""

    modules: tuple[ModuleName, ...] = ()


class Settings(SharedSettings):
    """All settings of a drone, each from the arguments, else the environment, else mcc.toml, else its default.

    Raises `BadSettings`.
    """

    prefixes: ClassVar[tuple[str, ...]] = ("DRONE_", PREFIX)
    without_variable: ClassVar[frozenset[str]] = NOT_IN_THE_ENVIRONMENT
    own_tables: ClassVar[frozenset[str]] = OWN_TABLES

    redis_url: str = "redis://127.0.0.1:6379/0"
    slots: Annotated[int, Field(ge=1, le=10_000)] = 200
    name: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}"
    )
    memory_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    memory_shares: Annotated[int, Field(ge=1)] = 1
    poll_seconds: Positive = 5.0
    park_after_seconds: Positive = 20.0
    canary_seconds: Positive = 30.0
    canary_patience_seconds: Positive = 20.0
    database_wait_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0
    drain_cancel_seconds: Annotated[float, Field(ge=0)] = 5.0
    drain_hand_back_seconds: Annotated[float, Field(ge=0)] = 8.0
    wedged_seconds: Positive = 30.0
    checkpoint_days: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = 30.0
    checkout_days: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = 30.0
    checkouts_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20_000.0
    heartbeat: Annotated[int | None, Field(ge=0)] = None
    metrics: Annotated[str, Field(pattern=METRICS_ADDRESS)] | None = None
    """HOST:PORT at which this drone serves its Prometheus metrics to everybody who reaches it; None: nowhere."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    egress_proxy: Annotated[str, Field(pattern=PROXY_ADDRESS)] | None = None

    base_urls: Mapping[str, str] = {}
    models: Mapping[Name, ModelConfig] = {}
    defaults: Defaults = Defaults()
    roles: Mapping[Name, ModelName] = {}
    tools: ToolModules = ToolModules()
    sandbox: Sandbox = Sandbox()
    web: Web = Web()
    mcp: Mapping[ServerName, McpServer] = {}
    keys: Mapping[str, SecretStr] = Field(default={}, repr=False)
    _watched: WatchedSecrets | None = PrivateAttr(default=None)

    def __init__(self, environ: Mapping[str, str] = os.environ, /, **given: Any) -> None:
        values, files = self.resolve(environ, Path(), given)
        with self.plain_errors(given, environ, files):
            super().__init__(**values)
        self._configuration = files

    @model_validator(mode="before")
    @classmethod
    def _addresses(cls, given: Any) -> Any:
        """Gather the settings of providers' addresses in `base_urls`."""
        others = {name: value for name, value in given.items() if name not in ADDRESS_SETTINGS}
        named = {provider: given[name] for name, provider in ADDRESS_SETTINGS.items() if given.get(name)}
        return others | {"base_urls": {**given.get("base_urls", {}), **named}}

    @model_validator(mode="after")
    def _roles_have_models(self) -> "Settings":
        for role, name in self.roles.items():
            prefix, slash, _ = name.partition("/")
            if name not in self.models and name != OFFLINE and not (slash and prefix in NAMES):
                known = (*self.models, OFFLINE)
                raise ValueError(f"[roles] {role}: there is no model {name!r}{did_you_mean(name, known)}")
        return self

    @classmethod
    def in_environment(cls, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield from super().in_environment(environ)
        for name in ADDRESS_SETTINGS:
            if address := environ.get(name.upper()):
                yield name, address

    @classmethod
    def in_files(cls, files: Configuration) -> Mapping[str, Any]:
        """The tables for drones, and the shared settings in [mcc]. Raises `BadSettings`."""
        table = files.table("drone")
        for name in NOT_IN_THE_ENVIRONMENT & table.keys():
            raise BadSettings(
                f"{files.own}: {name} does not belong under [drone]; models, defaults and roles are tables of their "
                "own, and keys stay out of files: name an environment variable with api_key_env"
            )
        shared = {name: value for name, value in files.table("mcc").items() if name in SharedSettings.model_fields}
        return {**shared, **table, **cls.whole_tables(files)}

    def key(self, name: str) -> str | None:
        """The secret named `name`, given to this object or else in the environment; None when there is none."""
        given = self.keys.get(name)
        return given.get_secret_value() if given else os.environ.get(name) or None

    def address_beside(self, key_name: str) -> str | None:
        """The address that accompanies a provider's key in the environment or the arguments; never one from a file."""
        variable = address_variable(key_name)
        setting = variable.lower()
        address = self.base_urls.get(ADDRESS_SETTINGS.get(setting, ""))
        from_a_file = address == self.configuration.table("drone").get(setting)
        return address if address and not from_a_file else os.environ.get(variable) or None

    def proxy_of(self, config: ModelConfig, base_url: str) -> str | None:
        """The proxy for calls of the model; empty = no proxy, None = its table does not say."""
        if config.proxy != FROM_ENVIRONMENT:
            return config.proxy
        parts, proxies = urlsplit(base_url), getproxies_environment()
        if is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc):
            return ""
        # By http a proxy reads the key. That it may is said by an address in the table, never by the environment.
        return proxies.get("https") or proxies.get("all") if parts.scheme == "https" else None

    @property
    def redactor(self) -> Redactor:
        """Removes known secrets from texts. Learns tokens and logins that are created later; replaced ones stay
        secret."""
        return self._watching()

    def learn(self, secret: str) -> None:
        """Redact this secret as well, also in redactors that were handed out before."""
        self._watching.learn(secret)

    @property
    def _watching(self) -> WatchedSecrets:
        if self._watched is None:
            self._watched = WatchedSecrets(self.secret_files, self.secrets)
        return self._watched

    def secrets(self) -> frozenset[str]:
        """All known secrets: keys, the operator's token, Flower's login, passwords in addresses, and those in the
        environment."""
        named = {*self.keys, *self._named_keys()} - {""}
        keys = (*map(self.key, named), *(value for name, value in os.environ.items() if name.endswith("_API_KEY")))
        headers = (text for model in self.models.values() for text in secret_headers(model.extra_headers))
        return self.secrets_here(os.environ, (*keys, *headers), (model.base_url for model in self.models.values()))

    def _named_keys(self) -> Iterator[str]:
        """Names of the environment variables that, by the tables of the file, hold a secret."""
        yield from (model.api_key_env or "" for model in self.models.values())
        yield from (secret.env for secret in self.sandbox.secrets.values())
        yield from (remote.token_env or "" for remote in self.workspaces.git)
        yield from (forge.token_env for forge in self.forges.values())
        yield self.web.search.key_env or "" if self.web.search else ""
        yield from (name for server in self.mcp.values() for name in server.variables)

    def trust_store(self, environ: Mapping[str, str] = os.environ) -> TrustStore:
        """The record of which files by others this drone's user trusts."""
        return TrustStore.within(config_home(environ))

    def own_agents(self, environ: Mapping[str, str] = os.environ) -> Path:
        """The directory in which this drone's user keeps agents for all workspaces."""
        return own_agents(environ)

    @property
    def own_services(self) -> tuple[Endpoint, ...]:
        """The services of this installation that a drone knows of; no tool may reach them."""
        return services_in((self.database_url, self.redis_url, self.egress_proxy, os.environ.get("MCC_URL")))

    def private_places(self, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
        """The files and directories of MCC itself (data, configuration, secrets); no tool may see them."""
        files = (self.configuration.own, self.configuration.trusted, self.token_file)
        named = (absolute(file) for file in files if file)
        return (*super().private_places(environ), *named, *own_files(self.database_url, self.redis_url))


def secret_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """The keys in headers whose name says that they carry one."""
    for name, text in headers.items():
        if looks_secret(name) or name.lower() in ("authorization", "proxy-authorization", "cookie"):
            scheme, _, key = text.partition(" ")
            yield key if key and scheme.isalnum() else text


def load(*, join_family: bool = False, **given: Any) -> Settings:
    """Settings from all sources; None among `given` counts as not given. Raises `BadSettings`.

    With `join_family`, settings of a family running on the data directory rank between environment and mcc.toml.
    """
    named = {name: value for name, value in given.items() if value is not None}
    if not join_family:
        return Settings(**named)
    environ = Settings.with_family_files(os.environ, Path(), named)
    return Settings(environ, **named, **Settings.of_running_family(environ, Path(), named))

"""Models by name: builds each from the configuration, with retries, fallbacks and prices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from drone.agent.ports.model import (
    Ask,
    Listener,
    Model,
    ModelError,
    Reply,
)
from drone.models.cache import CachedModel
from drone.models.guards import LoopGuard, PaidModel, UnknownModel, UnpricedModel
from drone.models.prices import TokenPrices, known_model, known_price, unsupported_level
from drone.models.providers import (
    KeyCommand,
    address_problem,
    configured_provider,
    default_name,
    first_model_of_ollama,
    host_of,
)
from drone.models.retry import RETRY_SECONDS, RETRY_SECONDS_WITH_FALLBACK, Fallback, Retrying, RetryPolicy, Unpaused
from drone.settings import ModelConfig, Settings
from mcc.configuration.providers import OFFLINE, PROVIDERS, SCRIPTED, Provider, form_at, provider_at, refusal
from mcc.contracts.drones import Capability
from mcc.contracts.similar import close_matches, hints_keywords

if TYPE_CHECKING:
    from drone.models.transport import ModelWire


@dataclass(frozen=True, slots=True)
class Unusable:
    """A configured model that cannot be used; `problem` says what to do, `lacks_key` whether a key is missing."""

    name: str
    problem: str
    lacks_key: bool = False

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        raise ModelError(self.problem)


@hints_keywords
class Models:
    """The models of one drone. Each name gives one model, created on first use."""

    def __init__(self, settings: Settings, *, wire: ModelWire | None = None) -> None:
        self._settings = settings
        self._wire = wire
        self._made: dict[str, Model] = {}
        self._keys: dict[tuple[object, ...], KeyCommand] = {}

    def get(self, name: str) -> Model:
        """The model called `name` (alias, `provider/model`, or `offline`). Raises `UnknownModel`."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._with_cache(name, self._with_fallbacks(name))
        return made

    def unwrapped(self, name: str) -> Model:
        """The model called `name` without wrappers: no retries, no fallback.

        Raises `UnknownModel`.
        """
        model = self._without_retries(name, self._settings.models.get(name))
        return model.model if isinstance(model, LoopGuard) else model

    @property
    def default(self) -> Model:
        """The configured default, else the first provider with a key, a reachable Ollama, or the offline model."""
        return self.get(self.default_name)

    @cached_property
    def default_name(self) -> str:
        return self._settings.defaults.model or default_name(self._settings, first_model_of_ollama) or OFFLINE

    def capabilities(self) -> tuple[Capability, ...]:
        """Every named model and the default; `problem` says why one cannot be used."""
        default = self.default_name
        names = dict.fromkeys((default, *self._settings.models, OFFLINE))
        return tuple(self._capability(name).model_copy(update={"default": name == default}) for name in names)

    async def aclose(self) -> None:
        """Close the connections. A model handed out before opens new ones if it is asked again."""
        self._made.clear()
        if self._wire is not None:
            await self._wire.aclose()

    def _shared_wire(self) -> ModelWire:
        if self._wire is None:
            from drone.models.transport import ModelWire

            self._wire = ModelWire(proxy=self._settings.egress_proxy)
        return self._wire

    def _capability(self, name: str) -> Capability:
        config = self._settings.models.get(name)
        try:
            made = self.get(name)
        except UnknownModel as error:
            return Capability(name=name, problem=str(error))
        problem = made.problem if isinstance(made, Unusable) else None
        at = f" at {host_of(config.base_url)}" if config is not None and config.base_url else ""
        return Capability(name=name, description=f"{made.name}{at}", problem=problem)

    def _with_cache(self, name: str, model: Model) -> Model:
        config = self._settings.models.get(name)
        keeps = config is not None and config.cache_replies and not isinstance(model, Unusable)
        return CachedModel(model) if keeps else model

    def _with_fallbacks(self, name: str) -> Model:
        config = self._settings.models.get(name)
        if config is None or not config.fallback:
            return self._single(name)
        *before, last = name, *(other for other in config.fallback if other != name)
        return Fallback([*(self._single(other, has_fallback=True) for other in before), self._single(last)])

    def _single(self, name: str, *, has_fallback: bool = False) -> Model:
        """One model with its retries, no fallbacks. A model that `has_fallback` is retried for less long."""
        config = self._settings.models.get(name)
        model, policy = self._without_retries(name, config), _retry_policy(config, has_fallback)
        return Unpaused(Retrying(model, policy=policy)) if isinstance(model, LoopGuard) else model

    def _without_retries(self, name: str, config: ModelConfig | None) -> Model:
        if config is not None:
            return self._configured(name, config)
        if name == OFFLINE:
            return _offline()
        prefix, _, model = name.partition("/")
        known = configured_provider(prefix, self._settings)
        if known is not None and model:
            return self._remote(name, ModelConfig(provider=known.name, model=model), known)
        raise UnknownModel(self._unknown_message(name))

    def _configured(self, name: str, config: ModelConfig) -> Model:
        if config.provider == OFFLINE:
            return _offline()
        if config.provider == SCRIPTED:
            return _scripted(name, Path(config.model))
        known = configured_provider(config.provider, self._settings)
        if known is None:
            raise UnknownModel(f"The model {name} names a provider that does not exist, {config.provider!r}.")
        return self._remote(name, config, known)

    def _remote(self, name: str, config: ModelConfig, known: Provider) -> Model:
        """The model at its address, or `Unusable`. A key is sent only to the address it was configured for, and a
        provider's key only to that provider, unless the user allows it explicitly (`send_key_to_other_host`)."""
        base_url = config.base_url or known.base_url
        is_own_address = config.base_url is None or known.is_at(config.base_url)
        key_name = config.api_key_env or (self._key_name_of(known) if is_own_address and not config.key_command else "")
        key = (self._settings.key(key_name) or "").strip() if key_name else ""
        effective = f"{known.name}/{config.model}"
        problem = address_problem(base_url, allow_http=config.allow_http)
        if problem is None and (not_taken := unsupported_level(effective, config.thinking)):
            problem = f"it {not_taken}"
        lacks_key = problem is None and not key and bool(key_name) and _needs_key(config, base_url)
        if lacks_key:
            problem = f"it needs a key: set the environment variable {key_name}"
        if problem is None and key and not config.send_key_to_other_host:
            problem = refusal(key_name, base_url, self._settings.address_beside(key_name))
        if problem is None and key and not (key.isascii() and key.isprintable()):
            problem = f"the key in {key_name} has characters that no key has"
        if problem is not None:
            return Unusable(effective, f"The model {name} cannot be used: {problem}.", lacks_key)
        price = _price(config) or (None if config.base_url else known_price(known.name, config.model))
        alias = name if name in self._settings.models else ""
        return self._over_network(known, config, alias, base_url, key, key_name, price)

    def _key_name_of(self, known: Provider) -> str:
        """The environment variable that holds its key; the first one if none is set."""
        return next(filter(self._settings.key, known.key_names), known.key_name)

    def _over_network(
        self,
        known: Provider,
        config: ModelConfig,
        alias: str,
        base_url: str,
        key: str,
        key_name: str,
        price: TokenPrices | None,
    ) -> Model:
        from drone.models.dialects.forms import formats
        from drone.models.dialects.picture_limits import limits_of
        from drone.models.remote import ModelEndpoint, Remote, Timeouts

        row = known_model(known.name, config.model)
        images = row.images if config.images is None else config.images
        elsewhere = next(filter(self._settings.key, known.key_names), "")
        endpoint = ModelEndpoint(
            name=f"{known.name}/{config.model}",
            provider=provider_at(known.name, base_url),
            alias=alias,
            model=config.model,
            base_url=base_url,
            key=key,
            key_name=key_name or ("key_command" if config.key_command else ""),
            withheld="" if key_name or config.key_command else elsewhere,
            key_command=self._key_command(config),
            stream=config.stream,
            max_output_tokens=config.max_output_tokens,
            cache_ttl=config.cache_ttl,
            context_tokens=config.context_tokens,
            known=replace(row, images=images, cache_seconds=config.cache_seconds or row.cache_seconds),
            pictures=limits_of(known.name, config.pictures),
            price=price,
            thinking=config.thinking,
            temperature=config.temperature,
            extra_body=config.extra_body,
            extra_headers=config.extra_headers,
            allow_http=config.allow_http,
            proxy=self._settings.proxy_of(config, base_url),
            timeouts=Timeouts(config.first_token_seconds, config.stall_seconds, config.call_seconds),
        )
        form = formats[config.api or form_at(known.name, base_url)](endpoint)
        remote = Remote(endpoint, form, self._shared_wire(), asks_window=True)
        setting = f"[models.{alias}]" if alias else f'a table [models.NAME] with model = "{endpoint.model}"'
        if price is None:
            return UnpricedModel(remote, setting)
        return LoopGuard(remote) if price.is_free else PaidModel(remote)

    def _key_command(self, config: ModelConfig) -> KeyCommand | None:
        """Models with the same key command share one `KeyCommand`, and so its key."""
        if not config.key_command:
            return None
        same = (config.key_command, config.key_seconds)
        if same not in self._keys:
            argv, seconds = same
            self._keys[same] = KeyCommand(argv, self._settings.learn, key_seconds=seconds)
        return self._keys[same]

    def _unknown_message(self, name: str) -> str:
        names = [*self._settings.models, OFFLINE]
        prefix, slash, model = name.partition("/")
        owners = close_matches(prefix, [one.name for one in PROVIDERS], n=1) if slash and model else []
        near = [f"{owner}/{model}" for owner in owners] or close_matches(name, names, n=1)
        forms = ", ".join(f"{one.name}/…" for one in PROVIDERS)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}, and {forms}."
        return f"There is no model {name!r}. {hint}"


def _retry_policy(config: ModelConfig | None, has_fallback: bool) -> RetryPolicy:
    said = None if config is None else config.retry_seconds
    return RetryPolicy(said if said is not None else RETRY_SECONDS_WITH_FALLBACK if has_fallback else RETRY_SECONDS)


def _needs_key(config: ModelConfig, base_url: str) -> bool:
    """Whether a key is required: servers on this machine often need none, but a configured variable must hold one."""
    return bool(config.api_key_env) or (config.base_url is None and base_url.startswith("https://"))


def _price(config: ModelConfig) -> TokenPrices | None:
    said = config.price
    if said is None:
        return None
    return TokenPrices(said.input, said.output, said.cached, said.cache_write, said.cache_write_1h)


def _offline() -> Model:
    from drone.models.offline import OfflineModel

    return OfflineModel()


def _scripted(name: str, path: Path) -> Model:
    from drone.models.scripted import ScriptedModel, ScriptProblem, load

    try:
        return ScriptedModel(load(path), name=f"{SCRIPTED}/{name}", keep_asks=False)
    except ScriptProblem as error:
        return Unusable(f"{SCRIPTED}/{name}", str(error))

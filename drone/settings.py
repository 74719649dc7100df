"""This room is for what an operator sets: the one reader of the environment and of mcc.toml in drones."""

import os
import socket
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mcc.configuration.file import ConfigProblem, Configuration, configuration
from mcc.configuration.lists import paths_in
from mcc.configuration.own import own_directories, own_files
from mcc.configuration.places import config_home, default_data_dir
from mcc.configuration.provider_keys import address_variable
from mcc.configuration.trust import TrustStore
from mcc.contracts.order import Name
from mcc.contracts.shape import Closed
from mcc.redaction import FLOWER_FILE, TOKEN_FILE, Redactor, WatchedSecrets, secrets_among, text_of

SHARED = frozenset(
    {
        "database_url",
        "redis_url",
        "data_dir",
        "token",
        "token_file",
        "prompts_dir",
        "queues",
        "workspace_roots",
        "lease_seconds",
        "renew_seconds",
        "sweep_seconds",
        "disk_reserve_mb",
    }
)
"""What MCC and drones must agree on: also read from `MCC_*` and from the table [mcc]."""

REDIS_ADDRESS = r"^(redis|rediss|redis\+socket|unix)://"

NOT_IN_THE_ENVIRONMENT = frozenset({"models", "defaults", "keys", "configuration"})
"""Fields that are tables of the file, or arguments only."""

PROVIDER_NAMES = {
    "openai_base_url": "OPENAI_BASE_URL",
    "anthropic_base_url": "ANTHROPIC_BASE_URL",
    "ollama_base_url": "OLLAMA_BASE_URL",
}


class SettingsProblem(ValueError):
    """The configuration cannot be used; the message says what to change."""


def _names(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _paths(value: Any) -> Any:
    return paths_in(value) if isinstance(value, str) else value


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Price(Closed):
    """US dollars per million tokens; `cached_input` None means the price of `input`."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    cached_input: Annotated[float, Field(ge=0)] | None = None


class ModelConfig(Closed):
    """One table [models.ALIAS]. `api_key_env` names an environment variable; `fallback` lists models to ask instead.

    `send_key_to_other_host`: a known provider's key may go to `base_url` although that is not the provider's.
    """

    provider: Literal["openai", "anthropic", "offline", "scripted"]
    base_url: str | None = None
    model: str = ""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    context_tokens: Annotated[int, Field(ge=1)] = 128_000
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    send_key_to_other_host: bool = False
    stream: bool = True
    fallback: tuple[str, ...] = ()
    price: Price | None = None

    @field_validator("base_url")
    @classmethod
    def _an_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/") if value else value

    @model_validator(mode="after")
    def _names_a_model(self) -> "ModelConfig":
        if self.provider in ("openai", "anthropic") and not self.model:
            raise ValueError(f'provider {self.provider} needs model = "…", the name that the provider knows')
        return self


class Defaults(Closed):
    """The table [defaults]: `model` is used where neither order nor agent file names one."""

    model: str | None = None


class _Environment(PydanticBaseSettingsSource):
    """`DRONE_NAME`, then `MCC_NAME` for what is shared; an empty value counts as unset."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        names = [PROVIDER_NAMES.get(field_name, f"DRONE_{field_name.upper()}")]
        if field_name in SHARED:
            names.append(f"MCC_{field_name.upper()}")
        found = next((os.environ[name] for name in names if os.environ.get(name)), None)
        return found, field_name, False

    def __call__(self) -> dict[str, Any]:
        names = set(self.settings_cls.model_fields) - NOT_IN_THE_ENVIRONMENT
        _refuse_near_misses(names)
        found = {name: self.get_field_value(self.settings_cls.model_fields[name], name)[0] for name in names}
        return {name: value for name, value in found.items() if value is not None}


class _File(PydanticBaseSettingsSource):
    """mcc.toml: the tables [mcc] (what is shared), [drone], [models.*] and [defaults]."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError("the file is read as a whole")

    def __call__(self) -> dict[str, Any]:
        data_dir = self.current_state.get("data_dir") or _data_dir()
        try:
            files = configuration(os.environ, Path(), Path(data_dir))
        except ConfigProblem as problem:
            raise SettingsProblem(str(problem)) from problem
        for name in NOT_IN_THE_ENVIRONMENT & set(files.table("drone")):
            raise SettingsProblem(
                f"{files.own}: {name} does not belong under [drone]; models and defaults are tables of their own, and "
                "keys stay out of files: name an environment variable with api_key_env"
            )
        shared = {name: value for name, value in files.table("mcc").items() if name in SHARED}
        whole = {name: files.tables[name] for name in ("models", "defaults") if name in files.tables}
        return {**shared, **files.table("drone"), **whole, "configuration": files}


def _refuse_near_misses(names: set[str]) -> None:
    """`DRONE_SLOT` is an error that names `DRONE_SLOTS`; names that resemble none of ours belong to someone else."""
    known = {f"DRONE_{name.upper()}" for name in names}
    for name in os.environ:
        if name.startswith("DRONE_") and name not in known and (hint := _nearest(name, known)):
            raise SettingsProblem(f"There is no setting {name}{hint}")


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""


class Settings(BaseSettings):
    """Everything that a drone can be told: arguments, else the environment, else mcc.toml, else defaults."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())

    data_dir: Path = Field(default_factory=lambda: _data_dir())
    token: SecretStr | None = None
    token_file: Path | None = None
    database_url: str = ""
    redis_url: Annotated[str, Field(pattern=REDIS_ADDRESS)] = "redis://127.0.0.1:6379/0"
    prompts_dir: Path | None = None
    queues: Annotated[tuple[Name, ...], BeforeValidator(_names), Field(min_length=1)] = ("default",)
    slots: Annotated[int, Field(ge=1, le=10_000)] = 200
    name: Annotated[str, Field(max_length=100)] = ""
    workspace_roots: Annotated[tuple[Path, ...], BeforeValidator(_paths)] = ()

    lease_seconds: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 12.0
    renew_seconds: Positive = 1.0
    sweep_seconds: Positive = 0.5
    disk_reserve_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 64.0
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
    heartbeat: Annotated[int | None, Field(ge=0)] = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    egress_proxy: Annotated[str, Field(pattern=r"^https?://[^/@\s]+/?$")] | None = None

    openai_base_url: str | None = None
    anthropic_base_url: str | None = None
    ollama_base_url: str | None = None
    models: Mapping[Name, ModelConfig] = {}
    defaults: Defaults = Defaults()
    keys: Mapping[str, SecretStr] = Field(default={}, repr=False)
    configuration: Configuration = Field(default=Configuration(), repr=False, exclude=True)
    _watched: WatchedSecrets | None = PrivateAttr(default=None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls), _File(settings_cls)

    @model_validator(mode="before")
    @classmethod
    def _derived(cls, given: Any) -> Any:
        filled = dict(given)
        data_dir = _whole(Path(filled.get("data_dir") or _data_dir()))
        filled["data_dir"] = data_dir
        if not filled.get("database_url"):
            filled["database_url"] = f"sqlite:///{data_dir / 'mcc.db'}"
        if not filled.get("name"):
            filled["name"] = f"{socket.gethostname()}-{os.getpid()}"
        return filled

    @field_validator("data_dir", "token_file", "prompts_dir", "workspace_roots")
    @classmethod
    def _absolute(cls, value: Path | tuple[Path, ...] | None) -> Path | tuple[Path, ...] | None:
        if isinstance(value, tuple):
            return tuple(_whole(path) for path in value)
        return None if value is None else _whole(value)

    @model_validator(mode="after")
    def _lease_outlives_its_renewals(self) -> "Settings":
        if self.renew_seconds * 2 > self.lease_seconds:
            raise ValueError("lease_seconds must be at least twice renew_seconds, or every lease would run out")
        return self

    def key(self, name: str) -> str | None:
        """The secret that is called `name` (given to this object, else in the environment); None when there is none."""
        given = self.keys.get(name)
        return given.get_secret_value() if given else os.environ.get(name) or None

    def address_beside(self, key_name: str) -> str | None:
        """The address that the environment, or an argument, names beside the key of a provider; never one of a file."""
        variable = address_variable(key_name)
        field = next((field for field, name in PROVIDER_NAMES.items() if name == variable), "")
        said: str | None = getattr(self, field, None)
        from_a_file = said == self.configuration.table("drone").get(field)
        return said if said and not from_a_file else os.environ.get(variable) or None

    @property
    def redactor(self) -> Redactor:
        """Keeps out of every text what nobody may say. A token or login that is made later is known from then on; one
        that is replaced stays secret."""
        if self._watched is None:
            self._watched = WatchedSecrets(self._secret_files, self.secrets)
        return self._watched()

    def secrets(self) -> frozenset[str]:
        """Keys, the operator's token, Flower's login, passwords in addresses, and what the environment has of them."""
        named = {*self.keys, *(model.api_key_env or "" for model in self.models.values())} - {""}
        keys = {*map(self.key, named), *(value for name, value in os.environ.items() if name.endswith("_API_KEY"))}
        token, login = map(text_of, self._secret_files)
        given = self.token.get_secret_value() if self.token else None
        addresses = (self.database_url, self.redis_url, *(model.base_url for model in self.models.values()))
        return secrets_among(os.environ, (*keys, token, given), addresses, (login,))

    @property
    def _secret_files(self) -> tuple[Path, Path]:
        return self.token_file or self.data_dir / TOKEN_FILE, self.data_dir / FLOWER_FILE

    def trust_store(self, environ: Mapping[str, str] = os.environ) -> TrustStore:
        """What this drone's user trusted of files that others wrote."""
        return TrustStore.within(config_home(environ))

    def private_places(self, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
        """What belongs to MCC itself, data, configuration and secrets: no tool may see it."""
        files = (self.configuration.own, self.configuration.trusted, self.token_file)
        named = (_whole(Path(file)) for file in files if file)
        return (*own_directories(environ, self.data_dir), *named, *own_files(self.database_url, self.redis_url))


def _whole(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))


def _data_dir() -> Path:
    return Path(os.environ.get("MCC_DATA_DIR") or default_data_dir(os.environ))


def load(**given: Any) -> Settings:
    """Settings from all sources; None among `given` counts as not given. Raises `SettingsProblem`."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "settings"
        raise SettingsProblem(f"Setting {where}: {first['msg']}") from problem

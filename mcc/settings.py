"""This room is for settings: the only reader of the environment in mcc.

In this order, the first that says something wins: arguments, environment (`MCC_*`), `mcc.toml`, defaults.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from mcc.configuration.file import ConfigProblem, Configuration, configuration, nearest
from mcc.configuration.lists import paths_in
from mcc.configuration.own import own_directories
from mcc.configuration.places import config_home, default_data_dir
from mcc.configuration.trust import TrustStore
from mcc.redaction import FLOWER_FILE, TOKEN_FILE, Redactor, WatchedSecrets, secrets_among, text_of
from mcc.rules.patterns import Pattern

PREFIX = "MCC_"
ELSEWHERE = ("config", "trusted_config", "url")
"""`MCC_CONFIG` and `MCC_TRUSTED_CONFIG` name files, `MCC_URL` the service that clients call; none is a setting."""

REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+socket")
SHORTEST_TOKEN = 32


class BadSettings(Exception):
    """A setting that cannot be used; the message is a sentence that says which one and what it may be."""


def _listed(value: Any) -> Any:
    """Lists are written with commas in the environment."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _paths(value: Any) -> Any:
    return paths_in(value) if isinstance(value, str) else value


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))


def _own_database(settings: Mapping[str, Any]) -> str:
    return f"sqlite:///{settings['data_dir'] / 'mcc.db'}"


_QUEUE = Pattern(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_PASSWORD = Pattern(r"(://[^:@/]*):[^@/]*@")


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]
Roots = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_paths)]
Seconds = Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)]


class Settings(BaseSettings):
    """What an MCC process is told. Paths are absolute; `redis_url` None = no Redis was named.

    `allowed_hosts` are names (without port) under which the API may be called besides loopback and `host`;
    `workspace_roots` the directories under which orders may name a workspace, besides those that drones offer.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=PREFIX, env_ignore_empty=True, hide_input_in_errors=True
    )

    data_dir: Path
    database_url: str = Field(default_factory=_own_database)
    redis_url: str | None = None
    host: Annotated[str, Field(min_length=1, max_length=253)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8420
    token: SecretStr | None = None
    token_file: Path | None = None
    prompts_dir: Path | None = None
    queues: Annotated[Names, Field(min_length=1)] = ("default",)
    workspace_roots: Roots = ()
    allowed_hosts: Names = ()
    lease_seconds: Annotated[float, Field(ge=1, le=3_600, allow_inf_nan=False)] = 12.0
    renew_seconds: Seconds = 1.0
    sweep_seconds: Seconds = 0.5
    disk_reserve_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 64.0
    max_queued_orders: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000

    _configuration: Configuration = PrivateAttr(default=Configuration())

    @field_validator("data_dir", "token_file", "prompts_dir")
    @classmethod
    def _whole_path(cls, path: Path | None) -> Path | None:
        return None if path is None else _absolute(path)

    @field_validator("workspace_roots")
    @classmethod
    def _whole_paths(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(_absolute(path) for path in paths)

    @field_validator("queues")
    @classmethod
    def _queue_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _QUEUE.fullmatch(name):
                raise ValueError(f"{name!r} is no queue name (letters, digits and _ . : -, at most 64)")
        return names

    @field_validator("database_url")
    @classmethod
    def _shared_database(cls, url: str) -> str:
        if url in ("sqlite://", "sqlite:///") or (url.startswith("sqlite") and ":memory:" in url):
            raise ValueError("an SQLite database in memory is seen by one process alone; name a file: sqlite:///PATH")
        return url

    @field_validator("redis_url")
    @classmethod
    def _redis_address(cls, url: str | None) -> str | None:
        if url is not None and url.partition("://")[0] not in REDIS_SCHEMES:
            raise ValueError(f"a Redis address begins with one of {', '.join(f'{one}://' for one in REDIS_SCHEMES)}")
        return url

    @field_validator("token")
    @classmethod
    def _long_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value()) < SHORTEST_TOKEN:
            raise ValueError(f"a token has at least {SHORTEST_TOKEN} characters")
        return token

    @model_validator(mode="after")
    def _lease_outlives_its_renewals(self) -> "Settings":
        if self.renew_seconds * 2 > self.lease_seconds:
            raise ValueError("lease_seconds must be at least twice renew_seconds, or every lease would run out")
        return self

    @property
    def configuration(self) -> Configuration:
        """The files that were read for these settings."""
        return self._configuration

    @property
    def has_own_database(self) -> bool:
        """True when no database was named and the SQLite file in the data dir is used."""
        return self.database_url == _own_database({"data_dir": self.data_dir})

    @property
    def family_file(self) -> Path:
        """Where a running family writes its address, for clients on this machine."""
        return self.data_dir / "family.json"

    def private_places(self, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
        """Directories of MCC's own, data, configuration and secrets, in which no order may work."""
        return own_directories(environ, self.data_dir)

    def shown(self) -> dict[str, str]:
        """Every setting as text for people, passwords and the token masked."""
        return {name: _masked(getattr(self, name)) for name in type(self).model_fields}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments alone: `load` decides what else counts."""
        return (init_settings,)


class _Environment(EnvSettingsSource):
    """The environment as an argument, so that a test need not change its own."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name.lower(): value for name, value in environ.items() if value}
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._environ


def load(environ: Mapping[str, str] | None = None, *, directory: Path | None = None, **arguments: object) -> Settings:
    """Settings from `arguments` (None = not given), `environ` (the process's own by default) and mcc.toml.

    Which file that is, `mcc.configuration` decides; `directory` (the current one) is where a trusted one may lie.
    Raises `BadSettings`.
    """
    environ = os.environ if environ is None else environ
    given = {name: value for name, value in arguments.items() if value is not None}
    _refuse_misspelt(environ)
    said = dict(_Environment(environ)()) | given
    data_dir = Path(str(said.get("data_dir") or default_data_dir(environ)))
    try:
        files = configuration(environ, directory or Path(), data_dir)
    except ConfigProblem as problem:
        raise BadSettings(str(problem)) from problem
    values = {"data_dir": data_dir, **_written(files), **said}
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise BadSettings(_sentence(error, given, environ, files.own)) from None
    settings._configuration = files
    return settings


def watched_secrets(settings: Settings, environ: Mapping[str, str] | None = None) -> WatchedSecrets:
    """Keeps out of every text what this process knows and nobody may say: the operator's token, Flower's login,
    passwords in addresses, and what in the environment looks like a secret."""
    token, login = settings.token_file or settings.data_dir / TOKEN_FILE, settings.data_dir / FLOWER_FILE
    given = settings.token.get_secret_value() if settings.token else None
    addresses = (settings.database_url, settings.redis_url)
    known = os.environ if environ is None else environ
    return WatchedSecrets(
        (token, login), lambda: secrets_among(known, (given, text_of(token)), addresses, (text_of(login),))
    )


def redactor_of(settings: Settings, environ: Mapping[str, str] | None = None) -> Redactor:
    """That of this moment, for a process that ends soon."""
    return watched_secrets(settings, environ)()


def service_url(environ: Mapping[str, str] | None = None) -> str | None:
    """The address in `MCC_URL`, where clients find a service; None when it is unset."""
    return (os.environ if environ is None else environ).get("MCC_URL") or None


def trust_store(environ: Mapping[str, str] | None = None) -> TrustStore:
    """What this user trusted of files that others wrote."""
    return TrustStore.within(config_home(os.environ if environ is None else environ))


def _refuse_misspelt(environ: Mapping[str, str]) -> None:
    """A near miss of a known name is an error; other `MCC_` names belong to someone else and are let be."""
    known = {PREFIX + name.upper() for name in (*Settings.model_fields, *ELSEWHERE)}
    for name in environ:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if close and name.startswith(PREFIX) and name not in known:
            raise BadSettings(f"{name} is not known: did you mean {close[0]}?")


def _written(files: Configuration) -> Mapping[str, Any]:
    table = files.table("mcc")
    for name in table:
        if name not in Settings.model_fields:
            raise BadSettings(f"{files.own}: [mcc] has no setting {name!r}{nearest(name, Settings.model_fields)}.")
    return table


def _sentence(
    error: ValidationError, given: Mapping[str, object], environ: Mapping[str, str], file: Path | None
) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        return f"{first['msg'].removeprefix('Value error, ')}."
    name = str(first["loc"][0])
    if name in given:
        where = name
    elif PREFIX + name.upper() in environ:
        where = PREFIX + name.upper()
    else:
        where = f"{name} in {file}"
    if first["type"] == "extra_forbidden":
        return f"There is no setting {name!r}{nearest(name, Settings.model_fields)}."
    return f"{where}: {first['msg'].removeprefix('Value error, ')}."


def _masked(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return _PASSWORD.sub(lambda found: f"{found[1]}:***@", "" if value is None else str(value))

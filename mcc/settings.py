"""Settings of the service and the operator's token. No other module of mcc reads the environment.

Precedence: arguments, environment (`MCC_*`), `mcc.toml`, defaults.
"""

import os
import secrets
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from mcc.addresses import is_loopback, without_password
from mcc.configuration.budgets import BudgetSettings
from mcc.configuration.login_tokens import CredentialsProblem as CredentialsProblem
from mcc.configuration.login_tokens import LoginToken as LoginToken
from mcc.configuration.login_tokens import LoginTokens
from mcc.configuration.network import WebhookSettings
from mcc.configuration.oidc import OidcSettings
from mcc.configuration.places import config_home, make_private_directory
from mcc.configuration.replies import LinearTables, SlackTables
from mcc.configuration.settings import (
    SHARED_TABLES,
    DocumentFunctions,
    Names,
    SharedSettings,
    absolute,
    own_database,
)
from mcc.configuration.settings import BadSettings as BadSettings
from mcc.configuration.triggers import SHORTEST_SECRET, TriggerTable, TriggerTables, different_paths
from mcc.configuration.trust import TrustStore
from mcc.redaction import TOKEN_FILE, Redactor, WatchedSecrets

SHORTEST_TOKEN = 32

OWN_TABLES = SHARED_TABLES | {"people", "oidc", "budgets", "webhooks", "triggers", "slack", "linear", "doors"}
"""Tables of mcc.toml with settings of the service."""


class PeopleSettings(BaseModel):
    """The table [people]. `session_hours`: how long a browser stays signed in after a link."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session_hours: Annotated[float, Field(gt=0, le=8_784, allow_inf_nan=False)] = 720.0


class DoorSettings(BaseModel):
    """The table [doors]. `off`: ways by which orders come by themselves, or are told of, that this service does not
    have. What they have stored stays; nothing of it is answered or acted on. Of webhooks, answers of triggers go out
    all the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    off: tuple[Literal["schedules", "triggers", "webhooks"], ...] = ()


class ServiceSettings(SharedSettings):
    """Settings of an MCC process. The constructor takes arguments only; `load` also reads environment and file.

    `allowed_hosts` are host names (without port) accepted in the Host header besides loopback and `host`.
    `workspace_roots` are directories under which orders may name a workspace, besides those that drones offer.
    `flower_port` is the port on which `mcc up` starts Flower; if it is taken, the next free one.
    The journal of an order is deleted `retention_days` after the order ended, 0 = never.
    `triggers` are what from outside becomes an order, `slack` and `linear` where else than at forges its answer may go,
    `doors` says which doors are shut.
    """

    without_variable: ClassVar[frozenset[str]] = OWN_TABLES
    own_tables: ClassVar[frozenset[str]] = OWN_TABLES

    other_variables: ClassVar[tuple[str, ...]] = ("config", "trusted_config", "url", "proxy")
    """`MCC_CONFIG` and `MCC_TRUSTED_CONFIG` name configuration files, `MCC_URL` the service that clients call, and
    `MCC_PROXY` the proxy through which they do."""

    host: Annotated[str, Field(min_length=1, max_length=253)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8420
    allowed_hosts: Names = ()
    max_queued_orders: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    flower_port: Annotated[int, Field(ge=0, le=65_535)] = 5555
    metrics_token: SecretStr | None = None
    """Opens `/metrics` and nothing else, for a program that collects metrics."""

    metrics_token_file: Path | None = None
    """The file that holds it where `metrics_token` does not."""

    retention_days: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = 30.0
    people: PeopleSettings = PeopleSettings()
    oidc: OidcSettings | None = None
    budgets: BudgetSettings = BudgetSettings()
    webhooks: WebhookSettings = WebhookSettings()
    triggers: TriggerTables = Field(default_factory=dict)
    slack: SlackTables = Field(default_factory=dict)
    linear: LinearTables = Field(default_factory=dict)
    doors: DoorSettings = DoorSettings()

    @field_validator("database_url")
    @classmethod
    def _shared_database(cls, url: str) -> str:
        if url in ("sqlite://", "sqlite:///") or (url.startswith("sqlite") and ":memory:" in url):
            raise ValueError("an SQLite database in memory is seen by one process alone; name a file: sqlite:///PATH")
        return url

    @field_validator("triggers")
    @classmethod
    def _different_paths(cls, tables: Mapping[str, TriggerTable]) -> Mapping[str, TriggerTable]:
        return different_paths(tables)

    @field_validator("metrics_token_file")
    @classmethod
    def _whole_token_path(cls, path: Path | None) -> Path | None:
        return None if path is None else absolute(path)

    @field_validator("token", "metrics_token")
    @classmethod
    def _long_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value()) < SHORTEST_TOKEN:
            raise ValueError(f"a token has at least {SHORTEST_TOKEN} characters")
        return token

    @property
    def by_https(self) -> bool:
        """Whether browsers reach the service encrypted, through the proxy before it."""
        return (self.public_url or "").startswith("https:")

    @property
    def has_own_database(self) -> bool:
        """Whether the database is the default SQLite file in the data directory."""
        return self.database_url == own_database({"data_dir": self.data_dir})

    @property
    def reply_places(self) -> Mapping[str, Collection[str]]:
        """The names of the tables to which triggers may reply, by the key of `reply` that names one."""
        return {"forge": self.forges, "slack": self.slack, "linear": self.linear}

    @property
    def reply_variables(self) -> Mapping[str, str]:
        """The variables with the tokens of these tables, by `forges.NAME`, `slack.NAME` and `linear.NAME`."""
        return {
            **{f"forges.{name}": table.token_env for name, table in self.forges.items()},
            **{f"slack.{name}": table.token_env for name, table in self.slack.items()},
            **{f"linear.{name}": table.token_env for name, table in self.linear.items()},
        }

    @property
    def family_file(self) -> Path:
        """The file in which a running family publishes its address for clients on this machine."""
        return self.data_dir / "family.json"

    @property
    def token_files(self) -> tuple[Path, ...]:
        return (*super().token_files, *([self.metrics_token_file] if self.metrics_token_file else []))

    @property
    def own_secret_names(self) -> frozenset[str]:
        """The variables with secrets that mcc.toml has the service read: of triggers, of where they reply, and of the
        provider of identities."""
        client = () if self.oidc is None or self.oidc.client_secret_env is None else (self.oidc.client_secret_env,)
        signing = (name for table in self.triggers.values() for name in table.secret_env)
        replied_to = {table.reply.endpoint for table in self.triggers.values() if table.reply is not None}
        replying = (name for endpoint, name in self.reply_variables.items() if endpoint in replied_to)
        others = (table.token_env for tables in (self.slack, self.linear) for table in tables.values())
        return frozenset((*client, *signing, *replying, *others))

    def secrets_here(
        self, environ: Mapping[str, str], keys: Iterable[str | None] = (), addresses: Iterable[str | None] = ()
    ) -> frozenset[str]:
        metrics = self.metrics_token.get_secret_value() if self.metrics_token else None
        named = (environ.get(name) for name in self.own_secret_names)
        return super().secrets_here(environ, (*keys, metrics, *named), addresses)

    def shown(self) -> dict[str, str]:
        """Every setting as text for display, with passwords and the token masked."""
        return {name: _masked(getattr(self, name)) for name in type(self).model_fields}


def load(
    environ: Mapping[str, str] | None = None,
    *,
    directory: Path | None = None,
    join_family: bool = False,
    **arguments: object,
) -> ServiceSettings:
    """Settings from `arguments` (None = not given), `environ` (the process's own by default) and mcc.toml.

    `mcc.configuration.file` decides which mcc.toml counts; a trusted one may lie in `directory` (default: the current
    one). With `join_family`, settings of a family running on the data directory rank between environment and mcc.toml.
    Raises `BadSettings`.
    """
    environ = os.environ if environ is None else environ
    stated = {name: value for name, value in arguments.items() if value is not None}
    if join_family:
        environ = ServiceSettings.with_family_files(environ, directory or Path(), stated)
        stated |= ServiceSettings.of_running_family(environ, directory or Path(), stated)
    values, files = ServiceSettings.resolve(environ, directory or Path(), stated)
    with ServiceSettings.plain_errors(stated, environ, files):
        settings = ServiceSettings.model_validate(values)
    settings._configuration = files
    settings._passed_over = ServiceSettings.links_passed_over(environ)
    return settings


def watched_secrets(settings: ServiceSettings, environ: Mapping[str, str] | None = None) -> WatchedSecrets:
    """The secrets this process knows, to be redacted from every text: the operator's token, Flower's login, passwords
    in addresses, and environment variables that look like secrets."""
    known = os.environ if environ is None else environ
    return WatchedSecrets(settings.secret_files, lambda: settings.secrets_here(known))


def redactor_of(settings: ServiceSettings, environ: Mapping[str, str] | None = None) -> Redactor:
    """A redactor for the secrets known now. For short-lived processes: it does not notice secrets that change later."""
    return watched_secrets(settings, environ)()


def trigger_secrets(
    settings: ServiceSettings, environ: Mapping[str, str] | None = None
) -> Mapping[str, tuple[str, ...]]:
    """The secrets of each trigger; none at all where that door is shut. Raises `BadSettings` for a missing or short
    one."""
    known = os.environ if environ is None else environ
    secrets_of: dict[str, tuple[str, ...]] = {}
    for name, table in settings.triggers.items() if "triggers" not in settings.doors.off else ():
        for variable in table.secret_env:
            if len(known.get(variable, "")) < SHORTEST_SECRET:
                place = settings.configuration.place_of("triggers", name, "secret_env")
                raise BadSettings(
                    f"{place}: triggers.{name}.secret_env: the variable {variable} of the service holds no secret "
                    f"of at least {SHORTEST_SECRET} characters; set it, to what the sender signs with."
                )
        secrets_of[name] = tuple(known[variable] for variable in table.secret_env)
    return secrets_of


def reply_tokens(settings: ServiceSettings, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The tokens with which replies are sent, by their endpoints, `forges.hub`; those whose variable is not set are
    left out."""
    known = os.environ if environ is None else environ
    named = settings.reply_variables
    return {endpoint: known[variable] for endpoint, variable in named.items() if known.get(variable)}


def service_url(environ: Mapping[str, str] | None = None) -> str | None:
    """The address of the service that clients call (`MCC_URL`), None when the variable is unset or empty."""
    return (os.environ if environ is None else environ).get("MCC_URL") or None


AMBIENT = ("MCC_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables that say how a client reaches a service, besides those of its address and its token."""

FOREIGN_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
"""Variables of other programs, which no client of a service obeys."""


def ambient(environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Those of `AMBIENT` and `FOREIGN_PROXIES` that are set."""
    known = os.environ if environ is None else environ
    return {name: known[name] for name in (*AMBIENT, *FOREIGN_PROXIES) if known.get(name)}


def trust_store(environ: Mapping[str, str] | None = None) -> TrustStore:
    """The record of which files written by others this user has trusted."""
    return TrustStore.within(config_home(os.environ if environ is None else environ))


def login_tokens(environ: Mapping[str, str] | None = None) -> LoginTokens:
    """The tokens that `mcc login` was given."""
    return LoginTokens.within(config_home(os.environ if environ is None else environ))


def _masked(value: object) -> str:
    if isinstance(value, DocumentFunctions):
        return _masked(value.functions)
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return without_password("" if value is None else str(value))


TOKEN_BYTES = 32


def operator_token(settings: ServiceSettings) -> str:
    """The configured token, else the one in the data directory, created on first use (mode 0600, 32 random bytes).

    Raises `BadSettings` when it cannot be read or created.
    """
    if settings.token is not None:
        return settings.token.get_secret_value()
    file = token_file(settings)
    if settings.token_file is None and not file.exists():
        try:
            _create_token(file)
        except OSError as error:
            raise BadSettings(_unreadable(file, error, "MCC_TOKEN_FILE or MCC_DATA_DIR")) from error
    return _token_in(file, "MCC_TOKEN_FILE or MCC_DATA_DIR")


def metrics_token(settings: ServiceSettings) -> str | None:
    """The configured token that opens `/metrics` alone, None without one. Raises `BadSettings` for an unusable file."""
    if settings.metrics_token is not None:
        return settings.metrics_token.get_secret_value()
    if settings.metrics_token_file is None:
        return None
    return _token_in(settings.metrics_token_file, "MCC_METRICS_TOKEN_FILE")


def client_secret(settings: ServiceSettings, environ: Mapping[str, str] | None = None) -> str | None:
    """The secret by which this service proves itself to the provider of identities; None: it has none, or there is no
    provider. Raises `BadSettings` where the variable that [oidc] names is not set."""
    name = settings.oidc.client_secret_env if settings.oidc else None
    if name is None:
        return None
    if secret := (os.environ if environ is None else environ).get(name):
        return secret
    place = settings.configuration.place_of("oidc", "client_secret_env")
    raise BadSettings(f"{place}: [oidc] names {name}, which is not set: set it to the client's secret.")


def _token_in(file: Path, named_by: str) -> str:
    """Raises `BadSettings`."""
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadSettings(_unreadable(file, error, named_by)) from error
    if len(token) < SHORTEST_TOKEN:
        raise BadSettings(f"The token in {file} is shorter than {SHORTEST_TOKEN} characters: put a longer one there.")
    return token


def _unreadable(file: Path, error: Exception, named_by: str) -> str:
    return (
        f"The token in {file} cannot be read or made ({error}): correct the permissions, or name another place "
        f"with {named_by}."
    )


def token_file(settings: ServiceSettings) -> Path:
    """The file that holds the token when the settings do not."""
    return settings.token_file or settings.data_dir / TOKEN_FILE


def _create_token(file: Path) -> None:
    """Write a new token so that no other process sees a partial file and no other user can read it.

    Of two processes that create it at once, the first wins.
    """
    make_private_directory(file.parent)
    fresh = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        os.link(fresh, file)
    except FileExistsError:
        return
    finally:
        fresh.unlink(missing_ok=True)


def refuse_open_door(settings: ServiceSettings) -> None:
    """Raises `BadSettings` when the service would listen beyond loopback without a token that the operator chose."""
    if not is_loopback(settings.host) and settings.token is None and settings.token_file is None:
        raise BadSettings(
            f"To listen on {settings.host}, where other machines can call, set MCC_TOKEN or MCC_TOKEN_FILE "
            f"(at least {SHORTEST_TOKEN} random characters); without one only loopback (127.0.0.1) is possible."
        )

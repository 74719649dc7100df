"""The settings base class of service and drones: shared fields, their sources, and error messages for wrong values."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from mcc.addresses import unreadable
from mcc.addresses.redis import redis_problem
from mcc.configuration.database import DatabaseAccess, Pooler
from mcc.configuration.file import NAMED_BY, OVERLAY_NAMED_BY, ConfigProblem, Configuration, configuration
from mcc.configuration.forges import Forges
from mcc.configuration.memory import MemorySettings
from mcc.configuration.operator_permission import ApprovalSettings as ApprovalSettings
from mcc.configuration.operator_permission import OperatorPermission as OperatorPermission
from mcc.configuration.places import NotPrivate, default_data_dir, own_blueprints, own_directories, paths_in
from mcc.configuration.running import Presence, find_family
from mcc.configuration.service_links import mistaken_links, without_service_links
from mcc.configuration.workspaces import WorkspaceSettings
from mcc.contracts.compaction import CompactionTerms
from mcc.contracts.similar import close_matches, did_you_mean
from mcc.contracts.turn_context import ContextMode
from mcc.contracts.wire import KEY_PREFIX
from mcc.redaction import FLOWER_FILE, TOKEN_FILE, secrets_among, text_of
from mcc.rules.patterns import Pattern

PREFIX = "MCC_"

_QUEUE = Pattern(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


class BadSettings(ValueError):
    """A setting has an unusable value. The message is a sentence that names the setting and what it may be."""


def absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))


def _list_items(value: Any) -> Any:
    """Split a list given as text: in the environment, commas separate the items."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _paths(value: Any) -> Any:
    return paths_in(value) if isinstance(value, str) else value


def own_database(settings: Mapping[str, Any]) -> str:
    return f"sqlite:///{settings['data_dir'] / 'mcc.db'}"


Names = Annotated[tuple[str, ...], BeforeValidator(_list_items)]
Roots = Annotated[tuple[Path, ...], BeforeValidator(_paths)]
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,199}$")]
Seconds = Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)]


class DocumentFunctions(BaseModel):
    """The table [documents]. `functions` names Python modules with rule functions: files beside the operator's own
    mcc.toml, or importable modules."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    functions: tuple[ModuleName, ...] = ()


class SessionSettings(BaseModel):
    """The table [sessions]. `context`: what later turns are shown of an ended one, all that its agent was shown and
    said ("full") or its prompt and answer alone ("answers")."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: ContextMode = "full"


def page_address(url: str) -> str:
    """`url` without a slash at its end. Raises ValueError where a browser could not find a page below it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or parts.username or parts.password or parts.query or parts.fragment or not url.isprintable():
        raise ValueError("an address begins with https:// or http://, names a host, and has neither login nor query")
    return url.rstrip("/")


SHARED_TABLES = frozenset(
    {"documents", "permission", "approvals", "workspaces", "forges", "sessions", "memory", "compaction"}
)
"""Tables of mcc.toml that both service and drones read."""


class SharedSettings(BaseModel):
    """The settings on which an MCC process and a drone must agree. Paths are absolute; `redis_url` None = none named.
    `redis_prefix` is what all keys and channels in Redis begin with.

    `database_pooler` says what is in front of PostgreSQL: "none", a pooler in "session" or in "transaction" mode, or
    "auto", which finds out. `database_prepared`: a pooler in transaction mode keeps prepared statements (PgBouncer 1.21
    and later with max_prepared_statements).
    `flower_titles` False hides session titles, which people wrote, from Celery's monitors.
    `public_url` is the address that people's browsers use, where a proxy is before the service; its host is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())

    prefixes: ClassVar[tuple[str, ...]] = (PREFIX,)
    """Prefixes of environment variables: the first one for every setting, the others only for shared settings."""
    other_variables: ClassVar[tuple[str, ...]] = ()
    """Known variables with the first prefix that are not settings, without the prefix and in lower case."""
    without_variable: ClassVar[frozenset[str]] = SHARED_TABLES
    """Fields that have no environment variable."""
    own_tables: ClassVar[frozenset[str]] = SHARED_TABLES
    """Fields that are tables of their own in mcc.toml instead of keys in [mcc] or [drone]."""

    data_dir: Path
    database_url: str = Field(default_factory=own_database)
    database_pooler: Pooler = "auto"
    database_prepared: bool = False
    redis_url: str | None = None
    redis_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = KEY_PREFIX
    token: SecretStr | None = None
    token_file: Path | None = None
    prompts_dir: Path | None = None
    queues: Annotated[Names, Field(min_length=1)] = ("default",)
    workspace_roots: Roots = ()
    lease_seconds: Annotated[float, Field(ge=1, le=3_600, allow_inf_nan=False)] = 12.0
    renew_seconds: Seconds = 1.0
    sweep_seconds: Seconds = 0.5
    disk_reserve_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 64.0
    flower_titles: bool = True
    public_url: Annotated[str, Field(max_length=2_000)] | None = None
    documents: DocumentFunctions = DocumentFunctions()
    permission: OperatorPermission = OperatorPermission()
    approvals: ApprovalSettings = ApprovalSettings()
    workspaces: WorkspaceSettings = WorkspaceSettings()
    forges: Forges = {}
    sessions: SessionSettings = SessionSettings()
    memory: MemorySettings = MemorySettings()
    compaction: CompactionTerms = CompactionTerms()

    _configuration: Configuration = PrivateAttr(default=Configuration())
    _passed_over: str = PrivateAttr(default="")

    @field_validator("data_dir", "token_file", "prompts_dir")
    @classmethod
    def _whole_path(cls, path: Path | None) -> Path | None:
        return None if path is None else absolute(path)

    @field_validator("workspace_roots")
    @classmethod
    def _whole_paths(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(absolute(path) for path in paths)

    @field_validator("queues")
    @classmethod
    def _queue_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _QUEUE.fullmatch(name):
                raise ValueError(f"{name!r} is no queue name (letters, digits and _ . : -, at most 64)")
        return names

    @field_validator("database_url")
    @classmethod
    def _database_address(cls, url: str) -> str:
        if not url.startswith("sqlite") and (problem := unreadable(url)):
            raise ValueError(problem)
        return url

    @field_validator("public_url")
    @classmethod
    def _address_of_a_page(cls, url: str | None) -> str | None:
        return None if url is None else page_address(url)

    @field_validator("redis_url")
    @classmethod
    def _redis_address(cls, url: str | None) -> str | None:
        if url is not None and (problem := redis_problem(url)):
            raise ValueError(problem)
        return url

    @model_validator(mode="after")
    def _lease_outlives_its_renewals(self) -> "SharedSettings":
        if self.renew_seconds * 2 > self.lease_seconds:
            raise ValueError("lease_seconds must be at least twice renew_seconds, or every lease would run out")
        return self

    @property
    def database(self) -> DatabaseAccess:
        """The database and the way to it."""
        return DatabaseAccess(self.database_url, self.database_pooler, self.database_prepared)

    @property
    def configuration(self) -> Configuration:
        """The mcc.toml files from which these settings were read."""
        return self._configuration

    @property
    def passed_over(self) -> str:
        """A sentence about variables that have the name of a setting and are none; "" without any."""
        return self._passed_over

    @classmethod
    def links_passed_over(cls, environ: Mapping[str, str]) -> str:
        """The sentence of `passed_over` for this environment."""
        known = {one: None for name in cls.model_fields.keys() - cls.without_variable for one in cls.variables(name)}
        links = mistaken_links(environ, PREFIX, known)
        said = "; ".join(f"{name} describes a Service of Kubernetes and is no setting" for name in links)
        return f"Passed over: {said} (enableServiceLinks: false leaves it out)." if links else ""

    @property
    def token_files(self) -> tuple[Path, ...]:
        """The files of this process's tokens, which may not exist yet."""
        return (self.token_file or self.data_dir / TOKEN_FILE,)

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """The files of tokens, and last that of Flower's login; they may not exist yet."""
        return (*self.token_files, self.data_dir / FLOWER_FILE)

    def secrets_here(
        self, environ: Mapping[str, str], keys: Iterable[str | None] = (), addresses: Iterable[str | None] = ()
    ) -> frozenset[str]:
        """All secrets known to this process: `keys`, the operator's token, Flower's login, passwords in the database,
        Redis and `addresses` URLs, and variables of `environ` that look secret."""
        *tokens, login = map(text_of, self.secret_files)
        given = self.token.get_secret_value() if self.token else None
        places = (self.database_url, self.redis_url, *addresses)
        return secrets_among(environ, (*keys, *tokens, given), places, (login,))

    def private_places(self, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
        """MCC's directories for data, configuration and secrets, in which no order may work."""
        return own_directories(environ, self.data_dir)

    def own_blueprints(self, environ: Mapping[str, str] = os.environ) -> Path:
        """The blueprint directory of this process's user."""
        return own_blueprints(environ)

    @classmethod
    def resolve(
        cls, environ: Mapping[str, str], directory: Path, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Configuration]:
        """The effective values (from `given`, else `environ`, else mcc.toml), not validated yet, and the files read.

        A trusted mcc.toml may lie in `directory`. Raises `BadSettings`.
        """
        cls._refuse_misspelt(environ)
        named = dict(cls.in_environment(environ)) | dict(given)
        data_dir = Path(str(named.get("data_dir") or default_data_dir(environ)))
        try:
            files = configuration(environ, directory, data_dir)
        except ConfigProblem as problem:
            raise BadSettings(str(problem)) from problem
        return {"data_dir": data_dir, **cls.in_files(files), **named}, files

    @classmethod
    def of_running_family(cls, environ: Mapping[str, str], directory: Path, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the family that runs on this data directory, without those that `given` or `environ` names.

        Raises `BadSettings`.
        """
        named = given.keys() | dict(cls.in_environment(environ)).keys()
        variables = cls._family_variables(environ, directory, given)
        return {name: value for name, value in cls.in_environment(variables) if name not in named}

    @classmethod
    def with_family_files(
        cls, environ: Mapping[str, str], directory: Path, given: Mapping[str, Any]
    ) -> Mapping[str, str]:
        """`environ`, naming the mcc.toml files of the family on this data directory unless it names one of its own.

        Raises `BadSettings`.
        """
        if environ.get(NAMED_BY):
            return environ
        variables = cls._family_variables(environ, directory, given)
        return {**environ, **{name: variables[name] for name in (NAMED_BY, OVERLAY_NAMED_BY) if variables.get(name)}}

    @classmethod
    def _family_variables(
        cls, environ: Mapping[str, str], directory: Path, given: Mapping[str, Any]
    ) -> Mapping[str, str]:
        data_dir = Path(str(cls.resolve(environ, directory, given)[0]["data_dir"]))
        try:
            family = find_family(absolute(data_dir))
        except NotPrivate as problem:
            raise BadSettings(f"The description of a service here is not trusted: {problem}") from problem
        return family.settings if isinstance(family, Presence) else {}

    @classmethod
    def variables(cls, name: str) -> tuple[str, ...]:
        """The environment variables of a setting, in order of precedence; empty ones count as unset."""
        shared = name in SharedSettings.model_fields
        return tuple(f"{prefix}{name.upper()}" for prefix in (cls.prefixes if shared else cls.prefixes[:1]))

    @classmethod
    def in_environment(cls, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """The settings that the environment names, with their values; an empty variable counts as unset."""
        environ = without_service_links(environ, PREFIX)
        for name in cls.model_fields.keys() - cls.without_variable:
            if value := next((environ[one] for one in cls.variables(name) if environ.get(one)), None):
                yield name, value

    @classmethod
    def in_files(cls, files: Configuration) -> Mapping[str, Any]:
        """The values in the table [mcc] and in `own_tables`. Raises `BadSettings` for an unknown setting in [mcc]."""
        table = files.table("mcc")
        for name in table:
            if name not in cls.model_fields or name in cls.own_tables:
                hint = did_you_mean(name, cls.model_fields)
                raise BadSettings(f"{files.place_of('mcc', name)}: [mcc] has no setting {name!r}{hint}.")
        return {**table, **cls.whole_tables(files)}

    @classmethod
    def whole_tables(cls, files: Configuration) -> Mapping[str, Any]:
        """Those of `own_tables` that the files have."""
        return {name: files.tables[name] for name in sorted(cls.own_tables) if name in files.tables}

    @classmethod
    def _refuse_misspelt(cls, environ: Mapping[str, str]) -> None:
        """Raises `BadSettings` for a near miss of a known variable; other variables with the prefix are ignored."""
        prefix = cls.prefixes[0]
        names = (*(cls.model_fields.keys() - cls.without_variable), *cls.other_variables)
        known = {f"{prefix}{name.upper()}" for name in names}
        for name in without_service_links(environ, prefix):
            if name.startswith(prefix) and name not in known and (close := close_matches(name, known, cutoff=0.85)):
                raise BadSettings(f"{name} is not known: did you mean {close[0]}?")

    @classmethod
    @contextmanager
    def plain_errors(
        cls, given: Mapping[str, object], environ: Mapping[str, str], files: Configuration
    ) -> Iterator[None]:
        """Turn a `ValidationError` inside the block into `BadSettings`: its first error, named as the user set it."""
        try:
            yield
        except ValidationError as error:
            raise BadSettings(cls._sentence(error, given, environ, files)) from None

    @classmethod
    def _sentence(
        cls, error: ValidationError, given: Mapping[str, object], environ: Mapping[str, str], files: Configuration
    ) -> str:
        errors = error.errors(include_url=False, include_input=False)
        first = next((candidate for candidate in errors if candidate["type"] == "extra_forbidden"), errors[0])
        message = f"{first['msg'].removeprefix('Value error, ')}."
        if not first["loc"]:
            return message
        name, place = str(first["loc"][0]), ".".join(map(str, first["loc"]))
        keys = tuple(cls._in_file(first["loc"], files))
        if first["type"] == "extra_forbidden" and name == place:
            prefix = f"{files.place_of(*keys)}: there" if keys[0] else "There"
            return f"{prefix} is no setting {name!r}{did_you_mean(name, cls.model_fields)}."
        if first["type"] == "extra_forbidden":
            message = f"there is no such key{did_you_mean(str(first['loc'][-1]), cls._keys(first['loc'][:-1]))}."
        environ = without_service_links(environ, PREFIX)
        variable = next((candidate for candidate in cls.variables(name) if environ.get(candidate)), None)
        where = place if name in given else variable or f"{files.place_of(*keys)}: {place}"
        return f"{where}: {message.removesuffix('.') if message.endswith('?.') else message}"

    @classmethod
    def _in_file(cls, place: tuple[str | int, ...], files: Configuration) -> Iterator[str]:
        """The keys that lead to this error location in mcc.toml, where plain settings stand in [mcc] or [drone]."""
        if place[0] not in files.tables:
            yield next((table for table in ("drone", "mcc") if place[0] in files.table(table)), "")
        yield from map(str, place)

    @classmethod
    def _keys(cls, place: Iterable[str | int]) -> Iterable[str]:
        """The keys allowed in the table at this error location, by the JSON schema."""
        schema = cls.model_json_schema()
        inner: Mapping[str, Any] = schema
        for part in place:
            others = (*inner.get("patternProperties", {}).values(), inner.get("additionalProperties") or {})
            inside = inner.get("properties", {}).get(part, others[0])
            either = [*inside.get("anyOf", ()), inside]
            names = (choice["$ref"].rpartition("/")[2] for choice in either if "$ref" in choice)
            inner = next((schema["$defs"][name] for name in names), inside)
        return tuple(inner.get("properties", ()))

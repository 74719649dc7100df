"""Reading mcc.toml: which file counts, what a trusted file of a checkout may set, and what was ignored and why."""

import errno
import os
import shlex
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mcc.configuration.places import config_home
from mcc.configuration.providers import SCRIPTED
from mcc.configuration.trust import TrustProblem, TrustStore, digest_of
from mcc.contracts.similar import did_you_mean

Tables: TypeAlias = Mapping[str, Any]

TRUSTED_TABLES = ("defaults", "roles")
"""Tables that a trusted file of a checkout may set in full."""

MODEL_KEYS = (
    "provider",
    "model",
    "api",
    "context_tokens",
    "max_output_tokens",
    "price",
    "thinking",
    "temperature",
)
"""Keys that a trusted file may set in [models.ALIAS]. A key that names an address, an API key, a file or a program must
never be added here."""

MOST_NAMES = 12
NAME_CHARACTERS = 60
"""How many ignored keys a summary names, and how long each may be."""

NAME = "mcc.toml"
TABLES = (
    "mcc",
    "drone",
    "models",
    "defaults",
    "roles",
    "tools",
    "documents",
    "workspaces",
    "forges",
    "sandbox",
    "web",
    "mcp",
    "permission",
    "approvals",
    "sessions",
    "memory",
    "people",
    "oidc",
    "budgets",
    "doors",
    "webhooks",
    "compaction",
    "triggers",
    "slack",
    "linear",
)
MOST_BYTES = 1_000_000

NAMED_BY, OVERLAY_NAMED_BY = "MCC_CONFIG", "MCC_TRUSTED_CONFIG"
"""Variables that name the user's own file, and the file laid over it (if trusted)."""

KIND = "config"
"""The kind of these files in trust.json."""


class ConfigProblem(ValueError):
    """A file that counts cannot be used. The message is a sentence that says what to change."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The effective content of the mcc.toml files.

    `own` is the user's file, which may set anything; `trusted` is a checkout's, of which `laid_over` takes some keys.
    `passed_over` names what was ignored, each with its reason in brackets. `tables` is the merged result.
    """

    own: Path | None = None
    trusted: Path | None = None
    passed_over: tuple[str, ...] = ()
    tables: Tables = field(default_factory=dict, repr=False)

    @property
    def summary(self) -> str:
        """One line for people; empty when no mcc.toml exists anywhere."""
        if self.own is None and self.trusted is None and not self.passed_over:
            return ""
        counts = " and, over it, ".join(str(file) for file in (self.own, self.trusted) if file) or "no mcc.toml"
        passed = f" Passed over: {'; '.join(self.passed_over)}." if self.passed_over else ""
        return f"Configuration: {counts}.{passed}"

    def table(self, name: str) -> Mapping[str, Any]:
        """The table [name], empty when it is missing."""
        table: Mapping[str, Any] = self.tables.get(name, {})
        return table

    def place_of(self, *keys: str) -> str:
        """The file and line that set the value at the path `keys`, or as much of that path as has a line of its own."""
        for file in (self.trusted, self.own):
            if file is not None and (line := line_of(_text(file), keys)):
                return f"{file}, line {line}"
        return str(self.own or self.trusted)


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """The 1-based line that sets the value at `keys`, or else its closest enclosing table; None when there is none.

    Looks only at how lines begin, so it may mistake a line of a multi-line string for a setting.
    """
    table: tuple[str, ...] = ()
    numbers: dict[int, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = location = _dotted(stripped.strip("[").partition("]")[0])
        else:
            location = (*table, *_dotted(stripped.partition("=")[0]))
        alike = min(len(location), len(keys))
        if alike and location[:alike] == tuple(keys[:alike]):
            numbers.setdefault(alike, number)
    return numbers[max(numbers)] if numbers else None


def _dotted(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split(".") if part.strip())


def _text(file: Path) -> str:
    try:
        return content_of(file).decode("utf-8", "replace")
    except (OSError, ConfigProblem):
        return ""


def configuration(environ: Mapping[str, str], directory: Path, data_dir: Path) -> Configuration:
    """Read the user's own file and lay mcc.toml of `directory` over it if the user trusted that one.

    The user's own file is `MCC_CONFIG`, else the one in the configuration directory, else the one in `data_dir`. That
    directory must come from arguments or the environment: no file may decide where files are looked for.
    Raises `ConfigProblem`.
    """
    places = [place for place in _places(environ, directory, data_dir) if os.path.lexists(place)]
    own_file, ignored = _first(places, named=bool(environ.get(NAMED_BY)))
    tables = _read(own_file) if own_file else {}
    overlay = directory / (environ.get(OVERLAY_NAMED_BY) or NAME)
    # In the user's own directory, the same file is found in both ways; it needs no trust there.
    if not os.path.lexists(overlay) or any(_same(overlay, place) for place in places):
        return Configuration(own_file, None, ignored, tables)
    trusted, content, why = _trusted(overlay, TrustStore.within(config_home(environ)))
    if trusted is None:
        return Configuration(own_file, None, (*ignored, f"{overlay.absolute()} ({why})"), tables)
    tables, left = laid_over(tables, parsed(trusted, content))
    if left:
        ignored = (*ignored, f"of {trusted} {', '.join(left)} (only your own mcc.toml may set this)")
    return Configuration(own_file, trusted, ignored, tables)


def key_of(file: Path) -> Path:
    """The path under which trust in a file is recorded: absolute, with symlinks in its directory resolved."""
    return file.parent.resolve() / file.name


def parsed(file: Path, content: bytes) -> dict[str, Any]:
    """Parse TOML. Raises `ConfigProblem`."""
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigProblem(f"{file} cannot be read: {error}.") from error


def content_of(file: Path) -> bytes:
    """The content of a regular file. Raises OSError, and `ConfigProblem` for more than `MOST_BYTES`."""
    try:
        # O_NONBLOCK, because opening a named pipe would otherwise wait for its writer.
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", str(file))
            content = stream.read(MOST_BYTES + 1)
    except IsADirectoryError as error:
        raise OSError(errno.EISDIR, "a directory stands in its place", str(file)) from error
    if len(content) > MOST_BYTES:
        raise ConfigProblem(f"{file} is larger than {MOST_BYTES:,} bytes: make it shorter.")
    return content


def _places(environ: Mapping[str, str], directory: Path, data_dir: Path) -> Iterator[Path]:
    """Where the user's own file may be, in order of precedence."""
    if named := environ.get(NAMED_BY):
        file = Path(named).expanduser()
        if not file.is_absolute():
            raise ConfigProblem(f"{NAMED_BY} names {named}, another file in every directory: name its whole path.")
        if not file.is_file():
            raise ConfigProblem(f"{NAMED_BY} names {named}, and there is no such file: correct the path or unset it.")
        yield _absolute(file)
    yield config_home(environ) / NAME
    yield _absolute(directory / data_dir.expanduser()) / NAME


def _first(places: Iterable[Path], *, named: bool) -> tuple[Path | None, tuple[str, ...]]:
    """The first of these files that counts, and why the others do not. `named`: the user named the first explicitly."""
    chosen: Path | None = None
    ignored: list[str] = []
    for place in places:
        if chosen is None:
            # Naming a file is a decision; one that merely lies where it is looked for may have been put there by
            # others.
            why = "" if named else _distrust(place)
            chosen = place if not why else None
        else:
            why = "" if _same(chosen, place) else f"{chosen} comes first"
        ignored += [f"{place} ({why})"] if why else []
    return chosen, tuple(ignored)


def _distrust(place: Path) -> str:
    """Why a file that the user did not name explicitly could be someone else's; empty when it could not."""
    try:
        status = place.stat()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user; {NAMED_BY} makes it count"
    return f"everybody can write it: chmod o-w {place}" if status.st_mode & stat.S_IWOTH else ""


def _read(file: Path) -> Tables:
    try:
        tables = parsed(file, content_of(file))
    except OSError as error:
        raise ConfigProblem(f"{file} cannot be read: {error.strerror or error}.") from error
    place = Configuration(own=file).place_of
    for name, table in tables.items():
        if name in TABLES and not isinstance(table, dict):
            raise ConfigProblem(f"{place(name)}: [{name}] must be a table.")
        if not isinstance(table, dict):
            raise ConfigProblem(
                f"{place(name)}: {name!r} stands in no table; settings of the service belong under [mcc]."
            )
        if name not in TABLES:
            raise ConfigProblem(f"{place(name)}: there is no table [{name}]{did_you_mean(name, TABLES)}.")
    return tables


def _trusted(file: Path, store: TrustStore) -> tuple[Path | None, bytes, str]:
    """The file and its content if exactly this content was trusted at this path, else None and the reason."""
    path = key_of(file)
    ask = f"mcc config trust {shlex.quote(str(path))}"
    try:
        # A file that was never trusted is not even read: it may be anything that a checkout brings along.
        known = store.digests(KIND).get(str(path))
        content = content_of(file) if known else b""
    except (TrustProblem, ConfigProblem) as problem:
        return None, b"", f"{problem}"
    except OSError as problem:
        return None, b"", f"it was trusted and cannot be read: {problem.strerror or problem}"
    if known is None:
        return None, b"", f"not trusted; to have its models and defaults count: {ask}"
    if known != digest_of(content):
        return None, b"", f"changed since it was trusted; look at it, then: {ask}"
    return path, content, ""


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def laid_over(own: Tables, trusted: Tables) -> tuple[Tables, tuple[str, ...]]:
    """`own` with the permitted parts of `trusted` over it, and the names of the keys that are not permitted.

    A trusted file cannot change the provider of a model for which `own` sets any key beyond `MODEL_KEYS`: an address or
    API key that the user chose for one provider would go to another. Nor can it make a model a scripted one.
    """
    tables = {
        name: {**own.get(name, {}), **table} for name, table in _tables(trusted).items() if name in TRUSTED_TABLES
    }
    models = dict(own.get("models", {}))
    refused: list[str] = []
    for alias, wished in _tables(_tables(trusted).get("models", {})).items():
        known = models.get(alias, {})
        allowed = {
            key: value
            for key, value in wished.items()
            if key in MODEL_KEYS and not _changes_provider(known, key, value)
        }
        # The name of a scripted model is the path of its script, so a checkout could have any file or device read.
        if {**known, **allowed}.get("provider") == SCRIPTED:
            allowed = {key: value for key, value in allowed.items() if key not in ("provider", "model")}
        refused += (f"[models.{alias}] {key}" for key in wished if key not in allowed)
        if allowed:
            models[alias] = {**known, **allowed}
    with_models = {"models": models} if models else {}
    return {**own, **tables, **with_models}, _shortened([*_refused_tables(trusted), *refused])


def _changes_provider(known: Mapping[str, Any], key: str, value: object) -> bool:
    """Whether this would send settings that the user made for one provider to another one."""
    return key == "provider" and value != known.get(key) and any(own not in MODEL_KEYS for own in known)


def _tables(tables: Tables) -> Mapping[str, Mapping[str, Any]]:
    return {name: table for name, table in tables.items() if isinstance(table, dict)}


def _refused_tables(trusted: Tables) -> Iterator[str]:
    """The keys outside the tables that a trusted file may set."""
    for name, table in trusted.items():
        if not isinstance(table, dict):
            yield name
        elif name == "models":
            yield from (f"[models] {alias}" for alias, model in table.items() if not isinstance(model, dict))
        elif name not in TRUSTED_TABLES:
            yield from (f"[{name}] {key}" for key in table) if table else (f"[{name}]",)


def _shortened(names: list[str]) -> tuple[str, ...]:
    """At most `MOST_NAMES` names of at most `NAME_CHARACTERS`, so that they fit in one line."""
    cut = [name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…" for name in names[:MOST_NAMES]]
    return (*cut, f"{len(names) - MOST_NAMES} more") if len(names) > MOST_NAMES else tuple(cut)

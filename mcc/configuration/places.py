"""Paths of a user's and of MCC's own files, and access that keeps them private. The environment is an argument."""

import errno
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit


def config_home(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own configuration: `mcc` in `XDG_CONFIG_HOME`, by default `~/.config/mcc`."""
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "mcc"


def own_agents(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own agent files, which apply in all workspaces."""
    return config_home(environ) / "agents"


def own_blueprints(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own blueprints, each stored under its name."""
    return config_home(environ) / "blueprints"


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The data directory when none is configured: `mcc` in `XDG_DATA_HOME`, by default `~/.local/share/mcc`."""
    return _base(environ, "XDG_DATA_HOME", ".local/share") / "mcc"


def _base(environ: Mapping[str, str], name: str, default: str) -> Path:
    named = Path(environ.get(name, ""))
    # The XDG base directory specification has relative paths ignored.
    return named if named.is_absolute() else _home(environ) / default


def _home(environ: Mapping[str, str]) -> Path:
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:  # A user of a container may have no home directory.
        return Path("/nonexistent")


MOUNTED_SECRETS = Path("/run/secrets")
"""The directory in which container runtimes mount secrets."""

_BESIDE_A_DATABASE = ("", "-wal", "-shm", "-journal")


def own_directories(environ: Mapping[str, str], data_dir: Path) -> tuple[Path, ...]:
    """MCC's private directories: the data directory in use and this user's default ones, which another MCC may use."""
    usual = (default_data_dir(environ), demo_data_dir(environ), config_home(environ), MOUNTED_SECRETS)
    return tuple(dict.fromkeys((data_dir, *usual)))


def demo_data_dir(environ: Mapping[str, str]) -> Path:
    """The data directory of `make demo`: `mcc-demo` in `XDG_DATA_HOME`, by default `~/.local/share/mcc-demo`."""
    return default_data_dir(environ).with_name("mcc-demo")


def own_files(*addresses: str) -> tuple[Path, ...]:
    """The local files that these database and Redis addresses use: SQLite files and Unix sockets."""
    return tuple(file for address in addresses for file in _files(address))


def _files(address: str) -> tuple[Path, ...]:
    scheme, path = address.partition("://")[0], unquote(urlsplit(address).path)
    if scheme.startswith("sqlite"):
        return tuple(Path(f"{path[1:]}{ending}") for ending in _BESIDE_A_DATABASE) if len(path) > 1 else ()
    return (Path(path),) if scheme in ("unix", "redis+socket") and path else ()


def paths_in(text: str) -> tuple[str, ...]:
    """Parse paths separated by commas or `os.pathsep`, or a JSON array of paths (for names with such characters)."""
    if text.startswith("["):
        try:
            paths = json.loads(text)
        except (ValueError, RecursionError):
            paths = None
        if isinstance(paths, list) and all(isinstance(path, str) for path in paths):
            return tuple(paths)
    return tuple(part.strip() for part in text.replace(os.pathsep, ",").split(",") if part.strip())


def as_text(paths: Sequence[str]) -> str:
    """The inverse of `paths_in`."""
    plain = os.pathsep.join(paths)
    return plain if paths_in(plain) == tuple(paths) else json.dumps(list(paths))


MOST_BYTES = 1_000_000
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(ValueError):
    """Other users could have written the file. The message is a sentence that says what to do."""


def read_private(file: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of `file`, provided that it and its directory belong to this user and nobody else can write them.

    The file itself must not be a symlink; directories above it may be. Raises `NotPrivate`, and OSError when the file
    is missing or unreadable.
    """
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Whoever can write the directory can put another file in its place, whatever the file's own rights are.
        refuse_others(os.fstat(directory), file.parent)
        # Checked on what was opened, not by name: the name may lead to another file a moment later.
        with open(_opened(directory, file), "rb") as stream:
            refuse_others(os.fstat(stream.fileno()), file)
            content = stream.read(most_bytes + 1)
    finally:
        os.close(directory)
    if len(content) > most_bytes:
        raise NotPrivate(f"{file} is larger than {most_bytes:,} bytes, so it is not what it should be: remove it.")
    return content


def make_private_directory(path: Path) -> None:
    """Create `path` and its missing parents with mode 0700. An existing directory keeps its mode. Raises OSError."""
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open` that creates files with mode 0600."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def refuse_others(found: os.stat_result, path: Path) -> None:
    """Raises `NotPrivate` when `path`, whose status is `found`, belongs to another user or others can write it."""
    if found.st_uid != os.geteuid():
        raise NotPrivate(f"{path} belongs to another user (uid {found.st_uid}): use a directory of your own.")
    if found.st_mode & WRITABLE_BY_OTHERS:
        raise NotPrivate(f"{path} can be written by others: chmod go-w {path}, after a look at what is in it.")


def _opened(directory: int, file: Path) -> int:
    """A descriptor of the file, which must be regular. O_NONBLOCK keeps the open from waiting on a named pipe."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(file.name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivate(f"{file} is a symlink, so others may decide what it says: put a file there.") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPrivate(f"{file} is no regular file: remove it.")
    return descriptor

"""Where files of a user and of MCC itself lie, and how they are their user's alone; the environment is an argument."""

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
    """Where a user keeps agent files for all workspaces."""
    return config_home(environ) / "agents"


def own_blueprints(environ: Mapping[str, str]) -> Path:
    """Where a user keeps blueprints, each under its name."""
    return config_home(environ) / "blueprints"


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """`mcc` in `XDG_DATA_HOME`, by default `~/.local/share/mcc`."""
    return _base(environ, "XDG_DATA_HOME", ".local/share") / "mcc"


def _base(environ: Mapping[str, str], name: str, default: str) -> Path:
    """The specification has relative paths ignored: what they lead to depends on where a program is started."""
    named = Path(environ.get(name, ""))
    return named if named.is_absolute() else _home(environ) / default


def _home(environ: Mapping[str, str]) -> Path:
    """A user of a container may have none, and then no files in it either."""
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:
        return Path("/nonexistent")


MOUNTED_SECRETS = Path("/run/secrets")
"""Where containers find their secrets."""

_BESIDE_A_DATABASE = ("", "-wal", "-shm", "-journal")


def own_directories(environ: Mapping[str, str], data_dir: Path) -> tuple[Path, ...]:
    """The data directory in use, and those that this user's MCC keeps by default: another one may run there."""
    usual = (default_data_dir(environ), demo_data_dir(environ), config_home(environ), MOUNTED_SECRETS)
    return tuple(dict.fromkeys((data_dir, *usual)))


def demo_data_dir(environ: Mapping[str, str]) -> Path:
    """`mcc-demo` in `XDG_DATA_HOME`, by default `~/.local/share/mcc-demo`."""
    return default_data_dir(environ).with_name("mcc-demo")


def own_files(*addresses: str) -> tuple[Path, ...]:
    """The files behind addresses of databases and of Redis that are on this machine: SQLite's, sockets."""
    return tuple(file for address in addresses for file in _files(address))


def _files(address: str) -> tuple[Path, ...]:
    scheme, path = address.partition("://")[0], unquote(urlsplit(address).path)
    if scheme.startswith("sqlite"):
        return tuple(Path(f"{path[1:]}{ending}") for ending in _BESIDE_A_DATABASE) if len(path) > 1 else ()
    return (Path(path),) if scheme in ("unix", "redis+socket") and path else ()


def paths_in(text: str) -> tuple[str, ...]:
    """Paths between commas or colons (`os.pathsep`), or a JSON array of them where names have such characters."""
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list) and all(isinstance(path, str) for path in found):
            return tuple(found)
    return tuple(part.strip() for part in text.replace(os.pathsep, ",").split(",") if part.strip())


def as_text(paths: Sequence[str]) -> str:
    """What `paths_in` reads as these paths."""
    plain = os.pathsep.join(paths)
    return plain if paths_in(plain) == tuple(paths) else json.dumps(list(paths))


MOST_BYTES = 1_000_000
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(ValueError):
    """Others may have written what was to be read; the message is a sentence that says what to do."""


def read_private(file: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """What `file` holds, when it and its directory belong to this user and nobody else can write them.

    The file itself must be no symlink; its directory may be reached through some. Raises `NotPrivate`, and OSError for
    what is not there or cannot be read.
    """
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        refuse_others(os.fstat(directory), file.parent)
        with open(_opened(directory, file), "rb") as stream:
            refuse_others(os.fstat(stream.fileno()), file)
            content = stream.read(most_bytes + 1)
    finally:
        os.close(directory)
    if len(content) > most_bytes:
        raise NotPrivate(f"{file} is larger than {most_bytes:,} bytes, so it is not what it should be: remove it.")
    return content


def make_private_directory(path: Path) -> None:
    """`path`, and what is missing above it, for its owner alone; one that is there stays as it is. Raises OSError."""
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise


def private_opener(path: str, flags: int) -> int:
    """For `open`: a file that is made is its owner's alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def refuse_others(found: os.stat_result, path: Path) -> None:
    """Raises `NotPrivate` for what belongs to another user, or what others can write."""
    if found.st_uid != os.geteuid():
        raise NotPrivate(f"{path} belongs to another user (uid {found.st_uid}): use a directory of your own.")
    if found.st_mode & WRITABLE_BY_OTHERS:
        raise NotPrivate(f"{path} can be written by others: chmod go-w {path}, after a look at what is in it.")


def _opened(directory: int, file: Path) -> int:
    """A regular file, without waiting for a pipe's other end."""
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

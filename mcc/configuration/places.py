"""Where files of a user and of MCC itself lie; the environment is an argument."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit


def config_home(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own configuration: `mcc` in `XDG_CONFIG_HOME`, by default `~/.config/mcc`."""
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "mcc"


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

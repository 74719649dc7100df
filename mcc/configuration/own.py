"""What belongs to MCC itself on a machine, so that no agent may see it: data, configuration, secrets."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mcc.configuration.places import config_home, default_data_dir

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

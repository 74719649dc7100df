"""Where a user's files lie, by the XDG base directory specification; the environment is an argument."""

from collections.abc import Mapping
from pathlib import Path


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

"""This room is for small secrets that a data directory keeps: made once, readable by their owner alone."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from mcc.redaction import FLOWER_FILE

FLOWER_USER = "mcc"


def kept_secret(path: Path, make: Callable[[], str]) -> str:
    """What `path` holds; made and written (0600) when missing or empty. Two processes end with the same secret."""
    found = _read(path)
    if found:
        return found
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(make() + "\n")
    try:
        if path.exists():
            path.unlink()
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return _read(path)


def flower_login(data_dir: Path) -> str:
    """`user:password` of Flower."""
    return kept_secret(data_dir / FLOWER_FILE, lambda: f"{FLOWER_USER}:{secrets.token_urlsafe(24)}")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        return ""

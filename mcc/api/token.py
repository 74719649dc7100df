"""The operator's token: where it comes from, and when a service may start without a chosen one."""

import ipaddress
import os
import secrets
from pathlib import Path

from mcc.configuration.private import make_private_directory
from mcc.redaction import TOKEN_FILE
from mcc.settings import SHORTEST_TOKEN, BadSettings, Settings

TOKEN_BYTES = 32


def operator_token(settings: Settings) -> str:
    """The configured token, else the one in the data dir, which is made at the first run (0600, 32 random bytes).

    Raises `BadSettings` when it cannot be read or made.
    """
    if settings.token is not None:
        return settings.token.get_secret_value()
    file = token_file(settings)
    try:
        if settings.token_file is None and not file.exists():
            _make(file)
        token = file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadSettings(
            f"The token in {file} cannot be read or made ({error}): correct the permissions, or name another place "
            "with MCC_TOKEN_FILE or MCC_DATA_DIR."
        ) from error
    if len(token) < SHORTEST_TOKEN:
        raise BadSettings(f"The token in {file} is shorter than {SHORTEST_TOKEN} characters: put a longer one there.")
    return token


def token_file(settings: Settings) -> Path:
    """Where the token is kept when it is not in the settings themselves."""
    return settings.token_file or settings.data_dir / TOKEN_FILE


def _make(file: Path) -> None:
    """Write a fresh token without ever showing a half-written or readable file; the first of two makers wins."""
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


def refuse_open_door(settings: Settings) -> None:
    """Raises `BadSettings` when others could reach the service and nobody chose a token for it."""
    if not is_loopback(settings.host) and settings.token is None and settings.token_file is None:
        raise BadSettings(
            f"To listen on {settings.host}, where other machines can call, set MCC_TOKEN or MCC_TOKEN_FILE "
            f"(at least {SHORTEST_TOKEN} random characters); without one only loopback (127.0.0.1) is possible."
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False

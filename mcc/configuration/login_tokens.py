"""The tokens that `mcc login` was given, by the origin of their service, in one file of the user."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from mcc.configuration.places import NotPrivate, read_private
from mcc.configuration.replacing import locked_directory, replace_json

CREDENTIALS_FILE = "credentials.json"
READABLE_BY_OTHERS = 0o077
USUAL_PORTS = {"http": 80, "https": 443}


class LoginToken(TypedDict):
    """A token, its id in the list of tokens, and when it ends, as ISO 8601."""

    token: str
    id: str
    expires_at: str


class CredentialsProblem(ValueError):
    """The file cannot be read or written. The message is a sentence that says what to do."""


def origin_of(url: str) -> str:
    """Scheme, host and port, as browsers compare them. Raises ValueError for what is no address."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" if parts.port in (None, USUAL_PORTS.get(scheme)) else f"{scheme}://{name}:{parts.port}"


class LoginTokens:
    """Every call reads the file anew. It is read only where nobody else can read or write it, and replaced atomically
    under a lock, so that what several commands keep at once is all kept."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @classmethod
    def within(cls, config_home: Path) -> "LoginTokens":
        """Those in the user's configuration directory."""
        return cls(config_home / CREDENTIALS_FILE)

    def of(self, url: str) -> LoginToken | None:
        """That of the service at `url`. Raises `CredentialsProblem`."""
        return self._read().get(origin_of(url))

    def keep(self, url: str, token: LoginToken) -> None:
        """In place of the one before. Raises `CredentialsProblem`."""
        with self._changing() as kept:
            kept[origin_of(url)] = token

    def forget(self, url: str) -> None:
        """Raises `CredentialsProblem`."""
        if origin_of(url) in self._read():
            with self._changing() as kept:
                kept.pop(origin_of(url), None)

    def _read(self) -> dict[str, LoginToken]:
        # Asked first: without a file, it does not matter who can write the directory.
        if not os.path.lexists(self.file):
            return {}
        try:
            content = read_private(self.file)
            if self.file.stat().st_mode & READABLE_BY_OTHERS:
                raise CredentialsProblem(f"{self.file} can be read by others: chmod 600 {self.file}, and log in anew.")
            return _checked(json.loads(content))
        except FileNotFoundError:
            return {}
        except NotPrivate as problem:
            raise CredentialsProblem(str(problem)) from problem
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError, RecursionError) as problem:
            raise CredentialsProblem(
                f"{self.file} cannot be read ({problem}): remove it, and log in anew with mcc login."
            ) from problem

    @contextmanager
    def _changing(self) -> Iterator[dict[str, LoginToken]]:
        try:
            with locked_directory(self.file) as directory:
                kept = self._read()
                yield kept
                replace_json(directory, self.file.name, kept)
        except (OSError, NotPrivate) as problem:
            raise CredentialsProblem(f"{self.file} cannot be written: {problem}") from problem


def _checked(kept: object) -> dict[str, LoginToken]:
    """Raises TypeError."""
    if not isinstance(kept, dict):
        raise TypeError("it holds no table")
    for token in kept.values():
        if not isinstance(token, dict) or not all(
            isinstance(token.get(name), str) for name in LoginToken.__annotations__
        ):
            raise TypeError("it does not hold origins with tokens")
    return kept

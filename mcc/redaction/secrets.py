"""Which values are secret: those of an environment that look so, passwords within addresses, contents of key files."""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
"""A variable with one of these in its name, whatever the case, may hold a secret."""

OTHER_WORDS = ("KEYBOARD", "KEYMAP", "KEYRING", "KEYCLOAK", "TOKENIZER")
"""Words of names that have one of those within them and mean something else."""

FEWEST_CHARACTERS = 12
"""A variable's value with fewer is a setting (`true`, `us`, `hs256`) rather than a secret."""

LARGEST_BYTES = 16_384
"""Of a file that is named as one with a key, and of a variable's value; no key is longer."""

TOKEN_FILE, FLOWER_FILE = "token", "flower.auth"
"""Files of a data directory: the operator's token, and Flower's login as `user:password`."""

LOGINS = ("FLOWER_BASIC_AUTH",)
"""Variables of `user:password`, several of them separated by commas."""

PUBLIC = frozenset(
    {"postgres", "postgresql", "password", "changeme", "username", "localhost", "anonymous", "administrator"}
)
"""Passwords that everybody knows keep nothing secret, and are words of ordinary texts."""

PLAIN_NAMES = ("HOME", "PWD", "USER", "LOGNAME", "HOSTNAME", "SHELL")
"""Variables whose values are no secrets, under whatever other name they come again."""


def secrets_among(
    environ: Mapping[str, str],
    known: Iterable[str | None] = (),
    addresses: Iterable[str | None] = (),
    logins: Iterable[str] = (),
) -> frozenset[str]:
    """Every value to be kept out of texts; `known` are secret whatever they look like, `logins` are `user:password`.

    A variable that names a file, by a whole path, stands for the content of it: the path itself is no secret.
    """
    open_values = {environ.get(name, "") for name in PLAIN_NAMES}
    found = {part for value in known if value for part in _parts(value, fewest=1)}
    found.update(part for login in logins for part in _logins(login))
    for name, value in environ.items():
        found.update(filter(None, (password_in(value),)))
        if name.upper() in LOGINS:
            found.update(_logins(value))
        elif looks_secret(name) and value not in open_values:
            found.update(_parts(text_of(path)) if (path := _file_of(value)) else _parts(value))
    found.update(filter(None, map(password_in, filter(None, addresses))))
    return frozenset(one for one in found if one.lower() not in PUBLIC)


def looks_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret, when its value is long enough."""
    name = name.upper()
    for other in OTHER_WORDS:
        name = name.replace(other, "")
    return any(word in name for word in WORDS)


def password_in(address: str) -> str | None:
    """The password of `scheme://user:password@host`."""
    if "://" not in address or "@" not in address:
        return None
    try:
        return unquote(urlsplit(address).password or "") or None
    except ValueError:
        return None


def text_of(path: Path) -> str:
    """What a small file says, without the white space around it; nothing when it cannot be read or is no such file."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_BYTES:
                return ""
            return file.read(LARGEST_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""


def _file_of(value: str) -> Path | None:
    """The path that a value is; one that begins like a path but names nothing may well be a key."""
    if not value.startswith(("/", "~/")) or "\n" in value:
        return None
    path = Path(value).expanduser()
    try:
        return path if path.exists() else None
    except (OSError, ValueError):
        return None


def _parts(value: str, fewest: int = FEWEST_CHARACTERS) -> Iterator[str]:
    """The value; of several lines each one, since nothing promises that they stand together in a text.

    Of a JSON object it is what is secret by its name: of a service account's file the key and not the addresses.
    """
    with suppress(ValueError, RecursionError):
        if value.startswith("{") and isinstance(inner := json.loads(value), dict):
            for name, item in inner.items():
                if isinstance(item, str) and looks_secret(name) and "://" not in item:
                    yield from _parts(item)
            return
    for line in value.strip()[:LARGEST_BYTES].splitlines():
        line = line.strip()
        if len(line) >= fewest and not line.startswith("-----"):
            yield line


def _logins(value: str) -> Iterator[str]:
    for login in value.split(","):
        yield login
        yield login.partition(":")[2]

"""Which values are secret, and the forms in which they are looked for.

The forms are plain, escaped, URL-encoded, base64, hex, and backwards. Each of them is one expression, so that mixtures
(every other character percent-encoded, hex in both cases, base64 in both alphabets and within a longer text, any of
them in lines) need no list of their own.
"""

import base64
import html
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import re2

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


MOST_BYTES = 16 << 20
"""What an automaton may take; it needs little of that unless it has to tell very many beginnings apart."""


class Part(NamedTuple):
    """`whole` matches the bytes that are meant, `begun` every beginning of them that is not empty."""

    whole: bytes
    begun: bytes


def byte(*either: int) -> Part:
    """One of these bytes."""
    expression = b"[%b]" % b"".join(b"\\x%02x" % one for one in sorted(set(either)))
    return Part(expression, expression)


def literal(text: bytes) -> Part:
    return sequence(*map(byte, text))


def sequence(*parts: Part) -> Part:
    """One after the other."""
    *before, last = parts
    begun = b"".join(b"(?:%b|%b" % (part.begun, part.whole) for part in before)
    return Part(b"".join(part.whole for part in parts), begun + last.begun + b")" * len(before))


def either(*parts: Part) -> Part:
    return Part(
        b"(?:%b)" % b"|".join(part.whole for part in parts), b"(?:%b)" % b"|".join(part.begun for part in parts)
    )


def optional(part: Part) -> Part:
    return Part(b"(?:%b)?" % part.whole, part.begun)


def repeated(one: Part, least: int, most: int) -> Part:
    """A part of one byte, so many times."""
    return Part(b"%b{%d,%d}" % (one.whole, least, most), b"%b{1,%d}" % (one.whole, most))


def compiled(expression: bytes) -> "re2._Regexp":
    """An automaton over bytes: of all matches the first, of those the longest; linear in the length of the text."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.longest_match = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = MOST_BYTES
    return re2.compile(expression, options)


BACKSLASH, PERCENT = ord("\\"), ord("%")

_ESCAPES = {'"': b'"', "\\": b"\\", "/": b"/", "\n": b"n", "\r": b"r", "\t": b"t", "'": b"'"}
_DIGITS = {
    ord("+"): either(byte(*b"+-"), literal(b"%2B"), literal(b"%2b")),
    ord("/"): either(byte(*b"/_"), literal(b"\\/"), literal(b"%2F"), literal(b"%2f")),
}
"""What stands for the digits of base64 that have another sign in its other alphabet, and are encoded in addresses."""

_BACKSLASHES = repeated(byte(BACKSLASH), 1, 4)
"""JSON within JSON doubles them."""

_PERCENTS = Part(b"%(?:25){0,2}", b"%(?:2|25|252|2525)?")
"""The sign itself may be encoded again."""

_UNICODE = sequence(_BACKSLASHES, byte(*b"uU"))
_ESCAPE = sequence(_BACKSLASHES, either(byte(*b"xX"), sequence(byte(*b"uU"), literal(b"00"))))
_NEW_LINE = either(
    sequence(optional(byte(*b"\r")), byte(*b"\n")), sequence(optional(literal(b"\\r")), byte(BACKSLASH), byte(*b"n"))
)
_INDENT = Part(b"[ \\t]*", b"[ \\t]+")
_UNSEEN = either(*(literal(one.encode()) for one in "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_WRAP = optional(either(sequence(_NEW_LINE, _INDENT), _UNSEEN))
"""A block of lines stands indented in YAML, say; pages tell a browser by a sign without width where it may wrap."""

_BETWEEN_BYTES = optional(either(byte(*b" :,"), _NEW_LINE, _UNSEEN))


def forms(secret: str) -> Iterator[Sequence[Part]]:
    """Each form as the parts that follow each other in it."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield _joined([_character(one) for one in secret], _WRAP)
    for before in range(3):
        yield _joined(list(_in_base64(raw, before)), _WRAP)
    yield _joined([_hex(one) for one in raw], _BETWEEN_BYTES)
    yield _joined([literal(one.encode("utf-8", "surrogatepass")) for one in reversed(secret)], _WRAP)


def _character(one: str) -> Part:
    raw = one.encode("utf-8", "surrogatepass")
    if len(raw) == 1:
        ways = [literal(raw), sequence(either(_PERCENTS, _ESCAPE), _hex(raw[0]))]
    else:
        utf16 = one.encode("utf-16-be", "surrogatepass")
        units = [sequence(_UNICODE, _hex(utf16[at]), _hex(utf16[at + 1])) for at in range(0, len(utf16), 2)]
        ways = [literal(raw), sequence(*(sequence(_PERCENTS, _hex(value)) for value in raw)), sequence(*units)]
    if one in _ESCAPES:
        ways.append(sequence(_BACKSLASHES, literal(_ESCAPES[one])))
    if one == " ":
        ways.append(byte(*b"+"))
    if (entity := html.escape(one)) != one:
        ways.append(literal(entity.encode()))
    return either(*ways)


def _hex(value: int) -> Part:
    low, high = b"%02x" % value, b"%02X" % value
    return sequence(byte(low[0], high[0]), byte(low[1], high[1]))


def _in_base64(raw: bytes, before: int) -> Iterator[Part]:
    """What encodes `raw` when `before` bytes (0 to 2) stand before it in its group of three.

    The characters at both edges encode bits of their neighbours as well, and stay; one before padding goes with it.
    """
    encoded = base64.b64encode(b"\0" * before + raw)
    first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
    for value in encoded[first:last]:
        yield _DIGITS.get(value) or byte(value)
    if padded := -(before + len(raw)) % 3:
        yield optional(sequence(_DIGITS.get(encoded[last]) or byte(encoded[last]), *[byte(*b"=")] * padded))


def _joined(parts: Sequence[Part], between: Part) -> Sequence[Part]:
    return [parts[0], *(sequence(between, part) for part in parts[1:])]

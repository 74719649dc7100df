"""Which values are secret, and the encoded forms in which a secret is searched for.

The forms are plain, escaped, URL-encoded, base64, hex and reversed. Each is one regular expression, so that mixtures
need no list of their own: every other character percent-encoded, hex in both cases, base64 in both alphabets and inside
a longer text, any of them wrapped over several lines.
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
"""A variable with one of these words in its name, in any case, may hold a secret."""

OTHER_WORDS = ("KEYBOARD", "KEYMAP", "KEYRING", "KEYCLOAK", "TOKENIZER")
"""Words that contain one of `WORDS` but do not mark a secret."""

FEWEST_CHARACTERS = 12
"""A shorter value of a variable is taken for a setting (`true`, `us`, `hs256`), not for a secret."""

LARGEST_BYTES = 16_384
"""The largest key file that is read, and the most that is taken of a variable's value. No key is longer."""

TOKEN_FILE, FLOWER_FILE = "token", "flower.auth"
"""Files of a data directory: the operator's token, and Flower's login in the form `user:password`."""

LOGINS = ("FLOWER_BASIC_AUTH",)
"""Variables that hold comma-separated logins in the form `user:password`."""

PUBLIC = frozenset(
    {"postgres", "postgresql", "password", "changeme", "username", "localhost", "anonymous", "administrator"}
)
"""Well-known default passwords. They protect nothing, and redacting them would damage ordinary texts."""

PLAIN_NAMES = ("HOME", "PWD", "USER", "LOGNAME", "HOSTNAME", "SHELL")
"""Variables whose values are never secret, even if a variable with a secret-looking name has the same value."""


def secrets_among(
    environ: Mapping[str, str],
    known: Iterable[str | None] = (),
    addresses: Iterable[str | None] = (),
    logins: Iterable[str] = (),
) -> frozenset[str]:
    """Every value to redact: from variables of `environ` that look secret, `known`, `addresses` and `logins`.

    `known` values are secret whatever they look like. `addresses` are URLs, whose passwords are secret. `logins` have
    the form `user:password`. When a variable's value is an absolute path, the file's content is secret, not the path.
    """
    open_values = {environ.get(name, "") for name in PLAIN_NAMES}
    secrets = {part for value in known if value for part in _parts(value, fewest=1)}
    secrets.update(part for login in logins for part in _logins(login))
    for name, value in environ.items():
        secrets.update(passwords_in(value))
        if name.upper() in LOGINS:
            secrets.update(_logins(value))
        elif looks_secret(name) and value not in open_values:
            secrets.update(_parts(text_of(path)) if (path := _file_of(value)) else _parts(value))
    secrets.update(password for address in filter(None, addresses) for password in passwords_in(address))
    return frozenset(secret for secret in secrets if secret.lower() not in PUBLIC)


def looks_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret (if its value is long enough)."""
    name = name.upper()
    for other in OTHER_WORDS:
        name = name.replace(other, "")
    return any(word in name for word in WORDS)


def passwords_in(address: str) -> Iterator[str]:
    """The password in `scheme://user:password@host`, and those among its parameters, such as `sentinel_password`."""
    if "://" not in address or ("@" not in address and "password=" not in address):
        return
    try:
        parts = urlsplit(address)
        passwords = [
            parts.password or "",
            *(part.partition("=")[2] for part in parts.query.split("&") if _names_one(part)),
        ]
    except ValueError:
        return
    yield from filter(None, map(unquote, passwords))


def _names_one(parameter: str) -> bool:
    return parameter.partition("=")[0].lower().endswith("password")


def text_of(path: Path) -> str:
    """The stripped text of a file; "" when it is unreadable, not regular, or larger than `LARGEST_BYTES`."""
    try:
        # O_NONBLOCK, because opening a named pipe would otherwise wait for its writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
                return ""
            return file.read(LARGEST_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""


def _file_of(value: str) -> Path | None:
    """The path in a value, None if no such file exists: a key may begin like a path."""
    if not value.startswith(("/", "~/")) or "\n" in value:
        return None
    path = Path(value).expanduser()
    try:
        return path if path.exists() else None
    except (OSError, ValueError):
        return None


def _parts(value: str, fewest: int = FEWEST_CHARACTERS) -> Iterator[str]:
    """The secret parts of a value: each of its lines, because they need not appear together in a text.

    Of a JSON object, the strings whose names look secret and that are no URLs: of a service account file, the key.
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
"""Memory limit of an automaton. It needs little of that unless it must distinguish very many beginnings."""


class SecretPattern(NamedTuple):
    """Two regular expressions: `whole` matches complete byte sequences, `begun` every non-empty prefix of one."""

    whole: bytes
    begun: bytes


def byte(*either: int) -> SecretPattern:
    """Any one of these byte values."""
    expression = b"[%b]" % b"".join(b"\\x%02x" % one for one in sorted(set(either)))
    return SecretPattern(expression, expression)


def literal(text: bytes) -> SecretPattern:
    return sequence(*map(byte, text))


def sequence(*parts: SecretPattern) -> SecretPattern:
    """The parts in succession."""
    *before, last = parts
    begun = b"".join(b"(?:%b|%b" % (part.begun, part.whole) for part in before)
    return SecretPattern(b"".join(part.whole for part in parts), begun + last.begun + b")" * len(before))


def either(*parts: SecretPattern) -> SecretPattern:
    return SecretPattern(
        b"(?:%b)" % b"|".join(part.whole for part in parts), b"(?:%b)" % b"|".join(part.begun for part in parts)
    )


def optional(part: SecretPattern) -> SecretPattern:
    return SecretPattern(b"(?:%b)?" % part.whole, part.begun)


def repeated(one: SecretPattern, least: int, most: int) -> SecretPattern:
    """A one-byte part, `least` to `most` times."""
    return SecretPattern(b"%b{%d,%d}" % (one.whole, least, most), b"%b{1,%d}" % (one.whole, most))


def compiled(expression: bytes) -> "re2._Regexp":
    """Compile an automaton over bytes. It finds the leftmost-longest match in time linear in the length of the text."""
    options = re2.Options()
    # Bytes as they are: a secret may stand in a text of any encoding, or in none.
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
"""Alternatives for the base64 digits + and /: the URL-safe alphabet has other characters, and URLs encode both."""

_BACKSLASHES = repeated(byte(BACKSLASH), 1, 4)
"""JSON inside JSON doubles each backslash."""

_PERCENTS = SecretPattern(b"%(?:25){0,2}", b"%(?:2|25|252|2525)?")
"""A percent sign, which may itself be percent-encoded once or twice."""

_UNICODE = sequence(_BACKSLASHES, byte(*b"uU"))
_ESCAPE = sequence(_BACKSLASHES, either(byte(*b"xX"), sequence(byte(*b"uU"), literal(b"00"))))
_NEW_LINE = either(
    sequence(optional(byte(*b"\r")), byte(*b"\n")), sequence(optional(literal(b"\\r")), byte(BACKSLASH), byte(*b"n"))
)
_INDENT = SecretPattern(b"[ \\t]*", b"[ \\t]+")
_INVISIBLE = either(*(literal(one.encode()) for one in "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_WRAP = optional(either(sequence(_NEW_LINE, _INDENT), _INVISIBLE))
"""What may stand between two characters: a line break with indentation (as in a YAML block), or an invisible character
(web pages mark possible line breaks with zero-width ones)."""

_BETWEEN_BYTES = optional(either(byte(*b" :,"), _NEW_LINE, _INVISIBLE))


def forms(secret: str) -> Iterator[Sequence[SecretPattern]]:
    """The encoded forms of a secret, each as a sequence of parts (one per character, byte or base64 digit)."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield _joined([_character(letter) for letter in secret], _WRAP)
    # Base64 encodes groups of three bytes, so it depends on where in a group the secret begins.
    for before in range(3):
        yield _joined(list(_in_base64(raw, before)), _WRAP)
    yield _joined([_hex(byte) for byte in raw], _BETWEEN_BYTES)
    yield _joined([literal(letter.encode("utf-8", "surrogatepass")) for letter in reversed(secret)], _WRAP)


def _character(one: str) -> SecretPattern:
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


def _hex(value: int) -> SecretPattern:
    low, high = b"%02x" % value, b"%02X" % value
    return sequence(byte(low[0], high[0]), byte(low[1], high[1]))


def _in_base64(raw: bytes, before: int) -> Iterator[SecretPattern]:
    """The base64 digits of `raw` when `before` bytes (0 to 2) precede it in its group of three bytes.

    Leaves out digits at the edges that also encode bits of neighbouring bytes, except (optionally) one before padding.
    """
    encoded = base64.b64encode(b"\0" * before + raw)
    first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
    for value in encoded[first:last]:
        yield _DIGITS.get(value) or byte(value)
    if padded := -(before + len(raw)) % 3:
        yield optional(sequence(_DIGITS.get(encoded[last]) or byte(encoded[last]), *[byte(*b"=")] * padded))


def _joined(parts: Sequence[SecretPattern], between: SecretPattern) -> Sequence[SecretPattern]:
    return [parts[0], *(sequence(between, part) for part in parts[1:])]

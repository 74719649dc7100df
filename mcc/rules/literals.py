"""Literals of CEL: numbers, texts and bytes as they are written, with their escapes."""

from collections.abc import Iterator
from typing import Any

from mcc.rules.kinds import MAX_INT, MAX_UINT, Uint

_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_CODES = {"x": 2, "X": 2, "u": 4, "U": 8}
_DIGITS = 20
"""Those of the greatest number: more of them do not fit, and are not even read."""


def literal(token: Any, sign: str = "") -> object:
    """The value of a literal's token; `sign` is the minus before it. Raises ValueError: a sentence with a verb."""
    written = str(token)
    match token.type:
        case "BOOL_LIT":
            return written == "true"
        case "NULL_LIT":
            return None
        case "INT_LIT":
            return _whole(sign + written)
        case "UINT_LIT":
            return _unsigned(written[:-1])
        case "FLOAT_LIT":
            return float(sign + written)
        case "BYTES_LIT":
            return _bytes(written[1:])
    return _text(written)


def _whole(written: str) -> int:
    found = _number(written.removeprefix("-")) * (-1 if written.startswith("-") else 1)
    if not -MAX_INT - 1 <= found <= MAX_INT:
        raise ValueError("does not fit into 64 bits")
    return found


def _unsigned(written: str) -> Uint:
    found = _number(written)
    if found > MAX_UINT:
        raise ValueError("does not fit into 64 bits")
    return Uint(found)


def _number(digits: str) -> int:
    if len(digits.lstrip("0")) > _DIGITS:
        raise ValueError("does not fit into 64 bits")
    return int(digits, 16 if digits[:2] in ("0x", "0X") else 10)


def _body(written: str) -> tuple[str, bool]:
    """What stands between the quotes, and whether escapes in it are left alone."""
    raw = written[0] in "rR"
    quoted = written[1:] if raw else written
    wide = 3 if quoted[:3] in ('"""', "'''") else 1
    return quoted[wide:-wide], raw


def _text(written: str) -> str:
    body, raw = _body(written)
    return body if raw or "\\" not in body else "".join(one for one, _ in _unescaped(body))


def _bytes(written: str) -> bytes:
    """Octal and hexadecimal escapes are bytes; the rest is written in UTF-8."""
    body, raw = _body(written)
    if raw or "\\" not in body:
        return body.encode("utf-8")
    return b"".join(_byte(one, how) for one, how in _unescaped(body))


def _byte(one: str, how: str) -> bytes:
    if how in ("u", "U"):
        raise ValueError(f"names a character with \\{how} in bytes; write \\x and two digits for each byte")
    return bytes((ord(one),)) if how else one.encode("utf-8")


def _unescaped(body: str) -> Iterator[tuple[str, str]]:
    """Pieces of `body` with their escapes read; beside each `x`, `o`, `u` or `U` where its number was written."""
    at = 0
    while (found := body.find("\\", at)) >= 0:
        if found > at:
            yield body[at:found], ""
        letter = body[found + 1]
        at = found + 2
        if letter in _ESCAPES:
            yield _ESCAPES[letter], ""
        elif letter in _CODES:
            at += _CODES[letter]
            yield _code(body[found + 2 : at], _CODES[letter], 16, letter), letter
        elif letter in "0123":
            at += 2
            yield _code(body[found + 1 : at], 3, 8, letter), "o"
        else:
            raise ValueError(f"has the escape \\{letter}, which CEL does not know")
    yield body[at:], ""


def _code(digits: str, length: int, base: int, letter: str) -> str:
    known = "01234567" if base == 8 else "0123456789abcdefABCDEF"
    if len(digits) < length or any(digit not in known for digit in digits):
        raise ValueError(f"has an escape \\{letter} without its {length} digits")
    number = int(digits, base)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ValueError(f"has the escape \\{letter}{digits}, which is no character")
    return chr(number)

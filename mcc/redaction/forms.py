"""Forms in which a secret is looked for: plain, escaped, URL-encoded, base64, hex, and backwards.

Each of them is one expression, so that mixtures (every other character percent-encoded, hex in both cases, base64 in
both alphabets and within a longer text, any of them in lines) need no list of their own.
"""

import base64
import html
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import re2

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

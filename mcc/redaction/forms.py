"""The forms in which a secret is looked for: plain, escaped, URL-encoded, base64, hex, and backwards.

Each of them is one expression, so that mixtures (every other character percent-encoded, hex in both cases, base64 in
lines, in both alphabets and within a longer text) need no list of their own.
"""

import base64
import html
from collections.abc import Iterator, Sequence

from mcc.redaction.expression import Part, byte, either, literal, optional, repeated, sequence

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
_WRAP = optional(sequence(_NEW_LINE, _INDENT))
"""A block of lines stands indented in YAML, say."""

_BETWEEN_BYTES = optional(either(byte(*b" :,"), _NEW_LINE))


def forms(secret: str) -> Iterator[Sequence[Part]]:
    """Each form as the parts that follow each other in it."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield [_character(one) for one in secret]
    for before in range(3):
        yield _joined(list(_in_base64(raw, before)), _WRAP)
    yield _joined([_hex(one) for one in raw], _BETWEEN_BYTES)
    yield [literal(one.encode("utf-8", "surrogatepass")) for one in reversed(secret)]


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

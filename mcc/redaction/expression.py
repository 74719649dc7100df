"""Regular expressions put together from parts, each of which knows what a text looks like that stops within it."""

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

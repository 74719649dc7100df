"""Identifiers: fresh ones that sort by time, derived ones that a second run finds again."""

import hashlib
import re
import secrets
import time
import uuid

IDENTIFIER = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
"""What every id looks like."""

_IDENTIFIER = re.compile(IDENTIFIER)
_NAMESPACE = uuid.UUID("6f3c0c52-55b5-5f0e-9d0f-2b8f5f5f4d11").bytes


def fresh_id() -> str:
    """A new UUIDv7 as text: milliseconds since 1970, 12 bits of the fraction of a millisecond, 62 random bits.

    That is method 3 of RFC 9562, section 6.2: ids made in one millisecond still sort by time.
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | 0x7 << 76
    value |= fraction << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def is_identifier(text: str) -> bool:
    return _IDENTIFIER.fullmatch(text) is not None


def derived_id(*parts: str | int) -> str:
    """A UUIDv5 as text that depends on `parts` alone, so that a resumed run derives the same id."""
    name = "/".join(map(str, parts)).encode()
    digits = hashlib.sha1(_NAMESPACE + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def root_record_id(order_id: str) -> str:
    """The master's record; every attempt at an order goes on in it."""
    return derived_id(order_id, "root")


def call_id(record_id: str, round_number: int, index: int) -> str:
    """The tool call at `index` of the reply of `round_number` in a record; unique in its order."""
    return derived_id(record_id, "call", round_number, index)


def child_record_id(parent_call_id: str, index: int = 0) -> str:
    """The record of the child that a delegating tool call started; `index` counts children of one call."""
    return derived_id(parent_call_id, "child", index)


def verifier_record_id(record_id: str, round_number: int) -> str:
    """The record of the agent that judges what a record brought with the reply of `round_number`."""
    return derived_id(record_id, "verify", round_number)

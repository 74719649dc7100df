"""Identifiers: new ones that sort by time, and derived ones that a resumed run computes again."""

import hashlib
import os
import re
import time
import uuid
from collections.abc import Iterator

IDENTIFIER = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
"""The pattern that every id matches."""

IDS_AT_ONCE = 64

_IDENTIFIER = re.compile(IDENTIFIER)
_NAMESPACE = uuid.UUID("6f3c0c52-55b5-5f0e-9d0f-2b8f5f5f4d11").bytes


def fresh_id() -> str:
    """A new UUIDv7 as text: milliseconds since 1970, 12 bits of the fraction of a millisecond, 62 random bits.

    The layout is method 3 of RFC 9562, section 6.2, so ids made within one millisecond still sort by time.
    """
    return _id_of_now(os.urandom(8))


def fresh_ids() -> Iterator[str]:
    """As many ids as are asked for, each as `fresh_id` makes it at that moment.

    The system is asked for random bytes once for many: each time, a thread lets go of the interpreter, and waits for
    it where others are busy.
    """
    while True:
        random = os.urandom(8 * IDS_AT_ONCE)
        for start in range(0, len(random), 8):
            yield _id_of_now(random[start : start + 8])


def _id_of_now(random: bytes) -> str:
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | 0x7 << 76
    value |= fraction << 64 | 0b10 << 62 | int.from_bytes(random) >> 2
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def lowest_id(milliseconds: int) -> str:
    """The lowest id that `fresh_id` can have made this many milliseconds after 1970, or later."""
    return str(uuid.UUID(int=(max(0, milliseconds) & ((1 << 48) - 1)) << 80))


def is_identifier(text: str) -> bool:
    return _IDENTIFIER.fullmatch(text) is not None


def derived_id(*parts: str | int) -> str:
    """A UUIDv5 as text, computed from `parts` alone, so a resumed run derives the same id."""
    name = "/".join(map(str, parts)).encode()
    digits = hashlib.sha1(_NAMESPACE + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def root_record_id(order_id: str) -> str:
    """Id of the master's record; all attempts at an order share it."""
    return derived_id(order_id, "root")


def delivery_record_id(order_id: str) -> str:
    """Id of the record of an order's delivery, below its master's; a takeover goes on in it."""
    return derived_id(order_id, "delivery")


def call_id(record_id: str, round_number: int, index: int) -> str:
    """Id of the tool call at `index` in the reply of round `round_number`; unique within its order."""
    return derived_id(record_id, "call", round_number, index)


def child_record_id(parent_call_id: str, index: int = 0) -> str:
    """Id of the record of a child that a delegating tool call started; `index` counts the children of that call."""
    return derived_id(parent_call_id, "child", index)


def compaction_record_id(record_id: str, number: int) -> str:
    """Id of the record of the request that summarises the conversation of `record_id` for the `number`th time."""
    return derived_id(record_id, "compaction", number)


def compaction_session_id(session_id: str) -> str:
    """Id of the session in which the orders are that compact this one; no other session has an id of this version."""
    return derived_id(session_id, "compact")


def named_session_id(text: str) -> str:
    """Id of the session that triggers know by this text: always the same one, and of version 8, as version 5 says that
    a session compacts another."""
    derived = derived_id("session", text)
    return f"{derived[:14]}8{derived[15:]}"


def is_compaction_session(session_id: str) -> bool:
    """Whether a session has the id that `compaction_session_id` gives."""
    return session_id[14:15] == "5"


def verifier_record_id(record_id: str, round_number: int) -> str:
    """Id of the record of the verifier that judges what `record_id` handed in with the reply of `round_number`."""
    return derived_id(record_id, "verify", round_number)

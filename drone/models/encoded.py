"""A message in a provider's form: encoded once where it is small, and anew each time where that would hold it twice."""

from collections.abc import Callable
from typing import TypeVar

from drone.agent.messages import Message

M = TypeVar("M", bound=Message)

LARGE_BYTES = 64 * 1024
"""A message that is larger costs less to encode again (some 30 µs) than to send, and nothing to hold."""


def encoded(message: M, form: str, encode: Callable[[M], bytes]) -> bytes:
    known = message.encoded.get(form)
    if known is None:
        known = encode(message)
        if len(known) <= LARGE_BYTES:
            message.encoded[form] = known
    return known

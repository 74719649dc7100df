"""Reading and writing JSON as models produce it: lone surrogates, large integers, near misses, doubled encoding."""

import json
from collections.abc import Mapping
from typing import TypeAlias

import orjson

from mcc.contracts.shape import repeated_key, to_json
from mcc.rules.near_json import MOST_REPAIRED, repaired, strict, too_deep

Json: TypeAlias = Mapping[str, object]
_NO_FIELDS: Json = {}


def write(value: object) -> bytes:
    """`value` as JSON in UTF-8; characters that UTF-8 cannot carry are escaped.

    The bytes are copied because orjson's own bytes keep their write buffer alive, several KB even for a short message.
    """
    try:
        return memoryview(orjson.dumps(value)).tobytes()
    except TypeError:
        return to_json(value)


def read(raw: bytes) -> object:
    """The JSON value in `raw`. NaN and Infinity, which some servers write, are accepted. Raises ValueError for anything
    else that is not JSON."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _read_slowly(raw)


def _read_slowly(raw: bytes) -> object:
    """Read what orjson rejects: lone surrogates (escaped or raw), NaN, a byte order mark."""
    try:
        return json.loads(raw.decode("utf-8", "surrogatepass").removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def arguments(text: str) -> Mapping[str, object] | str:
    """The object in a call's arguments, or the text unchanged when it is not a JSON object. Empty text is {}.

    Some servers encode the object twice, others send an empty object before the real one; both are handled. An object
    with a repeated key stays text. A near miss is read as the only object it can mean.
    """
    if not text.strip():
        return {}
    plain = _unwrapped(text)
    value = strict(plain)
    if isinstance(value, dict) and not too_deep(plain):
        return value
    if value is None and len(text) <= MOST_REPAIRED and not repeated_key(plain):
        near = repaired(text)
        value = strict(near)
        if isinstance(value, dict) and not too_deep(near):
            return value
    return plain if repeated_key(plain) else text


def _unwrapped(text: str) -> str:
    if text.startswith('{}{"'):
        return text[2:]
    value = strict(text) if text.startswith('"') else None
    return value if isinstance(value, str) else text


def object_in(value: object) -> Json:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else _NO_FIELDS


def text_in(value: object) -> str:
    """`value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def joined(pieces: list[str]) -> str:
    """All pieces as one text; a surrogate pair split between two pieces becomes one character again."""
    text = "".join(pieces)
    if len(pieces) < 2 or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text

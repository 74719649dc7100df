"""Reading and writing JSON as models produce it: lone surrogates, large integers, and near misses that have only one
possible meaning."""

import json
import math
from collections.abc import Mapping
from typing import TypeAlias

import orjson

from mcc.contracts.shape import refuse_repeated_keys, repeated_key, to_json

Json: TypeAlias = Mapping[str, object]
_NO_FIELDS: Json = {}

_FENCE = "```"
_WORDS = {"True": "true", "False": "false", "None": "null"}
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def repaired(text: str) -> str:
    """`text` as valid JSON where it nearly is: without code fence and trailing commas, with double quotes, escaped
    control characters and JSON's literals. Takes one pass; what is not JSON afterwards was not a near miss."""
    plain = _unfenced(text.strip())
    output: list[str] = []
    at = 0
    while at < len(plain):
        character = plain[at]
        if character in "\"'":
            at = _string(plain, at, output)
        elif character == ",":
            at = _comma(plain, at, output)
        elif character.isalpha():
            end = at
            while end < len(plain) and (plain[end].isalnum() or plain[end] == "_"):
                end += 1
            word = plain[at:end]
            output.append(_WORDS.get(word, word))
            at = end
        else:
            output.append(character)
            at += 1
    return "".join(output)


def _unfenced(text: str) -> str:
    """The text between the lines of a code fence."""
    if not text.startswith(_FENCE) or not text.endswith(_FENCE):
        return text
    _, _, inside = text.partition("\n")
    return inside.removesuffix(_FENCE)


def _comma(text: str, at: int, output: list[str]) -> int:
    """Copy a comma, except where a closing bracket follows."""
    after = at + 1
    while after < len(text) and text[after].isspace():
        after += 1
    if after >= len(text) or text[after] not in "}]":
        output.append(",")
    return at + 1


def _string(text: str, begin: int, output: list[str]) -> int:
    """Write the string that begins at `begin` in double quotes. Returns the position after it."""
    quote, at = text[begin], begin + 1
    output.append('"')
    while at < len(text) and text[at] != quote:
        character = text[at]
        if character == "\\" and at + 1 < len(text):
            following = text[at + 1]
            output.append("'" if following == "'" else character + following)
            at += 2
            continue
        output.append('\\"' if character == '"' else _escaped(character))
        at += 1
    if at < len(text):
        output.append('"')
    return at + 1


def _escaped(character: str) -> str:
    if character >= " ":
        return character
    return _ESCAPED.get(character) or json.dumps(character)[1:-1]


MOST_REPAIRED = 256 * 1024
"""Characters of malformed arguments that are repaired at most. Models do not produce more by mistake, and repairing
megabytes from a server would stall the other orders of the drone."""

MAX_DEPTH = 100
"""Arguments nested deeper stay text: no tool needs them, and later storage must not fail on them."""


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
    value = _strict(plain)
    if isinstance(value, dict) and not _too_deep(plain):
        return value
    if value is None and len(text) <= MOST_REPAIRED and not repeated_key(plain):
        near = repaired(text)
        value = _strict(near)
        if isinstance(value, dict) and not _too_deep(near):
            return value
    return plain if repeated_key(plain) else text


def _unwrapped(text: str) -> str:
    if text.startswith('{}{"'):
        return text[2:]
    value = _strict(text) if text.startswith('"') else None
    return value if isinstance(value, str) else text


def _strict(text: str) -> object:
    try:
        return _STRICT.decode(text)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("the number is too large")
    return value


_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, object_pairs_hook=refuse_repeated_keys)


def _too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "}]":
            depth -= 1
    return deepest > MAX_DEPTH


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

"""JSON that is checked strictly, and the repair of near misses that have only one possible meaning."""

import json
import math

from mcc.contracts.shape import refuse_repeated_keys

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


def strict(text: str) -> object:
    """The JSON value in `text`; None for null, for what is no JSON, and for NaN, infinite numbers and repeated keys."""
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


def too_deep(text: str) -> bool:
    """Whether JSON text is nested deeper than `MAX_DEPTH`."""
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

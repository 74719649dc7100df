"""Arguments that are nearly JSON, read as what they can only mean: no brackets are added, nothing is guessed."""

import json

_FENCE = "```"
_WORDS = {"True": "true", "False": "false", "None": "null"}
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def repaired(text: str) -> str:
    """`text` without a code fence and commas before a closing bracket, with double quotes, escaped control characters
    and JSON's words. One pass; what is still no JSON then was no near miss."""
    plain = _unfenced(text.strip())
    told: list[str] = []
    at = 0
    while at < len(plain):
        character = plain[at]
        if character in "\"'":
            at = _string(plain, at, told)
        elif character == ",":
            at = _comma(plain, at, told)
        elif character.isalpha():
            end = at
            while end < len(plain) and (plain[end].isalnum() or plain[end] == "_"):
                end += 1
            word = plain[at:end]
            told.append(_WORDS.get(word, word))
            at = end
        else:
            told.append(character)
            at += 1
    return "".join(told)


def _unfenced(text: str) -> str:
    """What stands between the lines of a code fence."""
    if not text.startswith(_FENCE) or not text.endswith(_FENCE):
        return text
    _, _, inside = text.partition("\n")
    return inside.removesuffix(_FENCE)


def _comma(text: str, at: int, told: list[str]) -> int:
    """A comma is left out when a bracket closes after it."""
    after = at + 1
    while after < len(text) and text[after].isspace():
        after += 1
    if after >= len(text) or text[after] not in "}]":
        told.append(",")
    return at + 1


def _string(text: str, begin: int, told: list[str]) -> int:
    """The string that begins at `begin`, in double quotes; where the text goes on after it."""
    quote, at = text[begin], begin + 1
    told.append('"')
    while at < len(text) and text[at] != quote:
        character = text[at]
        if character == "\\" and at + 1 < len(text):
            following = text[at + 1]
            told.append("'" if following == "'" else character + following)
            at += 2
            continue
        told.append('\\"' if character == '"' else _escaped(character))
        at += 1
    if at < len(text):
        told.append('"')
    return at + 1


def _escaped(character: str) -> str:
    if character >= " ":
        return character
    return _ESCAPED.get(character) or json.dumps(character)[1:-1]

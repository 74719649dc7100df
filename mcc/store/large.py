"""This room is for large texts inside entry data: cut out under their SHA-256 before storing, put back when read."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pydantic_core

from mcc.contracts.shape import to_json

STRING_BYTES = 32 * 1024
"""A string whose UTF-8 is longer becomes a blob of its own."""

ENTRY_BYTES = 64 * 1024
"""Data that is longer still becomes one blob, without the strings that are blobs of their own."""

PREVIEW_CHARACTERS = 1_000


def text_digest(text: str) -> str:
    """SHA-256 in hex; lone surrogates are hashed as what `surrogatepass` makes of them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parsed(text: str | bytes) -> Any:
    """JSON to Python; lone surrogates in escapes are kept."""
    try:
        return pydantic_core.from_json(text)
    except ValueError:
        return json.loads(text)


def cut(document: bytes, blobs: dict[str, str]) -> tuple[str, str | None]:
    """`document` (a JSON object) short enough for a row, and the JSON list `[[path, digest], …]` of what was cut out.

    The texts themselves are added to `blobs` by digest.
    """
    if len(document) <= STRING_BYTES:
        return document.decode(), None
    places: list[tuple[list[str | int], str]] = []
    cut_out: dict[str, str] = {}
    rest = to_json(_without_long(parsed(document), [], places, cut_out))
    if len(rest) > ENTRY_BYTES:
        everything = rest.decode()
        digest = text_digest(everything)
        blobs.update(cut_out)
        blobs[digest] = everything
        return "{}", to_json([([], digest), *places]).decode()
    blobs.update(cut_out)
    return rest.decode(), to_json(places).decode() if places else None


def _without_long(
    value: Any, path: list[str | int], places: list[tuple[list[str | int], str]], blobs: dict[str, str]
) -> Any:
    if isinstance(value, str):
        if len(value) <= STRING_BYTES // 4 or len(value.encode("utf-8", "surrogatepass")) <= STRING_BYTES:
            return value
        digest = text_digest(value)
        blobs[digest] = value
        places.append((path, digest))
        return value[:PREVIEW_CHARACTERS]
    if isinstance(value, dict):
        return {key: _without_long(item, [*path, key], places, blobs) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_long(item, [*path, index], places, blobs) for index, item in enumerate(value)]
    return value


def digests(large: Iterable[str | None]) -> set[str]:
    """All digests that these lists of places name."""
    return {digest for places in large if places for _, digest in json.loads(places)}


def whole(document: str, places: str | None, blobs: Mapping[str, str]) -> Any:
    """The JSON value that `cut` was given, as Python."""
    value = parsed(document)
    for path, digest in json.loads(places) if places else ():
        if not path:
            value = parsed(blobs[digest])
            continue
        target = value
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = blobs[digest]
    return value

"""Long texts of entries: stored outside their rows, put back when read, or replaced by marks in an outline."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pydantic_core

from mcc.contracts.shape import to_json
from mcc.rules.patterns import Pattern

STRING_BYTES = 32 * 1024
"""A string whose UTF-8 is longer than this becomes a blob of its own."""

ENTRY_BYTES = 64 * 1024
"""Data that is longer than this without the strings that became blobs becomes one more blob as a whole."""

PREVIEW_CHARACTERS = 1_000

_DIGEST = Pattern(r'"([0-9a-f]{64})"')


def text_digest(text: str) -> str:
    """SHA-256 in hex of the UTF-8; lone surrogates are encoded with `surrogatepass`."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parsed(text: str | bytes) -> Any:
    """JSON parsed to Python values. Escaped lone surrogates are kept, which pydantic's parser rejects."""
    try:
        return pydantic_core.from_json(text)
    except ValueError:
        return json.loads(text)


def cut(document: bytes, blobs: dict[str, str]) -> tuple[str, str | None]:
    """Shorten `document` (a JSON object) to fit a row; answers it with the JSON list `[[path, digest], …]` of what was
    cut out, or None.

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
    """All digests in these JSON lists, which `cut` made."""
    return {digest for places in large if places for _, digest in json.loads(places)}


def named_in(document: str) -> Iterator[str]:
    """Strings in this JSON that look like the digest of a stored text."""
    return (found[1] or "" for found in _DIGEST.finditer(document))


def whole(document: str, places: str | None, blobs: Mapping[str, str]) -> Any:
    """The document that was given to `cut`, as Python values."""
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


LONG_CHARACTERS = 400
"""A longer text is left out of an outline, and read when it is sent."""

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where a text is: in entry `seq` at this path of its data, or in the blob with this digest."""

    seq: int
    path: Path
    characters: int
    digest: str | None = None


@dataclass(slots=True)
class EntryOutline:
    """Replaces long texts of entries with marks. Journals cannot contain forged marks: an outline's word is secret."""

    places: list[TextPlace] = field(default_factory=list)
    _word: str = field(default_factory=lambda: secrets.token_hex(16))

    def of_row(self, seq: int, document: Any, cut: Iterable[TextPlace] = ()) -> Any:
        """An entry's data with marks. `cut`: the places of texts of which `document` contains only the beginnings."""
        return self._marked(seq, document, (), {place.path: place for place in cut})

    def pieces(self, document: bytes) -> Iterator[bytes | TextPlace]:
        """JSON made of marked entries, split at the marks: pieces of it, and between them places of texts to insert."""
        first, *others = document.split(self._word.encode())
        yield first
        for other in others:
            number, _, rest = other.partition(b";")
            yield self.places[int(number)]
            yield rest

    def _marked(self, seq: int, value: Any, path: Path, apart: dict[Path, TextPlace]) -> Any:
        if isinstance(value, str):
            if (place := apart.get(path)) is not None:
                return self._mark(place)
            return value if len(value) <= LONG_CHARACTERS else self._mark(TextPlace(seq, path, len(value)))
        if isinstance(value, dict):
            return {key: self._marked(seq, item, (*path, key), apart) for key, item in value.items()}
        if isinstance(value, list):
            return [self._marked(seq, item, (*path, index), apart) for index, item in enumerate(value)]
        return value

    def _mark(self, place: TextPlace) -> str:
        self.places.append(place)
        return f"{self._word}{len(self.places) - 1};"


def text_at(document: Any, path: Path) -> bytes:
    """The text at this path, JSON-escaped and without the quotes."""
    for step in path:
        document = document[step]
    return to_json(document)[1:-1]


def cut_places(large: str | None) -> Sequence[tuple[Path, str]]:
    """The paths and digests of what `cut` cut out of a document; an empty path means all of it."""
    return [(tuple(path), digest) for path, digest in json.loads(large)] if large else []

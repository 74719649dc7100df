"""An outline of a journal: its entries with marks where long texts are, and the way back from a mark to its text."""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mcc.contracts.shape import to_json

LONG_CHARACTERS = 400
"""A text that is longer stays where it is stored, until it is sent."""

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text is: in entry `seq` at this path of its data, or stored apart under a digest."""

    seq: int
    path: Path
    characters: int
    digest: str | None = None


@dataclass(slots=True)
class Outline:
    """Marks for long texts. Nobody who writes a journal can guess one: each outline has a secret word of its own."""

    places: list[Place] = field(default_factory=list)
    _word: str = field(default_factory=lambda: secrets.token_hex(16))

    def of_row(self, seq: int, document: Any, cut: Iterable[Place] = ()) -> Any:
        """An entry's data with marks. `cut` are the places of the texts that it has only the beginnings of."""
        return self._marked(seq, document, (), {place.path: place for place in cut})

    def pieces(self, document: bytes) -> Iterator[bytes | Place]:
        """JSON that was made of marked entries: what is there already, and the places of what goes in between."""
        first, *others = document.split(self._word.encode())
        yield first
        for other in others:
            number, _, rest = other.partition(b";")
            yield self.places[int(number)]
            yield rest

    def _marked(self, seq: int, value: Any, path: Path, apart: dict[Path, Place]) -> Any:
        if isinstance(value, str):
            if (place := apart.get(path)) is not None:
                return self._mark(place)
            return value if len(value) <= LONG_CHARACTERS else self._mark(Place(seq, path, len(value)))
        if isinstance(value, dict):
            return {key: self._marked(seq, item, (*path, key), apart) for key, item in value.items()}
        if isinstance(value, list):
            return [self._marked(seq, item, (*path, index), apart) for index, item in enumerate(value)]
        return value

    def _mark(self, place: Place) -> str:
        self.places.append(place)
        return f"{self._word}{len(self.places) - 1};"


def text_at(document: Any, path: Path) -> bytes:
    """The text there as JSON has it between its quotes."""
    for step in path:
        document = document[step]
    return to_json(document)[1:-1]


def cut_in(large: str | None) -> Sequence[tuple[Path, str]]:
    """Paths and digests of what `mcc.store.large.cut` cut out of a document; no path = all of it."""
    return [(tuple(path), digest) for path, digest in json.loads(large)] if large else []

"""What takes secrets out of texts: whole ones, and texts on their way."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from mcc.contracts.shape import to_json
from mcc.redaction.secrets import Part, compiled, either, forms, sequence

MARK = "[redacted]"

PIECE_CHARACTERS = 64
"""A longer secret is looked for in pieces of this size, so that a part of one is found as well."""

SHORTEST = 8
"""Shorter values are not looked for: they would be found in ordinary words."""

MOST_LEARNT = 8
"""Secrets that are learnt on the way live for a short time: older ones open nothing any more."""

_BEGINNING = 8
"""Parts of a form after which a text that goes on like it is looked at more closely."""

_TOGETHER = 4
"""Values that one automaton looks for: with more it would not fit in its memory, and be a thousand times slower."""

_MARK = MARK.encode()

M = TypeVar("M", bound=BaseModel)


class _Sought:
    """A few values in all their forms."""

    def __init__(self, values: Iterable[str]) -> None:
        self._forms = [list(form) for value in values for form in forms(value)]
        self._whole = compiled(self._any(None).whole)

    def first(self, text: bytes, start: int) -> tuple[int, int] | None:
        """Where the first of them from `start` on begins and ends; of several there, the longest."""
        found = self._whole.search(text, start) if len(text) - start >= SHORTEST else None
        return None if found is None else found.span()

    def open_from(self, text: bytes, start: int) -> int:
        """The first place from `start` on after which all that is there could be the beginning of one of them."""
        short = self._short.search(text, start)
        nearest = len(text) if short is None else int(short.start())
        while len(text) - start >= _BEGINNING and (like := self._long.search(text, start)) is not None:
            if (start := int(like.start())) >= nearest:
                break
            if self._begun.match(text, start) is not None:
                return start
            start += 1
        return nearest

    @cached_property
    def _short(self) -> Any:
        """Beginnings of a few parts, at the end of a text."""
        return compiled(b"%b\\z" % self._any(_BEGINNING).begun)

    @cached_property
    def _long(self) -> Any:
        """Where a text goes on like one of them for that long: only there it is worth to look further."""
        return compiled(self._any(_BEGINNING).whole)

    @cached_property
    def _begun(self) -> Any:
        return compiled(b"%b\\z" % self._any(None).begun)

    def _any(self, parts: int | None) -> Part:
        return either(*(sequence(*form[:parts]) for form in self._forms))


class Redactor:
    """Puts `MARK` in the place of every secret. Safe for many threads; the same text always comes out the same.

    Whoever made it may put more into `learnt` meanwhile, which is looked for from then on.
    """

    def __init__(self, secrets: Iterable[str] = (), learnt: Sequence[_Sought] = ()) -> None:
        self._own = _sought_for(secrets)
        self._learnt = learnt

    @property
    def _sought(self) -> tuple[_Sought, ...]:
        return (*self._own, *self._learnt)

    def text(self, text: str) -> str:
        """The text without secrets; the very same object where there is none in it."""
        return Stream(self).all_of(data) if self._sought and self.finds(data := _encoded(text)) else text

    def data(self, data: bytes) -> bytes:
        """The same for a file's bytes, whatever they are."""
        if not self.finds(data):
            return data
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def value(self, value: Any) -> Any:
        """The same for every string of a JSON value, the names of its objects included."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.value(name): self.value(item) for name, item in value.items()}
            case list() | tuple():
                return type(value)(self.value(item) for item in value)
            case _:
                return value

    def model(self, model: M) -> M:
        """The same for everything in a model of ours; the very same object where there is nothing to redact."""
        if not self.finds(to_json(model)):
            return model
        return type(model).model_validate(self.value(model.model_dump()))

    def finds(self, text: bytes) -> bool:
        """Whether a secret is in this UTF-8."""
        return any(few.first(text, 0) is not None for few in self._sought)

    def stream(self) -> "Stream":
        """For a text that comes in pieces."""
        return Stream(self)

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where each secret begins and ends, the first one first; of several that begin together, the longest."""
        sought, done = self._sought, 0
        found = [few.first(text, 0) for few in sought]
        while there := [span for span in found if span is not None]:
            start, done = min(there, key=lambda span: (span[0], -span[1]))
            yield start, done
            found = [
                few.first(text, done) if span is not None and span[0] < done else span
                for few, span in zip(sought, found, strict=True)
            ]

    def open_from(self, text: bytes, start: int) -> int:
        """The first place from `start` on after which all that is there could be the beginning of a secret."""
        return min((few.open_from(text, start) for few in self._sought), default=len(text))


class Stream:
    """A text that comes in pieces: what could be the beginning of a secret is held back until that is known.

    All that comes out of it, joined, is what `Redactor.text` makes of all that went in, joined.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self._marked = False

    def feed(self, text: str) -> str:
        """What can be told by now."""
        data = self._held + _encoded(text)
        released, open_from = self._redacted(data, lambda start: self._redactor.open_from(data, start))
        self._held = data[open_from:]
        return released

    def end(self) -> str:
        """The rest: nothing comes after it."""
        data, self._held = self._held, b""
        return self.all_of(data)

    def all_of(self, data: bytes) -> str:
        """Of a text that is all there; UTF-8."""
        return self._redacted(data, lambda _: len(data))[0]

    def _redacted(self, data: bytes, open_from: Callable[[int], int]) -> tuple[str, int]:
        parts: list[bytes] = []
        done, until = 0, open_from(0)
        for start, end in self._redactor.spans(data):
            if start >= until:
                break
            self._pass(data[done:start], parts)
            if not self._marked:
                parts.append(_MARK)
                self._marked = True
            done = end
            if done > until:
                until = open_from(done)
        self._pass(data[done:until], parts)
        return b"".join(parts).decode("utf-8", "surrogatepass"), until

    def _pass(self, plain: bytes, parts: list[bytes]) -> None:
        if plain:
            parts.append(plain)
            self._marked = False


def _sought_for(secrets: Iterable[str]) -> tuple[_Sought, ...]:
    pieces = sorted({piece for secret in secrets for piece in _pieces(secret)})
    return tuple(_Sought(pieces[at : at + _TOGETHER]) for at in range(0, len(pieces), _TOGETHER))


def _pieces(secret: str) -> Iterator[str]:
    """Pieces of about the same size, none of them short."""
    if len(secret) < SHORTEST:
        return
    count = -(-len(secret) // PIECE_CHARACTERS)
    edges = [len(secret) * number // count for number in range(count + 1)]
    yield from (secret[start:end] for start, end in pairwise(edges))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class WatchedSecrets:
    """Answers the redactor of this moment. What is read anew when one of `files` is made or replaced are all `secrets`;
    one that is replaced stays secret. Safe for many threads."""

    def __init__(self, files: Iterable[Path], secrets: Callable[[], frozenset[str]]) -> None:
        self._files = tuple(map(str, files))
        self._secrets = secrets
        self._known: frozenset[str] = frozenset()
        self._learnt: deque[str] = deque(maxlen=MOST_LEARNT)
        self._sought_too: list[_Sought] = []
        self._last: tuple[object, Redactor] | None = None

    def __call__(self) -> Redactor:
        marks, last = tuple(map(_mark, self._files)), self._last
        if last is None or last[0] != marks:
            self._known |= self._secrets()
            last = self._last = (marks, Redactor(self._known, self._sought_too))
        return last[1]

    def learn(self, secret: str) -> None:
        """Every redactor that was given out looks for this from now on. Beyond `MOST_LEARNT` the first is let go."""
        if secret not in self._learnt:
            self._learnt.append(secret)
            self._sought_too[:] = _sought_for(self._learnt)


def _mark(path: str) -> tuple[int, int, int] | None:
    """What changes when a file is made or replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

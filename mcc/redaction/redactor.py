"""Redaction of known secrets, in complete texts and in streams."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import re2
from pydantic import BaseModel

from mcc.contracts.shape import to_json
from mcc.contracts.similar import hints_keywords
from mcc.contracts.token_text import TOKEN_CHARACTERS, WEBHOOK_SECRET_CHARACTERS
from mcc.redaction.secrets import SecretPattern, compiled, either, forms, sequence

MARK = "[redacted]"

PIECE_CHARACTERS = 64
"""A longer secret is searched for in pieces of about this size, so that a part of it is found as well."""

SHORTEST = 8
"""Shorter values are not searched for, because they would match parts of ordinary words."""

MOST_LEARNT = 8
"""How many secrets learnt at run time are kept. Such secrets are short-lived, so the older ones have expired."""

_BEGINNING = 8
"""After a match of this many parts of a form, the search for an incomplete secret looks more closely."""

_TOGETHER = 4
"""Values per automaton. With more it exceeds its memory limit, falls back to an NFA and is a thousand times slower."""

_MARK = MARK.encode()

M = TypeVar("M", bound=BaseModel)


class _Matcher:
    """Searches for a few values in all their forms."""

    def __init__(self, values: Iterable[str]) -> None:
        self._forms = [list(form) for value in values for form in forms(value)]
        self._whole = compiled(self._any(None).whole)

    def first(self, text: bytes, start: int) -> tuple[int, int] | None:
        """The span of the first match at or after `start`, the longest of those that begin there; None without one."""
        found = self._whole.search(text, start) if len(text) - start >= SHORTEST else None
        return None if found is None else found.span()

    def open_from(self, text: bytes, start: int) -> int:
        """The first position at or after `start` from which the rest of the text could be the beginning of a value.

        The length of the text when there is none.
        """
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
        """Matches a beginning of at most `_BEGINNING` parts at the end of a text."""
        return compiled(b"%b\\z" % self._any(_BEGINNING).begun)

    @cached_property
    def _long(self) -> Any:
        """Matches the first `_BEGINNING` parts of a form. Only there is the slower `_begun` worth trying."""
        return compiled(self._any(_BEGINNING).whole)

    @cached_property
    def _begun(self) -> Any:
        return compiled(b"%b\\z" % self._any(None).begun)

    def _any(self, parts: int | None) -> SecretPattern:
        return either(*(sequence(*form[:parts]) for form in self._forms))


@dataclass(frozen=True, slots=True)
class _SecretShape:
    """Searches for secrets that are known by their spelling: nobody has to know them. `begins`: what all of them begin
    with; `characters`: how long they are; `begun`: a part of one, at the end of a text."""

    begins: bytes
    characters: int
    whole: Any
    begun: Any

    def first(self, text: bytes, start: int) -> tuple[int, int] | None:
        """As `_Matcher.first`."""
        begins = text.find(self.begins, start)
        match = self.whole.search(text, begins) if begins >= 0 else None
        return None if match is None else match.span()

    def open_from(self, text: bytes, start: int) -> int:
        """As `_Matcher.open_from`."""
        match = self.begun.search(text, max(start, len(text) - self.characters))
        return len(text) if match is None else int(match.start())


_TOKENS = _SecretShape(
    b"mcc",
    TOKEN_CHARACTERS,
    re2.compile(rb"mcc[ps]_[0-9A-Za-z]{%d}" % (TOKEN_CHARACTERS - 5)),
    re2.compile(rb"(?:m|mc|mcc[ps]?|mcc[ps]_[0-9A-Za-z]{0,%d})\z" % (TOKEN_CHARACTERS - 6)),
)
_OF_WEBHOOKS = _SecretShape(
    b"whsec_",
    WEBHOOK_SECRET_CHARACTERS,
    re2.compile(rb"whsec_[0-9A-Za-z+/]{43}="),
    re2.compile(rb"(?:w|wh|whs|whse|whsec|whsec_[0-9A-Za-z+/]{0,43})\z"),
)


@hints_keywords
class Redactor:
    """Replaces every secret by `MARK`, and every text that is spelled as a token or as the secret of a webhook. Safe
    for many threads, and deterministic for the same secrets.

    `learnt` may be changed by the caller afterwards; the redactor searches for its current content.
    """

    def __init__(self, secrets: Iterable[str] = (), learnt: Sequence[_Matcher] = ()) -> None:
        self._own = _matchers_for(secrets)
        self._learnt = learnt

    @property
    def _matchers(self) -> tuple[_Matcher | _SecretShape, ...]:
        return (*self._own, *self._learnt, _TOKENS, _OF_WEBHOOKS)

    def text(self, text: str) -> str:
        """The text without secrets; the same object if it contains none."""
        return Stream(self).whole(data) if self.finds(data := _encoded(text)) else text

    def data(self, data: bytes) -> bytes:
        """The bytes of a file without secrets, whatever their encoding."""
        if not self.finds(data):
            return data
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def value(self, value: Any) -> Any:
        """A JSON value without secrets in any of its strings, object names included."""
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
        """A pydantic model without secrets in any of its strings; the same object if it contains none."""
        if not self.finds(to_json(model)):
            return model
        return type(model).model_validate(self.value(model.model_dump()))

    def finds(self, text: bytes) -> bool:
        """Whether this UTF-8 text contains a secret."""
        return any(matcher.first(text, 0) is not None for matcher in self._matchers)

    def stream(self) -> "Stream":
        """A redactor of one text that arrives in pieces."""
        return Stream(self)

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """The spans of all secrets in order, without overlaps; of several that begin together, the longest."""
        matchers, done = self._matchers, 0
        firsts = [matcher.first(text, 0) for matcher in matchers]
        while matches := [span for span in firsts if span is not None]:
            start, done = min(matches, key=lambda span: (span[0], -span[1]))
            yield start, done
            firsts = [
                matcher.first(text, done) if span is not None and span[0] < done else span
                for matcher, span in zip(matchers, firsts, strict=True)
            ]

    def open_from(self, text: bytes, start: int) -> int:
        """The first position at or after `start` from which the rest of the text could be the beginning of a secret.

        The length of the text when there is none.
        """
        return min((matcher.open_from(text, start) for matcher in self._matchers), default=len(text))


class Stream:
    """Redacts one text that arrives in pieces, holding back whatever could be the beginning of a secret.

    The joined output equals `Redactor.text` of the joined input.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self._marked = False

    def feed(self, text: str) -> str:
        """Take the next piece. Answers the redacted text that can be released so far, which may be empty."""
        data = self._held + _encoded(text)
        released, open_from = self._redacted(data, lambda start: self._redactor.open_from(data, start))
        self._held = data[open_from:]
        return released

    def end(self) -> str:
        """Answers the rest of the redacted text, after the last piece."""
        data, self._held = self._held, b""
        return self.whole(data)

    def whole(self, data: bytes) -> str:
        """Redact `data`, UTF-8 after which nothing follows."""
        return self._redacted(data, lambda _: len(data))[0]

    def _redacted(self, data: bytes, open_from: Callable[[int], int]) -> tuple[str, int]:
        parts: list[bytes] = []
        done, until = 0, open_from(0)
        for start, end in self._redactor.spans(data):
            if start >= until:
                break
            self._pass(data[done:start], parts)
            # One mark for secrets that follow each other: the pieces of a long one, too.
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


def _matchers_for(secrets: Iterable[str]) -> tuple[_Matcher, ...]:
    pieces = sorted({piece for secret in secrets for piece in _pieces(secret)})
    return tuple(_Matcher(pieces[at : at + _TOGETHER]) for at in range(0, len(pieces), _TOGETHER))


def _pieces(secret: str) -> Iterator[str]:
    """Pieces of about equal size, so that none is too short to search for; none for a secret below `SHORTEST`."""
    if len(secret) < SHORTEST:
        return
    count = -(-len(secret) // PIECE_CHARACTERS)
    edges = [len(secret) * number // count for number in range(count + 1)]
    yield from (secret[start:end] for start, end in pairwise(edges))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class WatchedSecrets:
    """Provides the current redactor. Safe for many threads.

    `secrets` is called again whenever one of `files` is created or replaced. Earlier secrets stay redacted.
    """

    def __init__(self, files: Iterable[Path], secrets: Callable[[], frozenset[str]]) -> None:
        self._files = tuple(map(str, files))
        self._secrets = secrets
        self._known: frozenset[str] = frozenset()
        self._learnt: deque[str] = deque(maxlen=MOST_LEARNT)
        self._learnt_matchers: list[_Matcher] = []
        self._last: tuple[object, Redactor] | None = None

    def __call__(self) -> Redactor:
        versions, last = tuple(map(_version, self._files)), self._last
        if last is None or last[0] != versions:
            # Added and never replaced: what was secret until a moment ago still stands in texts that are under way.
            self._known |= self._secrets()
            last = self._last = (versions, Redactor(self._known, self._learnt_matchers))
        return last[1]

    def learn(self, secret: str) -> None:
        """Add a secret to every redactor handed out so far and later. Beyond `MOST_LEARNT`, the oldest is dropped."""
        if secret not in self._learnt:
            self._learnt.append(secret)
            # In place, since every redactor that was handed out refers to this very list.
            self._learnt_matchers[:] = _matchers_for(self._learnt)


def _version(path: str) -> tuple[int, int, int] | None:
    """Changes when the file is created or replaced; None while it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

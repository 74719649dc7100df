"""This room is for holding a value against a checked JSON Schema: what does not fit, in sentences, within bounded work.

It is not left to the library: that quotes whole values in its messages, runs patterns that can explode, and cannot be
stopped. The suite holds the two against each other.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mcc.rules.functions import searcher
from mcc.rules.schema_form import Form, Schema
from mcc.rules.values import Exhausted, Frame, equal

MAX_ERRORS = 10
MAX_STEPS = 150_000
"""Steps of one check; one is about a microsecond."""

Place = tuple[str | int, ...]
Error = tuple[Place, str]
Keyword = Callable[["Holding", Any, Any, Mapping[str, Any], Place], None]
"""Tells `Holding.wrong` what does not fit: from holding, value, the keyword's own value, its schema and the place."""

Keywords = Mapping[str, tuple[type | None, Keyword]]
"""What each keyword does, and the only kind of value that it speaks about (None = any)."""


class _Enough(Exception):
    """As many errors are found as anyone would read."""


def misfits(form: Form, value: Any, keywords: Keywords) -> tuple[str, ...]:
    """Sentences with their places, at most `MAX_ERRORS`. `value` is plain JSON of a bounded size."""
    holding = Holding(form, keywords)
    try:
        holding.hold(value, form.root, ())
    except _Enough:
        pass
    except (Exhausted, RecursionError):
        return ("This is too large or too deep to be checked; hand in less.",)
    return tuple(f"{shown(place)}: {said}" if place else said for place, said in holding.errors)


def shown(place: Place) -> str:
    """`findings[2].path`."""
    text = ""
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step[:80]}" if text else step[:80]
    return text


class Holding:
    """One value held against one schema: the errors so far, and the steps left."""

    def __init__(self, form: Form, keywords: Keywords) -> None:
        self._targets = form.targets
        self._keywords = keywords
        self._frame = Frame([], MAX_STEPS)
        self._trying = 0
        self.errors: list[Error] = []

    def hold(self, value: Any, schema: Schema, at: Place) -> None:
        """Adds to `errors` what of `value` does not fit `schema`."""
        self._frame.spend(1)
        if isinstance(schema, bool):
            if not schema:
                self.wrong(at, "nothing may stand here; leave it out")
            return
        for key, wanted in schema.items():
            kind, keyword = self._keywords.get(key, (None, None))
            if keyword is not None and (kind is None or type(value) is kind):
                self._frame.spend(1)
                keyword(self, value, wanted, schema, at)

    def tried(self, value: Any, schema: Schema, at: Place) -> list[Error]:
        """The errors that holding `value` against `schema` would bring; none when it fits."""
        kept, self.errors = self.errors, []
        self._trying += 1
        self.hold(value, schema, at)
        self._trying -= 1
        found, self.errors = self.errors, kept
        return found

    def wrong(self, at: Place, sentence: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append((at, sentence))
        elif not self._trying:
            raise _Enough

    def equal(self, left: Any, right: Any) -> bool:
        return equal(self._frame, left, right)

    def matches(self, text: str, pattern: str) -> bool:
        compiled = searcher(pattern)
        self.spend(5 + len(text) * compiled.programsize // 200)
        return compiled.search(text.encode("utf-8", "replace")) is not None

    def spend(self, steps: int) -> None:
        self._frame.spend(steps)

    def target(self, ref: str) -> Schema:
        return self._targets[ref]

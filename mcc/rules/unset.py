"""This room is for what was not set: every property that a schema names, null where a value has none.

Rules can then ask `f.path == null` instead of stumbling over a key that is not there.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mcc.rules.functions import searcher
from mcc.rules.schema_form import Form, Schema, same_value
from mcc.rules.values import Exhausted, Frame

MAX_STEPS = 60_000
"""Steps of filling in one value; one is up to five microseconds."""

Parts = tuple[Mapping[str, Any], ...]


def with_unset(form: Form, value: Any) -> Any:
    """A copy of `value` (plain JSON of a bounded size); nothing that was there is changed.

    Where the work would be too much, the rest of the value stays as it is.
    """
    filling = _Filling(form)
    return filling.filled(value, filling.alike((form.root,)))


class _Filling:
    """One walk through a value, with all the schemas that may speak about each place, whichever of them fits."""

    def __init__(self, form: Form) -> None:
        self._targets = form.targets
        self._frame = Frame([], MAX_STEPS)
        self._spent = False
        self._alike: dict[tuple[int, ...], Parts] = {}

    def alike(self, schemas: tuple[Schema, ...]) -> Parts:
        """`schemas` and all that they hold against the same value, each once."""
        key = tuple(id(schema) for schema in schemas)
        self._pay(1 + len(key))
        if key not in self._alike:
            self._alike[key] = self._gathered(schemas)
        return self._alike[key]

    def _gathered(self, schemas: tuple[Schema, ...]) -> Parts:
        found: dict[int, Mapping[str, Any]] = {}
        waiting = list(reversed(schemas))
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict) and id(part) not in found:
                found[id(part)] = part
                waiting.extend(reversed(list(same_value(part, self._targets))))
        self._pay(2 * len(found))
        return tuple(found.values())

    def filled(self, value: Any, parts: Parts) -> Any:
        if not parts or self._spent:
            return value
        if isinstance(value, dict):
            return self._object(value, parts)
        if isinstance(value, list):
            return [self.filled(item, self.alike(_of_index(index, parts))) for index, item in enumerate(value)]
        return value

    def _object(self, value: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
        named = [key for part in parts for key in part.get("properties", ())]
        self._pay(len(parts) + (len(named) >> 3))
        kept = {key: self.filled(item, self.alike(self._of_key(key, parts))) for key, item in value.items()}
        return {**kept, **{key: None for key in named if key not in kept}}

    def _of_key(self, key: str, parts: Parts) -> tuple[Schema, ...]:
        patterns = sum(len(part.get("patternProperties", ())) for part in parts)
        self._pay(len(parts) + patterns * (1 + (len(key) >> 3)))
        return () if self._spent else tuple(schema for part in parts for schema in _speaking_of(key, part))

    def _pay(self, steps: int) -> None:
        try:
            self._frame.spend(steps)
        except Exhausted:
            self._spent = True


def _speaking_of(key: str, part: Mapping[str, Any]) -> Iterator[Schema]:
    known = key in part.get("properties", ())
    if known:
        yield part["properties"][key]
    for pattern, schema in part.get("patternProperties", {}).items():
        if searcher(pattern).search(key.encode("utf-8", "replace")) is not None:
            known = True
            yield schema
    if not known and "additionalProperties" in part:
        yield part["additionalProperties"]


def _of_index(index: int, parts: Parts) -> tuple[Schema, ...]:
    found: list[Schema] = []
    for part in parts:
        prefix = part.get("prefixItems", ())
        if index < len(prefix):
            found.append(prefix[index])
        elif "items" in part:
            found.append(part["items"])
        if "contains" in part:
            found.append(part["contains"])
    return tuple(found)

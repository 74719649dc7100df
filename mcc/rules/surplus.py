"""Repairs near misses in a result: forbidden properties are renamed or dropped, synonyms of enum words replaced."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcc.rules.schema_form import Form, Schema
from mcc.rules.validation import Location, Validation, path_text

MAX_MESSAGES = 10

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "title": ("name",),
    "name": ("title",),
    "path": ("paths", "file", "file_path", "filename"),
    "line": ("lines", "line_number", "start_line"),
    "evidence": ("quote", "snippet"),
    "recommendation": ("fix", "suggestion"),
    "recommended_next_actions": ("next_actions", "next_steps", "recommendations"),
}
"""Names that models use for a property by mistake. If the property takes one value and the model gave a list, its first
item is used."""

WORDS: Mapping[str, Mapping[str, str]] = {
    "severity": {
        **dict.fromkeys(("note", "notice", "informational", "suggestion"), "info"),
        **dict.fromkeys(("minor", "trivial"), "low"),
        **dict.fromkeys(("warning", "warn", "moderate"), "medium"),
        **dict.fromkeys(("error", "major", "important"), "high"),
        **dict.fromkeys(("blocker", "fatal", "severe"), "critical"),
    },
    "status": dict.fromkeys(("complete", "done", "success", "succeeded"), "completed"),
}
"""Words that models use by mistake for one of an enum's words, by property."""

_TITLE = "title"
_NAME_CHARACTERS = 100
_MAX_REFS = 30
"""References that are followed from one to the next."""

_COMBINING = ("anyOf", "oneOf", "not", "if", "dependentSchemas", "patternProperties", "allOf")
"""With one of these keywords, other schemas too decide whether a property is forbidden, so nothing is repaired."""


class Surplus:
    """Repairs one value of a bounded size. Raises `StepsExhausted` when that takes too many steps."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._validation = Validation(form)
        self.messages: list[str] = []
        """A sentence for each repair, at most `MAX_MESSAGES`."""

    def repaired(self, value: Any) -> Any:
        """A copy of `value` without properties that `additionalProperties: false` forbids, and with enum words in place
        of their synonyms."""
        return self._repaired(value, self._form.root, ())

    def _repaired(self, value: Any, schema: Schema, at: Location) -> Any:
        part, followed = schema, 0
        while isinstance(part, dict) and part.keys() == {"$ref"} and followed < _MAX_REFS:
            part, followed = self._form.targets[part["$ref"]], followed + 1
        if not isinstance(part, dict) or "$ref" in part or any(keyword in part for keyword in _COMBINING):
            return value
        if isinstance(value, dict):
            return self._object(value, part, at)
        if isinstance(value, str):
            return self._text(value, part, at)
        items = part.get("items")
        if isinstance(value, list) and isinstance(items, dict) and "prefixItems" not in part:
            return [self._repaired(item, items, (*at, index)) for index, item in enumerate(value)]
        return value

    def _object(self, value: Mapping[str, Any], part: Mapping[str, Any], at: Location) -> dict[str, Any]:
        known = part.get("properties", {})
        repaired = dict(value)
        if part.get("additionalProperties") is False:
            for name in [name for name in value if name not in known]:
                self._rename_or_drop(repaired, name, known, at)
        return {
            name: self._repaired(item, known[name], (*at, name)) if name in known else item
            for name, item in repaired.items()
        }

    def _text(self, text: str, part: dict[str, Any], at: Location) -> Any:
        """The enum word that `text` stands for, or an object with `text` as its title if only a title is required."""
        if isinstance(part.get("enum"), list) and text not in part["enum"]:
            word = text.strip().lower()
            for candidate in (word, WORDS.get(str(at[-1]) if at else "", {}).get(word)):
                if candidate is not None and candidate in part["enum"]:
                    self._add_message(at, f"is no word of its list and was taken for {candidate}")
                    return candidate
        if part.get("type") == "object" and part.get("required") == [_TITLE]:
            titled = {_TITLE: text}
            if not self._validation.errors_of(titled, part, ()):
                self._add_message(at, "is a text and was taken for its title")
                return titled
        return text

    def _rename_or_drop(self, members: dict[str, Any], name: str, known: Mapping[str, Schema], at: Location) -> None:
        """Move the forbidden property `name` to an unset one that it may stand for, or remove it."""
        item = members.pop(name)
        for candidate in _candidates(name, known):
            for offered in (item, *(item[:1] if isinstance(item, list) else ())):
                if members.get(candidate) is not None or offered is None:
                    continue
                if not self._validation.errors_of(offered, known[candidate], ()):
                    members[candidate] = offered
                    self._add_message((*at, name), f"is not a property here and was taken for {candidate}")
                    return
        self._add_message((*at, name), "is not a property here and was left out")

    def _add_message(self, at: Sequence[str | int], sentence: str) -> None:
        if len(self.messages) < MAX_MESSAGES:
            self.messages.append(f"{path_text(tuple(at))} {sentence}")


def _candidates(name: str, known: Mapping[str, Schema]) -> Iterator[str]:
    """The properties that `name` may stand for: the same in snake case (`nextSteps`), then those with it as synonym."""
    snake_case = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name[:_NAME_CHARACTERS])
    snake_case = snake_case.lstrip("_")
    if snake_case != name and snake_case in known:
        yield snake_case
    for candidate, synonyms in SYNONYMS.items():
        if candidate in known and {name, snake_case} & {*synonyms}:
            yield candidate

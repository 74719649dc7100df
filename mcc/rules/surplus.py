"""What a schema forbids of a result: taken for the property or the word that it stands for, or left out, and told."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcc.rules.schema_form import Form, Schema
from mcc.rules.validation import Location, Validation, shown

MAX_KEPT = 10

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "title": ("name",),
    "name": ("title",),
    "path": ("paths", "file", "file_path", "filename"),
    "line": ("lines", "line_number", "start_line"),
    "evidence": ("quote", "snippet"),
    "recommendation": ("fix", "suggestion"),
    "recommended_next_actions": ("next_actions", "next_steps", "recommendations"),
}
"""What models write for a property that they mean; of a list its first item, where one value is asked for."""

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
"""What models write for one of the words that a property may have, where that word is not one of them itself."""

_TITLE = "title"
_NAME_CHARACTERS = 100

_CHOOSING = ("anyOf", "oneOf", "not", "if", "dependentSchemas", "patternProperties", "allOf")
"""Where one of these stands, whether a property is forbidden depends on more than the one schema."""


class Surplus:
    """One walk through a value of a bounded size. Raises `Exhausted` when that takes too many steps."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._validation = Validation(form)
        self.dropped: list[str] = []

    def without(self, value: Any) -> Any:
        """The value without what `additionalProperties: false` forbids; `told` says what became of it."""
        return self._kept(value, self._form.root, ())

    def _kept(self, value: Any, schema: Schema, at: Location) -> Any:
        part, seen = schema, 0
        while isinstance(part, dict) and part.keys() == {"$ref"} and seen < 30:
            part, seen = self._form.targets[part["$ref"]], seen + 1
        if not isinstance(part, dict) or "$ref" in part or any(word in part for word in _CHOOSING):
            return value
        if isinstance(value, dict):
            return self._object(value, part, at)
        if isinstance(value, str):
            return self._text(value, part, at)
        items = part.get("items")
        if isinstance(value, list) and isinstance(items, dict) and "prefixItems" not in part:
            return [self._kept(item, items, (*at, index)) for index, item in enumerate(value)]
        return value

    def _object(self, value: Mapping[str, Any], part: Mapping[str, Any], at: Location) -> dict[str, Any]:
        known = part.get("properties", {})
        whole = dict(value)
        if part.get("additionalProperties") is False:
            for name in [name for name in value if name not in known]:
                self._leave_out(whole, name, known, at)
        return {
            name: self._kept(item, known[name], (*at, name)) if name in known else item for name, item in whole.items()
        }

    def _text(self, text: str, part: dict[str, Any], at: Location) -> Any:
        """The word of `enum` that is meant, or the object of which this is the title."""
        if isinstance(part.get("enum"), list) and text not in part["enum"]:
            word = text.strip().lower()
            for meant in (word, WORDS.get(str(at[-1]) if at else "", {}).get(word)):
                if meant is not None and meant in part["enum"]:
                    self._tell(at, f"is no word of its list and was taken for {meant}")
                    return meant
        if part.get("type") == "object" and part.get("required") == [_TITLE]:
            titled = {_TITLE: text}
            if not self._validation.tried(titled, part, ()):
                self._tell(at, "is a text and was taken for its title")
                return titled
        return text

    def _leave_out(self, whole: dict[str, Any], name: str, known: Mapping[str, Schema], at: Location) -> None:
        item = whole.pop(name)
        for meant in _meant(name, known):
            for offered in (item, *(item[:1] if isinstance(item, list) else ())):
                if whole.get(meant) is None and self._fits(offered, known[meant]):
                    whole[meant] = offered
                    self._tell((*at, name), f"is not a property here and was taken for {meant}")
                    return
        self._tell((*at, name), "is not a property here and was left out")

    def _fits(self, value: Any, schema: Schema) -> bool:
        return value is not None and not self._validation.tried(value, schema, ())

    def _tell(self, at: Sequence[str | int], sentence: str) -> None:
        if len(self.dropped) < MAX_KEPT:
            self.dropped.append(f"{shown(tuple(at))} {sentence}")


def _meant(name: str, known: Mapping[str, Schema]) -> Iterator[str]:
    """The properties that this name may stand for: in other letters (`nextSteps`), then by another word."""
    plain = _snake(name[:_NAME_CHARACTERS])
    if plain != name and plain in known:
        yield plain
    yield from (meant for meant, others in SYNONYMS.items() if meant in known and {name, plain} & {*others})


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

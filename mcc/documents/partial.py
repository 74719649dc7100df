"""The readable parts of an invalid blueprint, so that problems in all its parts can be reported at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from mcc.contracts.blueprints import AnyField, BlueprintSpec
from mcc.definitions.front_matter import Location

_ROUNDS = 6
"""Most validations: once invalid parts are removed, pydantic may find further errors."""

_PLACEHOLDER: Mapping[str, Any] = {"type": "text"}
_RULE: Mapping[str, Any] = {"guideline": "?"}
_OF_A_FIELD = 4
"""Length of the location of a field: components, component, section, name."""

_SECTIONS = ("metadata", "properties")


class UnknownField(AnyField):
    """Stands for a field whose declaration is unreadable; never part of a blueprint in use."""

    type: Literal["unknown"] = "unknown"


@dataclass(frozen=True, slots=True)
class Readable:
    """`spec` has the valid parts. `whole`: no component, child or root was dropped."""

    spec: BlueprintSpec
    whole: bool


def steps(value: Any, loc: Iterable[str | int]) -> Location:
    """A pydantic error location without the steps that are not in the file: it inserts the type of a field."""
    path: list[str | int] = []
    for step in loc:
        if step == "[key]":
            break
        if isinstance(value, dict) and step not in value and step == value.get("type"):
            continue
        path.append(step)
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            value = None
    return tuple(path)


def readable(content: Mapping[str, Any]) -> Readable | None:
    """The blueprint without its invalid parts; None where too little is left."""
    rest = _Remainder(content)
    for _ in range(_ROUNDS):
        try:
            spec = BlueprintSpec.model_validate(rest.value, strict=True)
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_context=False):
                rest.leave_out(steps(rest.value, problem["loc"]))
            continue
        return Readable(rest.with_unknown(spec), rest.whole)
    return None


class _Remainder:
    """A copy of a blueprint's content from which invalid parts are removed."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.value: Any = _copied(content)
        self.whole = True
        self._unknown: set[Location] = set()

    def leave_out(self, location: Location) -> None:
        if not location or (len(location) > _OF_A_FIELD and location[1:_OF_A_FIELD] in self._unknown):
            return
        if location in (("blueprint",), ("root",)):
            self._give_name(str(location[0]))
            return
        holder = self._at(location[:-1])
        if (
            location[-2:-1] == ("rules",)
            and isinstance(holder, list)
            and isinstance(location[-1], int)
            and location[-1] < len(holder)
        ):
            holder[location[-1]] = dict(_RULE)
        elif isinstance(holder, dict) and location[-1] in holder:
            self._remove(holder, location)
        else:
            self.leave_out(location[:-1])

    def _remove(self, holder: dict[Any, Any], location: Location) -> None:
        """Remove an entry; an invalid field becomes a placeholder of its name, for the rules that use it."""
        match location:
            case ("components", str(component), str(section), str(key)) if section in _SECTIONS and key.isidentifier():
                if (component, section, key) not in self._unknown:
                    self._unknown.add((component, section, key))
                    holder[key] = dict(_PLACEHOLDER)
                    return
            case ("components",) | ("components", _) | ("components", _, "children" | "metadata" | "properties"):
                self.whole = False
            case ("components", _, "children", _):
                self.whole = False
            case ("components", _, str(section), _, "type") if section in _SECTIONS:
                self.leave_out(location[:-1])
                return
        del holder[location[-1]]

    def _give_name(self, key: str) -> None:
        components = self.value.get("components")
        names = list(components) if isinstance(components, dict) else []
        self.value[key] = "x" if key == "blueprint" or not names else names[0]
        self.whole = self.whole and key == "blueprint"

    def _at(self, location: Location) -> Any:
        part = self.value
        for step in location:
            if isinstance(part, dict):
                part = part.get(step)
            elif isinstance(part, list) and isinstance(step, int) and step < len(part):
                part = part[step]
            else:
                return None
        return part

    def with_unknown(self, spec: BlueprintSpec) -> BlueprintSpec:
        components = dict(spec.components)
        for name, section, key in ((str(one), str(two), str(three)) for one, two, three in self._unknown):
            if name in components and key in getattr(components[name], section):
                fields = {**getattr(components[name], section), key: UnknownField()}
                components[name] = components[name].model_copy(update={section: fields})
        return spec.model_copy(update={"components": components})


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value

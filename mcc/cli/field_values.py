"""Parses `key=value` arguments into values for a component's fields, each by the type of its field."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from mcc.contracts.blueprints import Component, FieldSpec, ItemField

Section = Literal["metadata", "props"]

UNSET = "null"
"""The text that removes a value."""

_SHOWN = 60


def pairs_in(options: Iterable[str]) -> dict[str, str]:
    """The keys and values of `key=value` texts. Raises ValueError with a sentence."""
    pairs: dict[str, str] = {}
    for option in options:
        key, sign, value = option.partition("=")
        if not sign or not key.strip():
            raise ValueError(f"{option[:_SHOWN]!r}: write key=value.")
        if key.strip() in pairs:
            raise ValueError(f"{key.strip()[:_SHOWN]!r} is given twice; give it once.")
        pairs[key.strip()] = value
    return pairs


def metadata_in(component: "Component", options: Iterable[str]) -> dict[str, Any]:
    """Metadata values by field name; a key may begin with "metadata.". Raises ValueError with a sentence."""
    return {
        key.removeprefix("metadata."): value_in(
            _field(component.metadata, key.removeprefix("metadata."), ""), key, value
        )
        for key, value in pairs_in(options).items()
    }


def values_in(component: "Component", options: Iterable[str]) -> Mapping[Section, dict[str, Any]]:
    """Values of a component's properties and metadata, by section and field name.

    A key is `props.minutes` or `metadata.focus`, or the name alone where only one section has it. Raises ValueError
    with a sentence.
    """
    sections: dict[Section, dict[str, Any]] = {"metadata": {}, "props": {}}
    for key, value in pairs_in(options).items():
        section, name = _place(component, key)
        fields = component.metadata if section == "metadata" else component.properties
        sections[section][name] = value_in(_field(fields, name, f"{section}."), key, value)
    return sections


def _place(component: "Component", key: str) -> tuple[Section, str]:
    for section in ("metadata", "props"):
        if key.startswith(f"{section}."):
            return section, key.removeprefix(f"{section}.")
    if key in component.metadata and key in component.properties:
        raise ValueError(f"{key}: both metadata and properties have it; write metadata.{key} or props.{key}.")
    if key in component.metadata:
        return "metadata", key
    if key not in component.properties:
        _field({**component.metadata, **component.properties}, key, "")
    return "props", key


def _field(fields: "Mapping[str, FieldSpec]", name: str, section: str) -> "FieldSpec":
    from mcc.contracts.similar import did_you_mean

    if name not in fields:
        known = did_you_mean(name, fields) or f"; there is: {', '.join(fields) or 'none'}"
        raise ValueError(f"There is no field {section}{name[:_SHOWN]}{known}.")
    return fields[name]


def value_in(field: "FieldSpec | ItemField", key: str, text: str) -> Any:
    """`text` as a value of the field's type; `key` names it in errors. The service checks the field's rules, not this
    function. Raises ValueError with a sentence."""
    from mcc.contracts.blueprints import BooleanField, ListField, NumberField

    if text == UNSET:
        return None
    match field:
        case NumberField():
            return _number(key, text)
        case BooleanField():
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{key}: {text[:_SHOWN]!r} is not true or false.")
            return text.lower() == "true"
        case ListField(items=items):
            return _list(items, key, text)
    return text


def _number(key: str, text: str) -> int | float:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise ValueError(f"{key}: {text[:_SHOWN]!r} is no number; write 7 or 2.5.") from None


def _list(items: "ItemField", key: str, text: str) -> list[Any]:
    """The items of a JSON array, or of a list with commas."""
    if not text.lstrip().startswith("["):
        return [value_in(items, key, part.strip()) for part in text.split(",") if part.strip()]
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{key}: this begins like a JSON array, but is not one.") from None
    if not isinstance(listed, list):
        raise ValueError(f"{key}: this is no list; write a,b,c or a JSON array.")
    return listed

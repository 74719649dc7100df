"""A blueprint as lines for people: its components with their fields, rules and children."""

from collections.abc import Iterator, Mapping

from mcc.contracts.blueprints import (
    BlueprintRule,
    BlueprintSpec,
    ChoiceField,
    Component,
    DateField,
    FieldSpec,
    ItemField,
    ListField,
    NumberField,
    ReferenceField,
    TextField,
)
from mcc.view.documents import in_brief
from mcc.view.output import exact_line

INDENT = "  "


def lines_of(spec: BlueprintSpec) -> Iterator[str]:
    """Each component once: the root first, then its possible descendants, breadth first."""
    for name in _from_the_root(spec):
        component = spec.components[name]
        yield ""
        yield exact_line(name + (f": {_flat(component.description)}" if component.description else ""))
        yield from (exact_line(INDENT + line) for line in _inside(component))


def _from_the_root(spec: BlueprintSpec) -> Iterator[str]:
    waiting, seen = [spec.root], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in spec.components:
            continue
        seen.add(name)
        yield name
        waiting.extend(spec.components[name].children)
    yield from (name for name in spec.components if name not in seen)


def _inside(component: Component) -> Iterator[str]:
    sections: Mapping[str, Mapping[str, FieldSpec]] = {
        "metadata": component.metadata,
        "properties": component.properties,
    }
    for section, fields in sections.items():
        if fields:
            yield section
            width = max(map(len, fields))
        for name, field in fields.items():
            about = f"  {_flat(field.description)}" if field.description else ""
            yield f"{INDENT}{name:<{width}}  {_kind(field)}{about}"
            yield from (INDENT * 2 + _rule(rule) for rule in field.rules)
    for rule in component.rules:
        yield _rule(rule)
    for child, count in component.children.items():
        yield f"children  {child}, {next(_bounds(count.min or None, count.max, ''), 'any number')}"


def _kind(field: FieldSpec) -> str:
    words = [field.type, *_constraints(field)]
    if field.required:
        words.append("required")
    if field.default is not None:
        words.append(f"{_flat(in_brief(field.default))} by default")
    if field.formula is not None:
        words.append(f"= {_flat(field.formula)}")
    if field.bind is not None:
        words.append(f"= {_flat(field.bind)}")
    return ", ".join(words)


def _constraints(field: FieldSpec | ItemField) -> Iterator[str]:
    match field:
        case TextField():
            yield from _bounds(field.min_length, field.max_length, "characters")
            if field.pattern is not None:
                yield f"pattern {_flat(field.pattern)}"
        case NumberField():
            if field.integer:
                yield "whole"
            yield from _bounds(field.min, field.max, "")
        case ChoiceField():
            yield " or ".join(map(_flat, field.options))
        case DateField():
            yield from (f"{word} {day}" for word, day in (("after", field.after), ("before", field.before)) if day)
        case ReferenceField():
            yield f"to a {field.to}"
        case ListField():
            yield f"of {', '.join((field.items.type, *_constraints(field.items)))}"
            yield from _bounds(field.min_items, field.max_items, "items")
            if field.unique:
                yield "no two alike"


def _bounds(least: float | None, most: float | None, what: str) -> Iterator[str]:
    if least is not None and most is not None:
        yield f"{least:g} to {most:g} {what}".rstrip()
    elif least is not None:
        yield f"at least {least:g} {what}".rstrip()
    elif most is not None:
        yield f"at most {most:g} {what}".rstrip()


def _rule(rule: BlueprintRule) -> str:
    match rule.kind:
        case "guideline":
            return f"guideline  {_flat(rule.guideline or '')}"
        case "function":
            return f"function   {_flat(rule.function or '')}"
    expression = rule.cel if rule.kind == "cel" else rule.evidence
    return f"{rule.kind:<9}  {_flat(expression or '')}" + (f"  ({_flat(rule.message)})" if rule.message else "")


def _flat(text: str) -> str:
    return " ".join(filter(None, text.replace("\n", " ").replace("\t", " ").split(" ")))

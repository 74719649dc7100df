"""Components made ready for use: each of their rules, formulas and templates read, and what is wrong with them told."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from mcc.contracts.blueprints import AnyField, BlueprintRule, Component, FieldSpec, ListField, NodeAgent
from mcc.contracts.shape import digest
from mcc.definitions.front_matter import Location
from mcc.documents.component import CompiledComponent, CompiledField, NodeRule
from mcc.documents.constraints import constraints, counts
from mcc.documents.formulas import Binding, Computation, Formula, in_order
from mcc.documents.shapes import Names, kinds_of, shape_of, with_receipts
from mcc.documents.templates import Template, TemplateError
from mcc.rules.errors import RuleError
from mcc.rules.kinds import Shape, named
from mcc.rules.rule import CompiledRule, read_rule

Tell: TypeAlias = Callable[[Location, str], None]
"""Takes what is wrong within a component: where, and a sentence."""

_LOOP = 10
"""Names of a loop that are told."""

SECTIONS: Mapping[str, str] = {"metadata": "metadata", "props": "properties"}
"""How a section of fields is named by rules, and by files."""


def compiled(name: str, spec: Component, settings: NodeAgent, tell: Tell) -> CompiledComponent:
    """The component of this name; what is wrong with it is told, and left out of what is made."""
    names = Names(spec)
    fields = MappingProxyType(dict(_fields(spec, names, tell)))
    rules = tuple(_rules(spec, fields, names, tell))
    computed = in_order({one.name: one.computation for one in fields.values() if one.computation is not None})
    for loop in computed.loops:
        first = fields[loop[0]]
        shown = loop if len(loop) <= _LOOP else (*loop[: _LOOP - 1], "…")
        way = " → ".join((*shown, loop[0]))
        tell(_at(first, "formula" if first.spec.formula is not None else "bind"), f"This is made of itself: {way}")
    ordered = tuple(fields[one] for one in computed.order)
    # A field that nobody can read is no model that pydantic expects; nothing comes of such a component.
    held_to = {"metadata", "properties", "rules", "children"}
    rules_digest = f"sha256:{digest(spec.model_dump(mode='json', by_alias=True, include=held_to, warnings=False))}"
    return CompiledComponent(name, spec, settings, fields, rules, ordered, _describe(name, spec, tell), rules_digest)


def _at(field: CompiledField, *further: str | int) -> Location:
    return (SECTIONS[field.section], field.key, *further)


def _specs(spec: Component) -> Iterator[tuple[str, str, FieldSpec]]:
    for section, fields in (("metadata", spec.metadata), ("props", spec.properties)):
        for key, field in fields.items():
            yield section, key, field


def _fields(spec: Component, names: Names, tell: Tell) -> Iterator[tuple[str, CompiledField]]:
    known = [f"{section}.{key}" for section, key, _ in _specs(spec)]
    for section, key, field in _specs(spec):
        name, location = f"{section}.{key}", (SECTIONS[section], key)
        computation: Computation | None = None
        if field.formula is not None:
            computation = _formula(names, field, (*location, "formula"), tell)
        elif field.bind is not None:
            try:
                computation = Binding(Template.parse(field.bind, known, parent=True))
            except TemplateError as error:
                tell((*location, "bind"), str(error))
        yield name, CompiledField(name, section, key, field, computation)


def _formula(names: Names, field: FieldSpec, location: Location, tell: Tell) -> Formula | None:
    text = field.formula or ""
    try:
        made = Formula.of(text, names.of(None))
    except RuleError as error:
        tell(location, f"{error}{_why_not(error, None, names.fields)}")
        return None
    if not made.kinds & kinds_of(field):
        tell(location, f"This gives {named(made.kinds)}, and the field is a {field.type}")
    return made


def _rules(spec: Component, fields: Mapping[str, CompiledField], names: Names, tell: Tell) -> Iterator[NodeRule]:
    for field in fields.values():
        yield from _derived(field)
        yield from _declared(names, field, field.name, field.spec, tell)
        if isinstance(field.spec, ListField):
            yield from _declared(names, field, f"{field.name}.items", field.spec.items, tell, each=True)
    for index, rule in enumerate(spec.rules):
        if (made := _rule(f"rules[{index}]", rule, None, names.of(None), (("rules", index), tell))) is not None:
            yield made
    for child, count in spec.children.items():
        for word, constraint in counts(child, count):
            yield NodeRule(f"children.{child}.{word}", "derived", None, constraint=constraint)


def _derived(field: CompiledField) -> Iterator[NodeRule]:
    if field.spec.required:
        yield NodeRule(f"{field.name}.required", "derived", field.name)
    if field.computation is not None:
        word = "formula" if field.spec.formula is not None else "bind"
        yield NodeRule(f"{field.name}.{word}", "derived", field.name)
    for word, constraint in constraints(field.spec):
        yield NodeRule(f"{field.name}.{word}", "derived", field.name, constraint=constraint)


def _declared(
    names: Names, field: CompiledField, id: str, spec: AnyField, tell: Tell, *, each: bool = False
) -> Iterator[NodeRule]:
    location = _at(field, *(("items",) if each else ()))
    value = shape_of(spec, unset=not each)  # type: ignore[arg-type]
    for index, rule in enumerate(spec.rules):
        where = ((*location, "rules", index), tell)
        made = _rule(f"{id}.rules[{index}]", rule, field, names.of(field.section, value), where, each=each)
        if made is not None:
            yield made


def _rule(
    id: str,
    rule: BlueprintRule,
    field: CompiledField | None,
    names: Mapping[str, Shape],
    where: tuple[Location, Tell],
    *,
    each: bool = False,
) -> NodeRule | None:
    name = None if field is None else field.name
    if rule.kind == "guideline":
        return NodeRule(id, "guideline", name, guideline=rule.guideline or "", each=each)
    if rule.kind == "function":
        return NodeRule(id, "function", name, function=rule.function or "", each=each)
    location, tell = where
    known = [f"{section}.{key}" for section in SECTIONS if section in names for key in names[section].names or ()]
    names = with_receipts(names) if rule.kind == "evidence" else names
    try:
        made = CompiledRule(read_rule(rule.cel or rule.evidence or "", names), rule.message)
    except RuleError as error:
        tell((*location, rule.kind), f"{error}{_why_not(error, field, known)}")
        return None
    return NodeRule(id, rule.kind, name, rule.message, cel=made, each=each)


def _why_not(error: RuleError, field: CompiledField | None, known: Iterable[str]) -> str:
    """What a name that is known elsewhere stands for."""
    name = error.sentence.partition("'")[2].partition("'")[0] if "is not known here" in error.sentence else ""
    if name == "value" and field is None:
        return "; a rule of the component has no value, one of a field has"
    if name == "props" and field is not None and field.section == "metadata":
        return "; a rule of a metadata field sees metadata alone"
    if name == "parent":
        return "; what the parent has is bound to a field of its own, with bind"
    meant = next((one for one in known if name and one.partition(".")[2] == name), None)
    return f"; did you mean {meant!r}?" if meant else ""


def _describe(name: str, spec: Component, tell: Tell) -> Template:
    """What the component says of its nodes; where it says nothing, its name and its required fields."""
    fields = {f"{section}.{key}": (key, field) for section, key, field in _specs(spec)}
    try:
        if spec.describe is not None:
            return Template.parse(spec.describe, fields)
    except TemplateError as error:
        tell(("describe",), str(error))
    needed = [f"{key} {{{full}}}" for full, (key, field) in fields.items() if field.required]
    return Template.parse(f"{name}: {'; '.join(needed)}" if needed else name)

"""Compilation of components: parses their rules, formulas and templates, and reports what is wrong with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from mcc.contracts.blueprints import AnyField, BlueprintRule, ChoiceField, Component, FieldSpec, ListField, NodeAgent
from mcc.contracts.shape import digest
from mcc.definitions.front_matter import Location
from mcc.definitions.rights import TOOL_GROUPS
from mcc.documents.component import CompiledComponent, CompiledField, NodeRule
from mcc.documents.constraints import constraints, counts
from mcc.documents.formulas import Binding, Computation, Formula, in_order
from mcc.documents.partial import UnknownField
from mcc.documents.templates import Template, TemplateError
from mcc.rules.errors import ExpressionError
from mcc.rules.kinds import ANY, ANYTHING, Kinds, Null, Shape, cel_names, object_shape
from mcc.rules.reads import READS
from mcc.rules.rule import CompiledRule, rule_expression, variable_shapes

Tell: TypeAlias = Callable[[Location, str], None]
"""Called with each problem of a component: the location within it, and a sentence."""

_LOOP = 10
"""Most names of a cycle in a message."""

SECTIONS: Mapping[str, str] = {"metadata": "metadata", "props": "properties"}
"""Sections of fields: the name used in rules, and the one used in files."""

_TEXTS: Kinds = frozenset({str})
_KINDS: Mapping[str, Kinds] = {
    "text": _TEXTS,
    "choice": _TEXTS,
    "date": _TEXTS,
    "reference": _TEXTS,
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "list": frozenset({list}),
}
_TOOLS = frozenset(tool for tools in TOOL_GROUPS.values() for tool in tools)


class _Names:
    """The names, with the shapes of their values, that rules and formulas of a component may use."""

    def __init__(self, component: Component) -> None:
        self._sections = {"metadata": _section(component.metadata), "props": _section(component.properties)}

    @property
    def fields(self) -> list[str]:
        return [f"{section}.{key}" for section, shape in self._sections.items() for key in shape.names or ()]

    def of(self, section: str | None, value: Shape | None = None) -> Mapping[str, Shape]:
        """The names for a rule: of the component (`section` None), or of a field with this `value`.

        Rules of a metadata field see the metadata only.
        """
        names = {"metadata": self._sections["metadata"]} if section == "metadata" else dict(self._sections)
        return names if value is None else {**names, "value": value}


def compiled(name: str, spec: Component, settings: NodeAgent, tell: Tell) -> CompiledComponent:
    """Compile the component of this name; invalid parts are reported to `tell` and left out."""
    names = _Names(spec)
    fields = MappingProxyType(dict(_fields(spec, names, tell)))
    rules = tuple(_rules(spec, fields, names, tell))
    computed = in_order({field.name: field.computation for field in fields.values() if field.computation is not None})
    for loop in computed.loops:
        first = fields[loop[0]]
        shown = loop if len(loop) <= _LOOP else (*loop[: _LOOP - 1], "…")
        way = " → ".join((*shown, loop[0]))
        tell(
            _at(first, "formula" if first.spec.formula is not None else "bind"), f"This is computed from itself: {way}"
        )
    ordered = tuple(fields[name] for name in computed.order)
    # `warnings=False`: pydantic does not expect an `UnknownField`; a blueprint with one is rejected later anyway.
    held_to = {"metadata", "properties", "rules", "children"}
    rules_digest = f"sha256:{digest(spec.model_dump(mode='json', by_alias=True, include=held_to, warnings=False))}"
    return CompiledComponent(name, spec, settings, fields, rules, ordered, _describe(name, spec, tell), rules_digest)


def _at(field: CompiledField, *further: str | int) -> Location:
    return (SECTIONS[field.section], field.key, *further)


def _specs(spec: Component) -> Iterator[tuple[str, str, FieldSpec]]:
    for section, fields in (("metadata", spec.metadata), ("props", spec.properties)):
        for key, field in fields.items():
            yield section, key, field


def _fields(spec: Component, names: _Names, tell: Tell) -> Iterator[tuple[str, CompiledField]]:
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


def _formula(names: _Names, field: FieldSpec, location: Location, tell: Tell) -> Formula | None:
    text = field.formula or ""
    try:
        made = Formula.of(text, names.of(None))
    except ExpressionError as error:
        tell(location, f"{error}{_hint(error, None, names.fields)}")
        return None
    if not made.kinds & _kinds_of(field):
        tell(location, f"This gives {cel_names(made.kinds)}, and the field is a {field.type}")
    return made


def _rules(spec: Component, fields: Mapping[str, CompiledField], names: _Names, tell: Tell) -> Iterator[NodeRule]:
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
    names: _Names, field: CompiledField, id: str, spec: AnyField, tell: Tell, *, each: bool = False
) -> Iterator[NodeRule]:
    location = _at(field, *(("items",) if each else ()))
    value = _shape_of(spec, unset=not each)  # type: ignore[arg-type]
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
    names = _with_receipts(names) if rule.kind == "evidence" else names
    try:
        made = CompiledRule(rule_expression(rule.cel or rule.evidence or "", names), rule.message)
    except ExpressionError as error:
        tell((*location, rule.kind), f"{error}{_hint(error, field, known)}")
        return None
    return NodeRule(id, rule.kind, name, rule.message, cel=made, each=each)


def _hint(error: ExpressionError, field: CompiledField | None, known: Iterable[str]) -> str:
    """A hint for an unknown name that exists in another place."""
    name = error.sentence.partition("'")[2].partition("'")[0] if "is not known here" in error.sentence else ""
    if name == "value" and field is None:
        return "; a rule of the component has no value, one of a field has"
    if name == "props" and field is not None and field.section == "metadata":
        return "; a rule of a metadata field sees metadata alone"
    if name == "parent":
        return "; what the parent has is bound to a field of its own, with bind"
    meant = next((candidate for candidate in known if name and candidate.partition(".")[2] == name), None)
    return f"; did you mean {meant!r}?" if meant else ""


def _describe(name: str, spec: Component, tell: Tell) -> Template:
    """The template that describes nodes of the component; by default its name and its required fields."""
    fields = {f"{section}.{key}": (key, field) for section, key, field in _specs(spec)}
    try:
        if spec.describe is not None:
            return Template.parse(spec.describe, fields)
    except TemplateError as error:
        tell(("describe",), str(error))
    needed = [f"{key} {{{full}}}" for full, (key, field) in fields.items() if field.required]
    return Template.parse(f"{name}: {'; '.join(needed)}" if needed else name)


def _kinds_of(spec: FieldSpec) -> Kinds:
    """The CEL types of a field's value where it is set."""
    return ANY if isinstance(spec, UnknownField) else _KINDS[spec.type]


def _shape_of(spec: FieldSpec, *, unset: bool = True) -> Shape:
    """The shape of a field's value; `unset`: it may be null too."""
    if isinstance(spec, UnknownField):
        return ANYTHING
    kinds = _kinds_of(spec) | (frozenset({Null}) if unset else frozenset())
    texts = frozenset(spec.options) if isinstance(spec, ChoiceField) else None
    if isinstance(spec, ListField):
        items = _shape_of(spec.items, unset=False)
        return Shape(kinds, item=lambda: items)
    # `likely`: a value outside the options can be set; it only gets a negative verdict.
    return Shape(kinds, texts, likely=True)


def _with_receipts(names: Mapping[str, Shape]) -> Mapping[str, Shape]:
    """`names`, and those that evidence rules may use too: tool receipts and what the tools read."""
    return {**names, "receipts": variable_shapes(ANYTHING, _TOOLS)["receipts"], READS: ANYTHING}


def _section(fields: Mapping[str, FieldSpec]) -> Shape:
    return object_shape({name: _shape_of(spec) for name, spec in fields.items()})

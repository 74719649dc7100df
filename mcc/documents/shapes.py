"""What rules may know of a component's values before there are any, so that mistakes are found when it is declared."""

from collections.abc import Mapping

from mcc.contracts.blueprints import ChoiceField, Component, FieldSpec, ListField
from mcc.definitions.rights import TOOL_GROUPS
from mcc.documents.partial import UnknownField
from mcc.rules.kinds import ANY, ANYTHING, Kinds, Null, Shape, of_keys
from mcc.rules.reads import READS
from mcc.rules.rule import shapes

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


def kinds_of(spec: FieldSpec) -> Kinds:
    """Of a value that is set."""
    return ANY if isinstance(spec, UnknownField) else _KINDS[spec.type]


def shape_of(spec: FieldSpec, *, unset: bool = True) -> Shape:
    """Of the field's value; `unset`: or null."""
    if isinstance(spec, UnknownField):
        return ANYTHING
    kinds = kinds_of(spec) | (frozenset({Null}) if unset else frozenset())
    texts = frozenset(spec.options) if isinstance(spec, ChoiceField) else None
    if isinstance(spec, ListField):
        items = shape_of(spec.items, unset=False)
        return Shape(kinds, item=lambda: items)
    # Any other text is taken too, and its verdict says that it is none of the options.
    return Shape(kinds, texts, likely=True)


class Names:
    """The names that rules and formulas of a component may use."""

    def __init__(self, component: Component) -> None:
        self._sections = {"metadata": _section(component.metadata), "props": _section(component.properties)}

    @property
    def fields(self) -> list[str]:
        return [f"{section}.{key}" for section, shape in self._sections.items() for key in shape.names or ()]

    def of(self, section: str | None, value: Shape | None = None) -> Mapping[str, Shape]:
        """Of a rule of the component (`section` None), of a metadata field or of a property with `value`."""
        names = {"metadata": self._sections["metadata"]} if section == "metadata" else dict(self._sections)
        return names if value is None else {**names, "value": value}


def with_receipts(names: Mapping[str, Shape]) -> Mapping[str, Shape]:
    """Beside `names` what tools did, and what they read."""
    return {**names, "receipts": shapes(ANYTHING, _TOOLS)["receipts"], READS: ANYTHING}


def _section(fields: Mapping[str, FieldSpec]) -> Shape:
    return of_keys({name: shape_of(spec) for name, spec in fields.items()})

"""A compiled component: its fields, its rules with their ids, and its computed fields in evaluation order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mcc.contracts.blueprints import Component, FieldSpec, NodeAgent
from mcc.documents.constraints import Constraint
from mcc.documents.formulas import Computation, ComputedValue, NodeContext
from mcc.documents.kinds import as_stored, check_kind
from mcc.documents.node import Node, RuleKind
from mcc.documents.state import DocumentState
from mcc.documents.templates import MAX_TEXT, Template
from mcc.rules.rule import CompiledRule


@dataclass(frozen=True, slots=True)
class CompiledField:
    """`name` is the full name, such as `props.title` or `metadata.topic`; `section` and `key` are its two parts."""

    name: str
    section: str
    key: str
    spec: FieldSpec
    computation: Computation | None = None


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A rule for every node of the component; `field` is None for a rule about the node as a whole.

    At most one is set of `constraint` (kind derived), `cel` (kinds cel and evidence), `function` (a name) and
    `guideline` (a text). None is set for the derived rules of required and computed fields, which only their `id`
    identifies. `each`: the rule applies to each item of a list.
    """

    id: str
    kind: RuleKind
    field: str | None
    message: str = ""
    constraint: Constraint | None = None
    cel: CompiledRule | None = None
    function: str = ""
    guideline: str = ""
    each: bool = False


@dataclass(frozen=True)
class CompiledComponent:
    """`fields` by full name, metadata first. `computed` are the fields with a formula or binding, each after the fields
    that it reads. `rules_digest` covers metadata, properties, rules and children of the component."""

    name: str
    spec: Component
    settings: NodeAgent
    fields: Mapping[str, CompiledField]
    rules: tuple[NodeRule, ...]
    computed: tuple[CompiledField, ...]
    describe: Template
    rules_digest: str

    @cached_property
    def has_function_rules(self) -> bool:
        """Whether a verdict may depend on the node's descendants: function rules get the whole tree."""
        return any(rule.kind == "function" for rule in self.rules)

    @property
    def guidelines(self) -> tuple[NodeRule, ...]:
        return tuple(rule for rule in self.rules if rule.kind == "guideline")

    @property
    def validates(self) -> bool:
        return self.settings.validates is not False


def field_of_rule(rule: str) -> str | None:
    """`props.title` for `props.title.min_length`, `children.lesson` for `children.lesson.min`; None for `rules[0]`."""
    section, _, rest = rule.partition(".")
    return f"{section}.{rest.partition('.')[0]}" if rest else None


def context_of(state: DocumentState, node: Node) -> NodeContext:
    """The values that formulas and bindings of this node read."""
    above = state.parent(node)
    parent = None if above is None else NodeContext(above.metadata, above.props)
    return NodeContext(node.metadata, node.props, parent, state.position(node))


def computed(field: CompiledField, context: NodeContext) -> ComputedValue:
    """The value of a field with a formula or binding; None, with a problem, where it has not the field's type."""
    assert field.computation is not None
    found = field.computation.value(context)
    if found.value is None:
        return found
    why = check_kind(field.spec, found.value) or _too_long(found.value)
    return ComputedValue(None, why) if why else ComputedValue(as_stored(field.spec, found.value))


def _too_long(value: object) -> str | None:
    items: Iterable[object] = value if isinstance(value, list | tuple) else (value,)
    size = sum(len(item) if isinstance(item, str) else 1 for item in items)
    return None if size <= MAX_TEXT else f"This makes more than {MAX_TEXT:,} characters."

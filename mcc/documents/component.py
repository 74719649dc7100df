"""A component ready for use: its fields, all its rules with their ids, what is computed and in which order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mcc.contracts.blueprints import Component, FieldSpec, NodeAgent
from mcc.documents.constraints import Constraint
from mcc.documents.formulas import Around, Computation, Computed
from mcc.documents.kinds import as_kept, check_kind
from mcc.documents.node import Node, RuleKind
from mcc.documents.state import State
from mcc.documents.templates import MAX_TEXT, Template
from mcc.rules.rule import CompiledRule


@dataclass(frozen=True, slots=True)
class CompiledField:
    """`name` is `props.title` or `metadata.topic`, `section` its first half, `key` its second."""

    name: str
    section: str
    key: str
    spec: FieldSpec
    computation: Computation | None = None


@dataclass(frozen=True, slots=True)
class NodeRule:
    """One rule that every node of the component is held to; `field` None: it is the component's.

    Exactly one is set of `constraint` (derived; `required` and those of formulas and bindings are told by `id`), `cel`
    (kinds cel and evidence), `function` (a name), `guideline` (a text). `each`: it is about each item of a list.
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
    """`fields` by name, metadata first. `computed` are those with a formula or binding, each after what it is made of.
    `rules_digest` names all that nodes are held to."""

    name: str
    spec: Component
    settings: NodeAgent
    fields: Mapping[str, CompiledField]
    rules: tuple[NodeRule, ...]
    computed: tuple[CompiledField, ...]
    describe: Template
    rules_digest: str

    @cached_property
    def looks_around(self) -> bool:
        """Whether a rule of it may depend on what is below it."""
        return any(rule.kind == "function" for rule in self.rules)

    @property
    def guidelines(self) -> tuple[NodeRule, ...]:
        return tuple(rule for rule in self.rules if rule.kind == "guideline")

    @property
    def validates(self) -> bool:
        return self.settings.validates is not False


def around(component: CompiledComponent, state: State, node: Node) -> Around:
    """What the values of a node of this component are made of, as they are in `state`."""
    above = state.parent(node)
    parent = None if above is None else Around(above.metadata, above.props)
    # To find its place costs as much as the node has siblings.
    asked = any(field.computation and "position" in field.computation.reads for field in component.computed)
    return Around(node.metadata, node.props, parent, state.position(node) if asked else 1)


def computed(field: CompiledField, around: Around) -> Computed:
    """The value of a field with a formula or binding, of the kind of the field."""
    assert field.computation is not None
    found = field.computation.value(around)
    if found.value is None:
        return found
    why = check_kind(field.spec, found.value) or _too_long(found.value)
    return Computed(None, why) if why else Computed(as_kept(field.spec, found.value))


def _too_long(value: object) -> str | None:
    items: Iterable[object] = value if isinstance(value, list | tuple) else (value,)
    size = sum(len(item) if isinstance(item, str) else 1 for item in items)
    return None if size <= MAX_TEXT else f"This makes more than {MAX_TEXT:,} characters."

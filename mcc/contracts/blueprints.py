"""Blueprints as their files declare them: components with fields, rules, children and agents."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.agents import INHERIT
from mcc.contracts.generation import BlueprintName
from mcc.contracts.order import ModelName, OutputTokens, Temperature, Thinking
from mcc.contracts.permission import PermissionKey
from mcc.contracts.shape import LIST_AS_TUPLE, Closed, JsonAny, Text

MAX_COMPONENTS = 200
MAX_FIELDS = 500
"""Most metadata fields of a component, and most properties."""
MAX_TURNS = 50
"""Rounds of an agent whose blueprint sets no `max_turns`."""

SPEC_NAME = r"^[a-z][a-z0-9_]{0,63}$"
SpecName = Annotated[str, StringConstraints(pattern=SPEC_NAME)]
"""Name of a component or field in a blueprint."""

Cel = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Template = Annotated[str, StringConstraints(max_length=10_000)]
Size = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
Finite = Annotated[int | float, Field(allow_inf_nan=False)]


class BlueprintRule(Closed):
    """Exactly one of: `cel`, an expression that must be true; `guideline`, shown to the agent but never checked;
    `function`, a registered function; `evidence`, CEL over what the agent's tools really did."""

    cel: Cel | None = None
    guideline: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
    function: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    evidence: Cel | None = None
    message: Annotated[str, StringConstraints(max_length=2_000)] = ""

    @model_validator(mode="after")
    def _has_one_kind(self) -> "BlueprintRule":
        given = [name for name in ("cel", "guideline", "function", "evidence") if getattr(self, name) is not None]
        if len(given) != 1:
            raise PydanticCustomError("one_kind", "A rule has exactly one of cel, guideline, function and evidence")
        if self.message and given[0] not in ("cel", "evidence"):
            raise PydanticCustomError("no_message", "A message belongs to cel and evidence alone")
        return self

    @property
    def kind(self) -> Literal["cel", "guideline", "function", "evidence"]:
        if self.cel is not None:
            return "cel"
        if self.guideline is not None:
            return "guideline"
        return "evidence" if self.evidence is not None else "function"


Rules = Annotated[tuple[BlueprintRule, ...], LIST_AS_TUPLE, Field(max_length=100)]


class AnyField(Closed):
    """Keys common to all field types. `formula` and `bind` compute the value, so it cannot be set."""

    required: bool = False
    default: JsonAny = None
    description: Text = ""
    rules: Rules = ()
    formula: Cel | None = None
    bind: Template | None = None

    @property
    def computed(self) -> bool:
        return self.formula is not None or self.bind is not None


class TextField(AnyField):
    type: Literal["text"]
    min_length: Size | None = None
    max_length: Size | None = None
    pattern: Annotated[str, StringConstraints(max_length=1_000)] | None = None


class NumberField(AnyField):
    type: Literal["number"]
    integer: bool = False
    min: Finite | None = None
    max: Finite | None = None


class BooleanField(AnyField):
    type: Literal["boolean"]


class ChoiceField(AnyField):
    type: Literal["choice"]
    options: Annotated[tuple[str, ...], LIST_AS_TUPLE, Field(min_length=1, max_length=500)]


class DateField(AnyField):
    """`after` and `before` are exclusive bounds, as ISO 8601 dates (YYYY-MM-DD)."""

    type: Literal["date"]
    after: str | None = None
    before: str | None = None


class ReferenceField(AnyField):
    """The value is the path of a node of the component `to`."""

    type: Literal["reference"]
    to: SpecName


ItemField = Annotated[
    TextField | NumberField | BooleanField | ChoiceField | DateField | ReferenceField, Field(discriminator="type")
]


class ListField(AnyField):
    type: Literal["list"]
    items: ItemField
    min_items: Size | None = None
    max_items: Size | None = None
    unique: bool = False


FieldSpec: TypeAlias = Annotated[
    TextField | NumberField | BooleanField | ChoiceField | ListField | DateField | ReferenceField,
    Field(discriminator="type"),
]


class ChildCount(Closed):
    """How many children of one component a node may have; `max` None: any number."""

    min: Size = 0
    max: Size | None = None


class NodeAgent(Closed):
    """Settings of a component's agent. `validates` (`validate` in files) None or True: a gate checks its result."""

    model_config = ConfigDict(validate_by_name=False)

    system: Annotated[str, StringConstraints(max_length=50_000)] | None = None
    model: ModelName = INHERIT
    thinking: Thinking = "inherit"
    temperature: Temperature | None = None
    max_tokens: OutputTokens | None = None
    max_turns: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    tools: Annotated[tuple[PermissionKey, ...], LIST_AS_TUPLE] = ()
    validates: Annotated[bool | None, Field(alias="validate")] = None


class Component(Closed):
    description: Text = ""
    metadata: Annotated[Mapping[SpecName, FieldSpec], Field(max_length=MAX_FIELDS)] = {}
    properties: Annotated[Mapping[SpecName, FieldSpec], Field(max_length=MAX_FIELDS)] = {}
    rules: Rules = ()
    children: Mapping[SpecName, ChildCount] = {}
    describe: Template | None = None
    agent: NodeAgent = NodeAgent()


class BlueprintSpec(Closed):
    """A blueprint's whole content. Its digest identifies it; `version` is for people."""

    blueprint: BlueprintName
    version: Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)] = 1
    description: Text = ""
    root: SpecName
    agent: NodeAgent = NodeAgent()
    components: Annotated[Mapping[SpecName, Component], Field(min_length=1, max_length=MAX_COMPONENTS)]

    def settings(self, component: str) -> NodeAgent:
        """The agent settings of this component: its own, and the blueprint's `agent` for those that it does not set."""
        own = self.components[component].agent
        return self.agent.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

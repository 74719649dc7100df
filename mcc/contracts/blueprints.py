"""Blueprints: the components that documents are made of, as a blueprint's file says them."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.agents import INHERIT
from mcc.contracts.generation import BlueprintName
from mcc.contracts.order import ModelName, OutputTokens, Temperature, Thinking
from mcc.contracts.permission import PermissionKey
from mcc.contracts.shape import Closed, JsonAny, Text

WORD = r"^[a-z][a-z0-9_]{0,63}$"
MAX_COMPONENTS = 200
MAX_FIELDS = 500
"""Metadata fields of a component, and properties."""
MAX_TURNS = 50
"""Rounds of an agent of which nothing is said."""

Word = Annotated[str, StringConstraints(pattern=WORD)]
"""Name of a blueprint's component or field."""

Cel = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Template = Annotated[str, StringConstraints(max_length=10_000)]
Size = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
Finite = Annotated[int | float, Field(allow_inf_nan=False)]


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class BlueprintRule(Closed):
    """Exactly one of: CEL that must be true, a guideline that is only told, a registered function, CEL over what an
    agent's tools really did (`evidence`)."""

    cel: Cel | None = None
    guideline: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
    function: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    evidence: Cel | None = None
    message: Annotated[str, StringConstraints(max_length=2_000)] = ""

    @model_validator(mode="after")
    def _one(self) -> "BlueprintRule":
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


Rules = Annotated[tuple[BlueprintRule, ...], BeforeValidator(_listed), Field(max_length=100)]


class AnyField(Closed):
    """What all kinds of fields may say. `formula` and `bind` make the value; nobody sets it then."""

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
    options: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1, max_length=500)]


class DateField(AnyField):
    """`after` and `before` are dates (ISO 8601, YYYY-MM-DD), themselves excluded."""

    type: Literal["date"]
    after: str | None = None
    before: str | None = None


class ReferenceField(AnyField):
    """The value is the path of a node of the component `to`."""

    type: Literal["reference"]
    to: Word


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
    """How many children of one component; `max` None: any number."""

    min: Size = 0
    max: Size | None = None


class NodeAgent(Closed):
    """The agent of a component, as far as it is said; `validates` (`validate` in files) None or True: it is gated."""

    model_config = ConfigDict(validate_by_name=False)

    system: Annotated[str, StringConstraints(max_length=50_000)] | None = None
    model: ModelName = INHERIT
    thinking: Thinking = "inherit"
    temperature: Temperature | None = None
    max_tokens: OutputTokens | None = None
    max_turns: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    tools: Annotated[tuple[PermissionKey, ...], BeforeValidator(_listed)] = ()
    validates: Annotated[bool | None, Field(alias="validate")] = None


class Component(Closed):
    description: Text = ""
    metadata: Annotated[Mapping[Word, FieldSpec], Field(max_length=MAX_FIELDS)] = {}
    properties: Annotated[Mapping[Word, FieldSpec], Field(max_length=MAX_FIELDS)] = {}
    rules: Rules = ()
    children: Mapping[Word, ChildCount] = {}
    describe: Template | None = None
    agent: NodeAgent = NodeAgent()


class BlueprintSpec(Closed):
    """A blueprint's whole content. Its digest names it; `version` is for people."""

    blueprint: BlueprintName
    version: Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)] = 1
    description: Text = ""
    root: Word
    agent: NodeAgent = NodeAgent()
    components: Annotated[Mapping[Word, Component], Field(min_length=1, max_length=MAX_COMPONENTS)]

    def settings(self, component: str) -> NodeAgent:
        """How the agents of this component work: what it says itself before what the blueprint says for all."""
        own = self.components[component].agent
        own_settings = {name: getattr(own, name) for name in own.model_fields_set}
        return self.agent.model_copy(update=own_settings)

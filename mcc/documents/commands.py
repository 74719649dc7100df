"""The commands that change a document: visible ones (agents' tools), those for people only, and internal ones."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainValidator, StringConstraints, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from mcc.contracts.blueprints import SpecName
from mcc.contracts.documents import RuleError
from mcc.contracts.generation import NodePath
from mcc.contracts.shape import LIST_AS_TUPLE, Closed, JsonObject, Text
from mcc.contracts.similar import did_you_mean
from mcc.documents.change import DispatchRefused
from mcc.documents.node import RuleVerdict
from mcc.rules.mistakes import mistakes

MAX_VALUES = 250_000
"""Most characters of the values of one command, as JSON."""

CHILDREN = "children"
"""Names the list of children and its order among the fields that can be accepted and released."""


def _values(value: object) -> Any:
    if not isinstance(value, Mapping):
        raise PydanticCustomError("dict_type", "Input should be an object")
    try:
        text = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PydanticCustomError("no_json", "Input should be plain JSON, without infinite numbers") from error
    if len(text) > MAX_VALUES:
        raise PydanticCustomError("too_long", f"All values of a command have at most {MAX_VALUES:,} characters")
    # A copy, so that a caller that later mutates its values does not change the document.
    return json.loads(text)


def _at_least_one(value: object) -> Any:
    values = _values(value)
    if not values:
        raise PydanticCustomError("too_short", "Name at least one field")
    return values


Values = Annotated[Mapping[str, Any], PlainValidator(_values), WithJsonSchema({"type": "object"})]
SomeValues = Annotated[
    Mapping[str, Any], PlainValidator(_at_least_one), WithJsonSchema({"type": "object", "minProperties": 1})
]
Position = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
"""Position among the children of a node, from 1; anything beyond the last one means the end."""

FieldName = Annotated[str, StringConstraints(max_length=100)]
"""A field ("props.minutes", or "minutes" where only one section has it), or "children"."""


class AnyCommand(Closed):
    """The base of all commands; each names itself in its field `command`."""


class SetValue(AnyCommand):
    """Set properties of this node; null takes a value away."""

    command: Literal["set_value"] = "set_value"
    node: NodePath
    values: SomeValues


class SetMetadata(AnyCommand):
    """Set metadata of this node; null takes a value away."""

    command: Literal["set_metadata"] = "set_metadata"
    node: NodePath
    values: SomeValues


class AddChild(AnyCommand):
    """Add a child to this node."""

    command: Literal["add_child"] = "add_child"
    node: NodePath
    component: SpecName
    metadata: Values = Field(default_factory=dict)
    values: Values = Field(default_factory=dict)
    position: Position | None = None


class RemoveChild(AnyCommand):
    """Remove a child with all that is below it."""

    command: Literal["remove_child"] = "remove_child"
    node: NodePath


class MoveChild(AnyCommand):
    """Move a child to another position among its siblings."""

    command: Literal["move_child"] = "move_child"
    node: NodePath
    position: Position
    parent: NodePath | None = None


class Undo(AnyCommand):
    """Undo the last change of this principal that is not undone yet."""

    command: Literal["undo"] = "undo"


class Redo(AnyCommand):
    """Redo the change that this principal undid last."""

    command: Literal["redo"] = "redo"


class Accept(AnyCommand):
    """Hold the present values of these fields, or of all that are set: generation no longer changes them."""

    command: Literal["accept"] = "accept"
    node: NodePath
    fields: Annotated[tuple[FieldName, ...], Field(max_length=1_000)] | None = None


class Release(AnyCommand):
    """Return held values to the generator: those of these fields, or all."""

    command: Literal["release"] = "release"
    node: NodePath
    fields: Annotated[tuple[FieldName, ...], Field(max_length=1_000)] | None = None


class Select(AnyCommand):
    """Look at a node. It changes nothing."""

    command: Literal["select"] = "select"
    node: NodePath


class Judged(Closed):
    """The verdict of a rule that dispatch cannot judge itself, as it needs tool receipts or runs foreign code.

    `below` as in a `RuleVerdict`.
    """

    rule: str
    ok: bool | None
    message: Text = ""
    below: Annotated[tuple[tuple[str, Text], ...], LIST_AS_TUPLE] = ()

    @classmethod
    def of(cls, verdict: RuleVerdict) -> "Judged":
        return cls(rule=verdict.rule, ok=verdict.ok, message=verdict.message, below=verdict.below)


class RunFailure(Closed):
    """Why a run did not pass its gate; `errors` are those of its last check."""

    reason: str
    message: Text
    errors: tuple[RuleError, ...] = ()


class Settle(AnyCommand):
    """Record the end of a run of the node's agent: the stamp of its prompt, and its failure if it did not pass.

    Sent only by the generator. `summary` None keeps the present one. `verdicts` are those of evidence and function
    rules in the run's last check.
    """

    command: Literal["settle"] = "settle"
    node: NodePath
    role: Literal["node", "metadata"]
    asked: str
    inputs: JsonObject
    rules: str | None = None
    summary: Text | None = None
    failure: RunFailure | None = None
    verdicts: tuple[Judged, ...] = ()
    order_id: str | None = None
    record_id: str | None = None


class Judge(AnyCommand):
    """Record verdicts of function rules that were judged outside of a transaction, on the document at `version`.

    Sent only by the service. Verdicts on nodes that changed since that version are ignored.
    """

    command: Literal["judge"] = "judge"
    version: int
    verdicts: Mapping[str, tuple[Judged, ...]]


class Instruct(AnyCommand):
    """Set the brief that all agents of the document get from now on. Sent only by the generator."""

    command: Literal["instruct"] = "instruct"
    brief: Text


VisibleCommand: TypeAlias = SetValue | SetMetadata | AddChild | RemoveChild | MoveChild
HiddenCommand: TypeAlias = Undo | Redo | Accept | Release | Select
InternalCommand: TypeAlias = Settle | Judge | Instruct
Command: TypeAlias = VisibleCommand | HiddenCommand | InternalCommand

VISIBLE: tuple[type[AnyCommand], ...] = (SetValue, SetMetadata, AddChild, RemoveChild, MoveChild)
HIDDEN: tuple[type[AnyCommand], ...] = (Undo, Redo, Accept, Release, Select)
FROM_OUTSIDE: Mapping[str, type[AnyCommand]] = {one.model_fields["command"].default: one for one in (*VISIBLE, *HIDDEN)}

_BOUND = ("set_value", "set_metadata", "add_child")
"""Commands in which an agent bound to a node may leave the node out."""


def commands_of(given: object, node: str | None = None) -> tuple[Command, ...]:
    """Parse one or several commands, as JSON or typed already.

    `node` is the default for agents bound to a node. Raises `DispatchRefused` (422) with all problems.
    """
    several: Sequence[Any] = given if isinstance(given, list | tuple) else (given,)
    made: list[Command] = []
    wrong: list[str] = []
    for place, command in enumerate(several):
        if isinstance(command, AnyCommand):
            made.append(command)  # type: ignore[arg-type]
            continue
        prefix = f"commands.{place}" if len(several) > 1 else ""
        try:
            made.append(_command(command, node))
        except _Invalid as error:
            for field, message in error.found:
                name = f"{prefix}{'.' if prefix and field else ''}{field}"
                wrong.append(f"{name}: {message}".lstrip(": "))
    if wrong:
        raise DispatchRefused(422, *wrong)
    return tuple(made)


class _Invalid(Exception):
    def __init__(self, *found: tuple[str, str]) -> None:
        super().__init__()
        self.found = found


def _command(given: object, node: str | None) -> Any:
    if not isinstance(given, Mapping):
        raise _Invalid(("", "a command should be a JSON object, in braces"))
    name = given.get("command")
    if not isinstance(name, str) or name not in FROM_OUTSIDE:
        hint = did_you_mean(name, FROM_OUTSIDE) if isinstance(name, str) else ""
        raise _Invalid(
            ("command", f"there is no command {str(name)[:80]!r}{hint}; there is: {', '.join(FROM_OUTSIDE)}")
        )
    kind = FROM_OUTSIDE[name]
    values = {"node": node, **given} if node is not None and name in _BOUND else given
    surplus = [key for key in values if key not in kind.model_fields]
    if surplus:
        raise _Invalid(
            *(
                (str(key)[:80], f"{name} has nothing of this name{did_you_mean(str(key), kind.model_fields)}")
                for key in surplus
            )
        )
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _Invalid(*((mistake.field, mistake.message) for mistake in mistakes(error.errors()))) from None


def addressed(commands: Iterable[Command]) -> tuple[str, ...]:
    """The nodes that commands name, by path or id, each once."""
    found: dict[str, None] = {}
    for command in commands:
        for name in (getattr(command, "node", None), getattr(command, "parent", None)):
            if name is not None:
                found[name] = None
    return tuple(found)

"""The node of a document: its values with their provenance, rule verdicts, and the outcome of its last agent run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from mcc.contracts.documents import By as By
from mcc.contracts.documents import RuleKind as RuleKind

Role: TypeAlias = Literal["node", "metadata"]
"""Which of the two agents of a node: the one that fills its props, or the one that fills its metadata."""

ROOT = "/"


@dataclass(frozen=True, slots=True)
class Accepted:
    """By whom, and at which document version, a value was accepted."""

    version: int
    principal: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who set a value, and at which document version."""

    by: By
    version: int
    at: datetime
    order_id: str | None = None
    record_id: str | None = None
    principal: str | None = None
    asked: str | None = None
    """Digest of the agent's prompt."""
    rules: str | None = None
    """Digest of the component's rules at that time."""
    accepted: Accepted | None = None
    sources: tuple[str, ...] = ()
    """The fields that a formula or binding read, as "/path metadata.name"."""
    restores: int | None = None
    """Set when an undo or redo brought the value back: the version at which it was first set."""

    @property
    def given(self) -> int:
        """The version at which this value was first set, before any undo or redo."""
        return self.version if self.restores is None else self.restores

    @property
    def held(self) -> bool:
        """Whether generation must keep the value, because a person set or accepted it."""
        return self.accepted is not None


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The result of one rule. `ok` is None where it was not judged or cannot be (guidelines); `message` says why.

    `below`: the ids of nodes further down whose agents are to mend what is broken, each with what they are told; empty
    where that is the business of the node's own agents.
    """

    rule: str
    kind: RuleKind
    ok: bool | None
    message: str
    version: int
    below: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A held field whose node became stale: at version `since`, for the reasons in `because`."""

    since: int
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """Why the last run of one of the node's agents did not pass its gate."""

    reason: str
    message: str
    errors: tuple[Mapping[str, Any], ...]
    record_id: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Stamp:
    """The digest `asked` of an agent's prompt when it last ran, or when a person set the values in its place.

    `inputs` are the parts of document and blueprint that the prompt was built from: by name (see
    `mcc.documents.inputs.Inputs`), each with its value or digest.
    """

    asked: str
    inputs: Mapping[str, Any]
    version: int
    rules: str | None = None
    order_id: str | None = None
    record_id: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """`key` is the node's path segment: its component and a number that its parent never reuses; "" for the root.

    `version` is the document version at which a command last changed the node's values, children, place or run outcome.
    Derived changes (formulas, bindings, verdicts, conflicts) leave it as it is, so that they never cause an edit with
    an `expected_version` to be refused. `made_by` says who added the node.

    `rank` orders siblings. `metadata` and `props` have every field of the component, None where unset. `provenance` and
    `conflicts` are by field ("props.title", "metadata.focus"). `next_numbers` has, by child component, the number
    for the next child.
    """

    id: str
    parent_id: str | None
    key: str
    component: str
    rank: float
    version: int
    metadata: Mapping[str, Any]
    props: Mapping[str, Any]
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    verdicts: tuple[RuleVerdict, ...] = ()
    conflicts: Mapping[str, FieldConflict] = field(default_factory=dict)
    stamps: Mapping[Role, Stamp] = field(default_factory=dict)
    next_numbers: Mapping[str, int] = field(default_factory=dict)
    failure: NodeFailure | None = None
    summary: str = ""
    made_by: By = "agent"

    def value(self, name: str) -> Any:
        """The value of the field with this full name, such as "props.title"; None where it is unset."""
        section, _, key = name.partition(".")
        return (self.metadata if section == "metadata" else self.props).get(key)

"""Documents: what callers ask for and are answered; nodes with their provenance, verdicts and conflicts."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from mcc.contracts.answers import Problem
from mcc.contracts.generation import PATH_CHARACTERS, BlueprintRef, NodePath
from mcc.contracts.order import Identifier
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Moment, Text
from mcc.contracts.usage import Usage

By: TypeAlias = Literal[
    "person", "chat", "agent", "metadata_agent", "outline", "formula", "binding", "default", "import"
]
"""Who set a value."""

RuleKind: TypeAlias = Literal["derived", "cel", "function", "evidence", "guideline"]
NodeStatus: TypeAlias = Literal["failed", "pending", "stale", "done"]
"""From the worst to the best; a document has the worst of its nodes."""

MAX_COMMANDS = 1_000
MAX_NEW_NODES = 100_000
BLUEPRINT_BYTES = 256 * 1024

NodeName: TypeAlias = NodePath
Version = Annotated[int, Field(ge=0, le=10**15, strict=True)]


class AcceptedView(Closed):
    version: int
    principal: Text


class SetByAgent(Closed):
    """`asked`: the digest of what the agent was asked with; of a chat's, None. `rules`: that of the rules then."""

    by: Literal["chat", "agent", "metadata_agent", "outline"]
    order_id: str | None
    record_id: str | None
    version: int
    at: Moment
    asked: str | None
    rules: str | None
    accepted: AcceptedView | None


class SetByPerson(Closed):
    """By a person's hand, by an import, or by the blueprint's default; of the last one there is no principal."""

    by: Literal["person", "import", "default"]
    principal: Text | None
    version: int
    at: Moment
    asked: str | None
    rules: str | None
    accepted: AcceptedView | None


class Computed(Closed):
    """`from`: the fields that it was made of, such as "/ metadata.grade"."""

    by: Literal["formula", "binding"]
    sources: Annotated[tuple[Text, ...], Field(alias="from")]
    version: int
    at: Moment


ProvenanceView: TypeAlias = Annotated[SetByAgent | SetByPerson | Computed, Field(discriminator="by")]


class VerdictView(Closed):
    """What a rule said at this version of the document. `ok` None: it was not judged, for the reason in `message`."""

    rule: str
    kind: RuleKind
    ok: bool | None
    message: Text
    version: int


class ConflictView(Closed):
    """A held field whose node would be asked something else by now; `because` says what changed."""

    field: str
    since: int
    because: tuple[Text, ...]


class RuleError(Closed):
    """A rule that does not hold; `field` is None for rules of the component and of the count of its children."""

    node: Text
    field: str | None
    rule: str
    message: Text


class FailureView(Closed):
    """How the last run of the node's agents ended without a pass; `errors` are what its last check said."""

    reason: str
    message: Text
    errors: tuple[RuleError, ...]
    record_id: str | None
    at: Moment


class NodeView(Closed):
    """A node. `version` is that of the document at which it last changed, `position` its place among its siblings.

    `pending`: the fields ("props.title") that miss a value or break a rule, the children that are too few or too many
    ("children.lesson"), and the rules of the component that do not hold ("rules[0]"). `metadata` and `props` have every
    field, None where unset; `provenance` is by field ("props.title"), for those that somebody set.
    """

    id: str
    path: Text
    parent: Text | None
    component: str
    position: int
    children: tuple[Text, ...]
    version: int
    status: NodeStatus
    pending: tuple[str, ...]
    stale_because: tuple[Text, ...]
    metadata: JsonObject
    props: JsonObject
    provenance: Mapping[str, ProvenanceView]
    verdicts: tuple[VerdictView, ...]
    conflicts: tuple[ConflictView, ...]
    failure: FailureView | None
    summary: Text


class Counts(Closed):
    """Nodes by status, and the fields of all nodes that are in conflict."""

    pending: int = 0
    done: int = 0
    stale: int = 0
    failed: int = 0
    conflicts: int = 0


class PinnedBlueprint(Closed):
    """The blueprint that a document is pinned to, by its digest."""

    name: str
    version: int
    digest: str


class DocumentSummary(Closed):
    """A document without its nodes. `order_id`: the unfinished order that generates it, if there is one."""

    id: str
    title: Text
    blueprint: PinnedBlueprint
    version: int
    status: NodeStatus
    counts: Counts
    order_id: str | None
    created_at: Moment
    updated_at: Moment


class DocumentView(DocumentSummary):
    """A document with a page of its nodes, depth first; `next_cursor` asks for the next page."""

    next_cursor: str | None
    nodes: tuple[NodeView, ...]


_FOLLOWS = frozenset(NodeView.model_fields) - {"path", "component", "metadata", "props", "summary"}


class NewNode(Closed):
    """A node to begin with: its path and values. One of an export will do: what follows from the rest is made anew.

    Without `component` it is what the last part of its path says ("/lesson-2": a lesson).
    """

    path: Annotated[str, StringConstraints(pattern=r"^/", max_length=PATH_CHARACTERS)]
    component: Annotated[str, StringConstraints(max_length=64)] | None = None
    metadata: JsonObject = Field(default_factory=dict)
    props: JsonObject = Field(default_factory=dict)
    summary: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _given(cls, value: Any) -> Any:
        return {key: value[key] for key in value if key not in _FOLLOWS} if isinstance(value, Mapping) else value


class NewDocument(Closed):
    """`metadata` is the root's, held; `nodes`: what the document begins with, parents before their children."""

    blueprint: BlueprintRef
    metadata: JsonObject = Field(default_factory=dict)
    nodes: Annotated[tuple[NewNode, ...], Field(max_length=MAX_NEW_NODES)] = ()


class NewCommands(Closed):
    """Commands that are applied in turn, all or none. With `expected_version` they are refused when a node that they
    name changed after it."""

    commands: Annotated[tuple[JsonObject, ...], Field(min_length=1, max_length=MAX_COMMANDS)]
    expected_version: Version | None = None


class CommandsDone(Closed):
    """`changed` and `made` are paths."""

    version: int
    changed: tuple[Text, ...]
    made: tuple[Text, ...]
    status: NodeStatus


class VersionConflict(Problem):
    """The document is at `version`, and these nodes changed after the version that was expected."""

    version: int
    changed: tuple[Text, ...]


class HistoryItem(Closed):
    """A command that was done; `fields` has the values before and after it, by "props.minutes"."""

    version: int
    at: Moment
    by: By
    principal: Text | None
    order_id: str | None
    record_id: str | None
    command: str
    node: Text
    fields: Mapping[str, tuple[JsonAny, JsonAny]]


class NodeDiff(Closed):
    """What differs of a node. `path` is where it is at the later version, of a removed one where it was; `before` is
    its earlier path where it has moved. `fields` has its values at both versions, where they differ."""

    id: str
    path: Text
    before: Text | None
    component: str
    change: Literal["added", "removed", "changed", "moved"]
    fields: Mapping[str, tuple[JsonAny, JsonAny]]


class DocumentDiff(Closed):
    """The nodes that differ between two versions of a document, depth first, removed ones at the end."""

    document_id: str
    since: Annotated[int, Field(alias="from")]
    to: int
    nodes: tuple[NodeDiff, ...]


class NewBlueprint(Closed):
    """A blueprint's file, as YAML or JSON."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=BLUEPRINT_BYTES)]


class KeptBlueprint(Closed):
    """`digest` is over the content; `components` are its names."""

    name: str
    digest: str
    components: tuple[str, ...]


class BlueprintSummary(KeptBlueprint):
    """`origin`: whether it ships, is a file of the operator's, or was handed to the service."""

    version: int
    description: Text
    origin: Literal["shipped", "operator", "kept"]


class BlueprintDetail(BlueprintSummary):
    """`content` is the whole blueprint as the digest counts it."""

    root: str
    content: JsonObject


class ChangeOfBlueprint(Closed):
    blueprint: BlueprintRef


class BlueprintChanged(Closed):
    """`stale`: paths of the nodes whose agents would be asked something else. `dropped`: the nodes ("/lesson-2") and
    fields ("/lesson-1 props.level") for which the other blueprint has no place."""

    stale: tuple[Text, ...]
    dropped: tuple[Text, ...]
    version: int


class GenerateResult(Closed):
    """`result` of a generate order; `failed` are paths."""

    document_id: Identifier
    version: int
    counts: Counts
    failed: tuple[Text, ...]


class GateAnswer(Closed):
    """What `done` and `validate` answer to a node's agent."""

    ok: bool
    errors: tuple[RuleError, ...]
    message: Text


class NodeExample(Closed):
    """A line of the data set: what a node's agent was asked with, and what came of it. `system` and `task` are what it
    would be asked with today; `model` and `usage` are known where the order's record is."""

    document_id: str
    version: int
    path: Text
    component: str
    system: Text
    task: Text
    metadata: JsonObject
    props: JsonObject
    verdicts: tuple[VerdictView, ...]
    provenance: Mapping[str, ProvenanceView]
    model: str | None
    usage: Usage | None

"""Documents over the API: requests, views of nodes with provenance, verdicts and conflicts, diffs, blueprints."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from mcc.contracts.answers import Problem
from mcc.contracts.generation import PATH_CHARACTERS, BlueprintRef
from mcc.contracts.shape import Closed, Identifier, JsonAny, JsonObject, Moment, Text
from mcc.contracts.usage import Usage

By: TypeAlias = Literal[
    "person", "chat", "agent", "metadata_agent", "outline", "formula", "binding", "default", "import"
]
"""Who set a value."""

StepBy: TypeAlias = By | Literal["rule"]
"""Who made a step of the history; `rule`: it is a verdict."""

RuleKind: TypeAlias = Literal["derived", "cel", "function", "evidence", "guideline"]
NodeStatus: TypeAlias = Literal["failed", "pending", "stale", "done"]
"""From worst to best; a document has the worst status of its nodes."""

MAX_COMMANDS = 1_000
MAX_NEW_NODES = 100_000
BLUEPRINT_BYTES = 256 * 1024

Version = Annotated[int, Field(ge=0, le=10**15, strict=True)]


class AcceptedView(Closed):
    version: int
    principal: Text


class SetByAgent(Closed):
    """`asked`: digest of the request to the agent, None for a chat agent. `rules`: digest of the rules at that time."""

    by: Literal["chat", "agent", "metadata_agent", "outline"]
    order_id: str | None
    record_id: str | None
    version: int
    at: Moment
    asked: str | None
    rules: str | None
    accepted: AcceptedView | None


class SetByPerson(Closed):
    """Set by a person, by an import, or by the blueprint's default; a default has no principal."""

    by: Literal["person", "import", "default"]
    principal: Text | None
    version: int
    at: Moment
    asked: str | None
    rules: str | None
    accepted: AcceptedView | None


class Computed(Closed):
    """`from`: the fields that the value is computed from, such as "/ metadata.grade"."""

    by: Literal["formula", "binding"]
    sources: Annotated[tuple[Text, ...], Field(alias="from")]
    version: int
    at: Moment


ProvenanceView: TypeAlias = Annotated[SetByAgent | SetByPerson | Computed, Field(discriminator="by")]


class VerdictView(Closed):
    """The outcome of a rule at this version of the document. `ok` None: not evaluated, for the reason in `message`."""

    rule: str
    kind: RuleKind
    ok: bool | None
    message: Text
    version: int


class ConflictView(Closed):
    """A held field whose node's agent would get a different request today; `because` says what changed."""

    field: str
    since: int
    because: tuple[Text, ...]


class RuleError(Closed):
    """A rule that does not hold; `field` is None for rules on the component or on the count of its children."""

    node: Text
    field: str | None
    rule: str
    message: Text


class FailureView(Closed):
    """Why the last run of the node's agents did not pass; `errors` are those of its last check."""

    reason: str
    message: Text
    errors: tuple[RuleError, ...]
    record_id: str | None
    at: Moment


class NodeView(Closed):
    """A node. `version` is the document's version at the node's last change, `position` its place among its siblings.

    `pending`: the fields ("props.title") that lack a value or break a rule, the components with too few or too many
    children ("children.lesson"), and the rules of the component that do not hold ("rules[0]"). `metadata` and `props`
    have every field, None if unset. `provenance` is by field ("props.title"), for fields that have been set.
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
    """Number of nodes by status, and of fields in conflict over all nodes."""

    pending: int = 0
    done: int = 0
    stale: int = 0
    failed: int = 0
    conflicts: int = 0


class PinnedBlueprint(Closed):
    """The blueprint content that a document is pinned to, by its digest."""

    name: str
    version: int
    digest: str


class DocumentSummary(Closed):
    """A document without its nodes. `order_id`: the unfinished order that generates it, if any. `principal`, `door`,
    `token`: who made it, as `WorkOrder` says it."""

    id: str
    title: Text
    blueprint: PinnedBlueprint
    version: int
    status: NodeStatus
    counts: Counts
    order_id: str | None
    created_at: Moment
    updated_at: Moment
    principal: str | None = None
    door: str | None = None
    token: Text | None = None


class DocumentView(DocumentSummary):
    """A document with a page of its nodes, depth first; pass `next_cursor` to get the next page."""

    next_cursor: str | None
    nodes: tuple[NodeView, ...]


_COMPUTED_FIELDS = frozenset(NodeView.model_fields) - {"path", "component", "metadata", "props", "summary"}


class NewNode(Closed):
    """A node of a new document: its path and values. An exported node is accepted; its computed fields are ignored.

    Without `component`, the last part of the path names it ("/lesson-2": a lesson).
    """

    path: Annotated[str, StringConstraints(pattern=r"^/", max_length=PATH_CHARACTERS)]
    component: Annotated[str, StringConstraints(max_length=64)] | None = None
    metadata: JsonObject = Field(default_factory=dict)
    props: JsonObject = Field(default_factory=dict)
    summary: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: value[key] for key in value if key not in _COMPUTED_FIELDS}


class NewDocument(Closed):
    """`metadata` is set on the root and held; `nodes` are the document's first nodes, parents before children."""

    blueprint: BlueprintRef
    metadata: JsonObject = Field(default_factory=dict)
    nodes: Annotated[tuple[NewNode, ...], Field(max_length=MAX_NEW_NODES)] = ()


class NewCommands(Closed):
    """Commands that are applied in sequence, all or none. `expected_version`: refuse them if a node that they name
    changed after that version."""

    commands: Annotated[tuple[JsonObject, ...], Field(min_length=1, max_length=MAX_COMMANDS)]
    expected_version: Version | None = None


class CommandsDone(Closed):
    """`changed` and `made` are the paths of the nodes that the commands changed and created."""

    version: int
    changed: tuple[Text, ...]
    made: tuple[Text, ...]
    status: NodeStatus


class VersionConflict(Problem):
    """The document is at `version`, and the nodes `changed` did so after the expected version."""

    version: int
    changed: tuple[Text, ...]


class HistoryItem(Closed):
    """An applied command; `fields` maps a field ("props.minutes") to its values before and after."""

    version: int
    at: Moment
    by: StepBy
    principal: Text | None
    door: str | None = None
    order_id: str | None
    record_id: str | None
    command: str
    node: Text
    fields: Mapping[str, tuple[JsonAny, JsonAny]]


class NodeDiff(Closed):
    """How a node differs between two versions. `path` is its path at the later version, or its last one if it was
    removed; `before` is the earlier path of a node that moved. `fields` maps each changed field to its two values."""

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
    """`digest` covers the content; `components` are the names of its components."""

    name: str
    digest: str
    components: tuple[str, ...]


class BlueprintSummary(KeptBlueprint):
    """`origin`: it ships with MCC, is a file of the operator, or was uploaded to the service (`kept`)."""

    version: int
    description: Text
    origin: Literal["shipped", "operator", "kept"]


class BlueprintDetail(BlueprintSummary):
    """`content` is the whole blueprint, as covered by the digest."""

    root: str
    content: JsonObject


class ChangeOfBlueprint(Closed):
    blueprint: BlueprintRef


class BlueprintChanged(Closed):
    """`stale`: paths of the nodes whose agents would get a different request. `dropped`: the nodes ("/lesson-2") and
    fields ("/lesson-1 props.level") that the new blueprint does not have."""

    stale: tuple[Text, ...]
    dropped: tuple[Text, ...]
    version: int


class GenerateResult(Closed):
    """The `result` of a generate order; `failed` holds the paths of failed nodes."""

    document_id: Identifier
    version: int
    counts: Counts
    failed: tuple[Text, ...]


class GateAnswer(Closed):
    """The result of the tools `done` and `validate` for a node's agent."""

    ok: bool
    errors: tuple[RuleError, ...]
    message: Text


class NodeExample(Closed):
    """A line of the data set: the request to a node's agent, and its outcome. `system` and `task` are the request as it
    would be made today; `model` and `usage` are None when the order's record is gone."""

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

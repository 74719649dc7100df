"""Samples of requests and responses about documents and blueprints, with every field filled."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import BaseModel

from mcc.contracts.documents import (
    AcceptedView,
    BlueprintChanged,
    BlueprintDetail,
    BlueprintSummary,
    ChangeOfBlueprint,
    CommandsDone,
    Computed,
    ConflictView,
    Counts,
    DocumentDiff,
    DocumentSummary,
    DocumentView,
    FailureView,
    GateAnswer,
    GenerateResult,
    HistoryItem,
    KeptBlueprint,
    NewBlueprint,
    NewCommands,
    NewDocument,
    NewNode,
    NodeDiff,
    NodeExample,
    NodeView,
    PinnedBlueprint,
    ProvenanceView,
    RuleError,
    SetByAgent,
    SetByPerson,
    VerdictView,
    VersionConflict,
)
from mcc.contracts.usage import Usage

AT = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)
DOCUMENT_ID = "0199a3c0-0000-7000-8000-000000000001"
NODE_ID = "0199a3c1-0000-7000-8000-000000000002"
ORDER_ID = "0199a3c2-0000-7000-8000-000000000003"
DIGEST = "sha256:" + "ab" * 32
ODD = "lone \ud800, NUL \x00, ‮right to left, <script>"

BECAUSE = ("/ metadata.grade, 7 → 8 at version 42",)
METADATA = {"focus": "Chlorophyll"}
PROPS = {"grade": 8, "minutes": 45, "source": None, "headline": ODD}
VERDICTS = (
    VerdictView(rule="props.minutes.rules[0]", kind="cel", ok=True, message="", version=37),
    VerdictView(rule="props.source.rules[0]", kind="evidence", ok=None, message="No agent set this value.", version=37),
)
PROVENANCE: dict[str, ProvenanceView] = {
    "props.minutes": SetByAgent(
        by="agent", order_id=ORDER_ID, record_id="r", version=31, at=AT, asked=DIGEST, rules=DIGEST, accepted=None
    ),
    "metadata.focus": SetByPerson(
        by="person",
        principal="token",
        version=37,
        at=AT,
        asked=None,
        rules=DIGEST,
        accepted=AcceptedView(version=37, principal="token"),
    ),
    "props.grade": Computed(by="binding", sources=("/ metadata.grade",), version=42, at=AT),
}
ERROR = RuleError(
    node="/lesson-2", field="props.minutes", rule="props.minutes.required", message="props.minutes is required"
)
FAILURE = FailureView(reason="gate_failed", message=ODD, errors=(ERROR,), record_id="r", at=AT)
COUNTS = Counts(pending=1, done=6, stale=2, failed=3, conflicts=4)
SUMMARY = DocumentSummary(
    id=DOCUMENT_ID,
    title="Photosynthesis",
    blueprint=PinnedBlueprint(name="course", version=2, digest=DIGEST),
    version=42,
    status="failed",
    counts=COUNTS,
    order_id=ORDER_ID,
    created_at=AT,
    updated_at=AT,
)
NODE = NodeView(
    id=NODE_ID,
    path="/lesson-2",
    parent="/",
    component="lesson",
    position=2,
    children=("/lesson-2/activity-1",),
    version=37,
    status="failed",
    pending=("props.source",),
    stale_because=BECAUSE,
    metadata=METADATA,
    props=PROPS,
    provenance=PROVENANCE,
    verdicts=VERDICTS,
    conflicts=(ConflictView(field="metadata.focus", since=42, because=BECAUSE),),
    failure=FAILURE,
    summary="Light, pigments, why leaves are green.",
)
BLUEPRINT = BlueprintDetail(
    name="course",
    digest=DIGEST,
    components=("course", "lesson"),
    version=2,
    description="A course.",
    origin="shipped",
    root="course",
    content={"blueprint": "course", "root": "course"},
)

DOCUMENTS: Mapping[str, BaseModel] = {
    "document": DocumentView(**dict(SUMMARY), next_cursor="next", nodes=(NODE,)),
    "document-summary": SUMMARY,
    "new-document": NewDocument(
        blueprint="course:abababababab",
        metadata=METADATA,
        nodes=(
            NewNode(path="/lesson-2", component="lesson", metadata=METADATA, props=PROPS, summary="Light."),
            NewNode(path="/lesson-3"),
        ),
    ),
    "new-commands": NewCommands(
        commands=({"command": "set_value", "node": "/lesson-2", "values": {"minutes": 40}},), expected_version=42
    ),
    "commands-done": CommandsDone(version=43, changed=("/lesson-2",), made=("/lesson-3",), status="done"),
    "version-conflict": VersionConflict(
        title="Conflict", status=409, detail="Two nodes changed.", version=43, changed=("/lesson-2", "/")
    ),
    "history-item": HistoryItem(
        version=43,
        at=AT,
        by="person",
        principal="token",
        order_id=ORDER_ID,
        record_id="r",
        command="set_value",
        node="/lesson-2",
        fields={"props.minutes": (45, 40), "props.source": (None, ODD)},
    ),
    "document-diff": DocumentDiff(
        document_id=DOCUMENT_ID,
        since=42,
        to=43,
        nodes=(
            NodeDiff(
                id=NODE_ID,
                path="/lesson-2",
                before="/lesson-1",
                component="lesson",
                change="moved",
                fields={"props.minutes": (45, None)},
            ),
        ),
    ),
    "new-blueprint": NewBlueprint(text="blueprint: course"),
    "kept-blueprint": KeptBlueprint(name="course", digest=DIGEST, components=("course", "lesson")),
    "blueprint-summary": BlueprintSummary(
        name="course", digest=DIGEST, components=("course",), version=2, description=ODD, origin="operator"
    ),
    "blueprint-detail": BLUEPRINT,
    "change-of-blueprint": ChangeOfBlueprint(blueprint="course"),
    "blueprint-changed": BlueprintChanged(stale=("/lesson-1",), dropped=("/lesson-1 props.level",), version=44),
    "generate-result": GenerateResult(document_id=DOCUMENT_ID, version=44, counts=COUNTS, failed=("/lesson-2",)),
    "gate-answer": GateAnswer(ok=False, errors=(ERROR,), message="1 rule does not hold. Mend it and call done again."),
    "node-example": NodeExample(
        document_id=DOCUMENT_ID,
        version=42,
        path="/lesson-2",
        component="lesson",
        system="You write lessons.",
        task="Write it.",
        metadata=METADATA,
        props=PROPS,
        verdicts=VERDICTS,
        provenance=PROVENANCE,
        model="openai/gpt-5",
        usage=Usage(input_tokens=10, output_tokens=5, model_calls=1, cost_usd=None),
    ),
}

"""One sample of every contract, with every field filled; the golden files hold their JSON."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import BaseModel

from mcc.contracts.agents import AgentDefinition, DefinitionOrigin
from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.blocks import (
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    RedactedBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    call_block,
)
from mcc.contracts.compaction import (
    CarriedWords,
    CheckedSummary,
    Clipped,
    CompactedParts,
    KeptFrom,
    TranscriptCompacted,
)
from mcc.contracts.control import Control, ControlKind, ControlOfBatch, NewControl, NewControls, Receipt
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.drones import Capability, Drone, DroneStatus, Registration, SandboxState, Walls
from mcc.contracts.entry import Entry
from mcc.contracts.fact import Fact
from mcc.contracts.generation import Generation, Quorum
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade, WorktreeState
from mcc.contracts.inbox_facts import (
    ApprovalDecided,
    ApprovalRequested,
    QuestionAnswered,
    QuestionAsked,
    ShownPreview,
)
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    BudgetWarned,
    ControlApplied,
    DocumentChanged,
    GateChecked,
    Outcome,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
    WorkspaceCheckpointed,
    WorkspaceHeld,
)
from mcc.contracts.limits import AgentLimits, LimitChoice, Limits
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted, Prefix
from mcc.contracts.order import (
    EarlierTurn,
    ModelSettings,
    NewFork,
    NewOrder,
    OrderKind,
    OrderOrigin,
    Rule,
    Verification,
    WhenBusy,
    WorkOrder,
)
from mcc.contracts.order import OrderOutcome as OrderOutcome
from mcc.contracts.order_facts import (
    Forked,
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.permission import SavedRule, Why
from mcc.contracts.questions import OneAnswer, OneQuestion, SessionWords
from mcc.contracts.record import (
    ChatRecord,
    GateStep,
    ModelChoice,
    ModelStep,
    NoteStep,
    RecordStatus,
    SteerStep,
    ToolStep,
    VerifyStep,
)
from mcc.contracts.sessions import NewSession, Session
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.turn_context import TurnContext
from mcc.contracts.usage import Usage
from mcc.contracts.waits import WaitsFor
from mcc.contracts.wire import Delta, GenerationProgress, Hint, Progress, Wake
from mcc.store.rows.audit import AuditNote
from tests.mcc.contracts.document_samples import DOCUMENTS

AT = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)
LATER = datetime(2026, 1, 31, 12, 1, tzinfo=UTC)
ORDER_ID = "01900000-0000-7000-8000-000000000001"
SESSION_ID = "01900000-0000-7000-8000-000000000002"
DOCUMENT_ID = "01900000-0000-7000-8000-000000000003"
INCARNATION = "01900000-0000-7000-8000-000000000004"
ROOT, CHILD, CALL = "root-record", "child-record", "call-1"
ODD = 'NUL \x00, half a pair \ud83d, an emoji 😀, a quote ", a tab \t, a line end \n'

USAGE = Usage(
    input_tokens=1_200,
    cached_input_tokens=1_000,
    cache_write_tokens=50,
    output_tokens=300,
    reasoning_tokens=100,
    model_calls=2,
    tool_calls=1,
    cost_usd=0.0125,
)
LIMITS = Limits(
    rounds=10,
    parallel_tool_calls=4,
    subagent_rounds=6,
    tool_calls=20,
    output_tokens=5_000,
    subagent_output_tokens=1_000,
    input_tokens=80_000,
    cached_input_tokens=60_000,
    reasoning_tokens=3_000,
    total_tokens=100_000,
    cost_usd=1.5,
    wall_seconds=600,
    depth=2,
    subagents_per_call=3,
    spawns=8,
    concurrency=2,
    model_call_seconds=60,
    tool_seconds=30,
    warn_share=0.5,
)
CHOICE = ModelChoice(requested="fast", effective="openai/qwen3-coder")
ASKED = ModelSettings(thinking="high", temperature=0.5, max_output_tokens=9_000, service_tier="flex")
ORIGIN = DefinitionOrigin(scope="workspace", path=".mcc/agents/scout.md")
TOOL_CALL = ToolCall(call_id=CALL, provider_id="toolu_1", name="read_file", arguments={"path": "README.md"})

FACTS: tuple[Fact, ...] = (
    OrderQueued(
        session_id=SESSION_ID,
        session_seq=1,
        agent="master",
        queue="default",
        priority=5,
        model="fast",
        workspace="/srv/häuser",
        not_before=LATER,
        metadata={"ticket": "OPS-17"},
        retry_of=ORDER_ID,
        forked=Forked(order_id=ORDER_ID, after=9, until=7),
        words=(SessionWords(at=AT, text="The second one.", question="Which one?", by="operator"),),
    ),
    OrderClaimed(attempt=1, epoch=1, drone="drone-1", incarnation=INCARNATION),
    OrderRequeued(epoch=2, lost=INCARNATION, message="The drone was lost."),
    OrderHandedBack(epoch=3, drone="drone-1", message="The drone was told to stop."),
    OrderWaiting(reason=WaitingReason.APPROVAL, message="Somebody must approve.", until=LATER, found="0f3c"),
    OrderResumed(message="It was approved."),
    OrderFinished(status=OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR, detail="The key is wrong.", usage=USAGE),
    AgentStarted(
        title="Look around",
        node="/lesson-2",
        call_id=CALL,
        continues=ROOT,
        forked_from="another-record",
        prompt="Find the entry points.",
        environment="Your limits: 8 rounds.",
        attachments=(
            ShownAttachment(
                id=ROOT,
                name="shot.png",
                text="[attachment 1: shot.png, image/png, 812×640, ffffffffffffffff]",
                image=ImageBlock(artifact="f" * 64, media_type="image/png", name="shot.png", width=812, height=640),
                artifact="d" * 64,
            ),
        ),
        model=CHOICE,
        model_settings=ASKED,
        tools=("list_files", "read_file", "submit_result"),
        finish_tools=("submit_result",),
        tools_requested=("workspace_read",),
        limits=LimitChoice(requested=AgentLimits(rounds=10), effective=AgentLimits(rounds=8, tool_calls=0)),
        definition_digest="d" * 64,
        definition_origin=ORIGIN,
        setup_digest="e" * 64,
        setup_key="k" * 64,
        context=TurnContext(
            mode="full",
            base="b" * 64,
            turns=("an-earlier-order",),
            messages=7,
            tokens=512,
            digest="c" * 64,
            environment={"git": "a" * 64},
        ),
        tainted=True,
    ),
    AgentStep(
        name="model_failed", message="It broke off.", usage=USAGE, in_results=True, pictures=("f" * 64,), why="cold"
    ),
    AgentReused(message="And now the tests.", turn=2),
    AgentFinished(
        status=RecordStatus.COMPLETED,
        answer="Done.",
        result={"status": "completed"},
        error="none",
        cause="limit",
        limit="rounds",
    ),
    ModelStarted(
        round=1,
        attempt=2,
        model="openai/qwen3-coder",
        reserved_tokens=4_000,
        reserved_output_tokens=500,
        reserved_usd=0.02,
    ),
    ModelReplied(
        round=1,
        attempt=2,
        model="openai/qwen3-coder",
        blocks=(
            ThinkingBlock(text="Hm.", signature="c2ln"),
            RedactedBlock(data="c2VhbGVk"),
            TextBlock(text=ODD, extra={"thought_signature": "c2ln"}),
            call_block(TOOL_CALL),
            RefusalBlock(text="No."),
            ImageBlock(artifact="a1", media_type="image/png", name="plot.png"),
            FileBlock(artifact="a2", media_type="application/pdf", name="paper.pdf"),
            OpaqueBlock(data={"type": "reasoning", "encrypted_content": "c2VhbGVk"}),
        ),
        request_id="req_1",
        prefix=Prefix(same_bytes=900, bytes=1_000, digest="c" * 32),
        context_tokens=200_000,
        finish_reason="tool_calls",
        usage=USAGE,
        first_token_ms=12.5,
        seconds=1.25,
    ),
    ModelRetried(round=1, attempt=1, model="openai/qwen3-coder", error="429", wait_seconds=2.0),
    ModelFellBack(round=1, source="openai/a", target="anthropic/b", error="It is away."),
    ToolStarted(
        call_id=CALL,
        provider_id="toolu_1",
        round=1,
        index=0,
        name="read_file",
        arguments={"path": "README.md", "lines": [1, 2.5, None, True]},
        idempotent=True,
        approval_id="approval-1",
    ),
    ToolFinished(
        call_id=CALL,
        name="read_file",
        content=ODD,
        is_error=True,
        outcome=Outcome.TIMEOUT,
        seconds=0.5,
        subagent_ids=(CHILD,),
        artifact="f" * 64,
        untrusted=True,
        images=(ImageBlock(artifact="e" * 64, media_type="image/png", name="logo.png", width=640, height=480),),
        exit_code=2,
        found=("tracker__create_issue",),
        files={"src/a.py": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        job="job-1",
        tainted=True,
        background=(CHILD,),
        delivered=(CHILD,),
    ),
    GateChecked(
        tool="validate",
        attempt=1,
        ok=False,
        check_only=True,
        errors=("It names no finding.", "It broke."),
        faults=("It broke.",),
        warnings=("findings[0].paths is not a property here and was taken for path",),
    ),
    VerifyChecked(
        verifier="verify",
        verifier_id=CHILD,
        revision=1,
        passed=False,
        points=("Say which colour.",),
        error="none",
        message="Not accepted yet.",
        model="openai/qwen3-coder",
        usage=USAGE,
    ),
    BudgetWarned(limit="rounds", used=7, allowed=10, message="Come to an end.", landing=True, in_results=True),
    TranscriptCompacted(
        stage="summary",
        reason="background",
        message="Much was read.",
        clipped=(Clipped(call_id=CALL, kept=2_000, characters=80_000, artifact="f" * 64),),
        cleared_call_ids=(CALL,),
        cut_call_ids=(CALL,),
        kept_from=KeptFrom(order_id=ORDER_ID, seq=41),
        kept_messages=4,
        summary="# Earlier in this conversation",
        parts=CompactedParts(
            words=(CarriedWords(text="Look.", place="1/1"),), agents=("scout: completed",), kept=("Only read.",)
        ),
        checklist=CheckedSummary(kept=12, missing=3, attempts=2),
        window_tokens=32_768,
        tokens_before=40_000,
        tokens_after=20_500,
        model="openai/qwen3-coder",
        usage=USAGE,
        record_id=CHILD,
        base="e" * 64,
    ),
    WorkspaceHeld(
        key="5b1f0c9e4f6d4a3c8f0d2b7a6e5c4d3b",
        waited_seconds=12.5,
        holder="0199a3c0-0000-7000-8000-0000000000c3",
        changed=("src/app.py",),
    ),
    WorkspaceCheckpointed(
        checkpoint_id="0199a3c0-0000-7000-8000-0000000000c1",
        call_id="0199a3c0-0000-7000-8000-0000000000c2",
        files=1204,
        bytes=183204,
        skipped=2,
    ),
    DocumentChanged(
        document_id=DOCUMENT_ID,
        version=3,
        command="set_value",
        node="/lesson-2",
        fields=("props.minutes", "props.builds_on"),
        by="metadata_agent",
        command_id="call-1",
    ),
    WorkspaceCommitted(
        call_id=CALL, commit="c" * 40, parent="b" * 40, branch="main", subject="Mend rounding", worktree=True
    ),
    WorktreeMade(child_id=CHILD, child="general", ref=f"refs/mcc/{ORDER_ID}/{CHILD}", base="a" * 40, head="b" * 40),
    WorktreeEnded(
        child_id=CHILD,
        child="general",
        ref=f"refs/mcc/{ORDER_ID}/{CHILD}",
        state=WorktreeState.CONFLICT,
        commit="d" * 40,
        conflicts=("src/a.py",),
        message="One file was changed by both.",
    ),
    ControlApplied(
        control_id="control-1",
        control="steer",
        mode="redirect",
        message="Look at the tests.",
        reason="They matter.",
        tools_removed=("read_file",),
        metadata={"ticket": "OPS-18", "owner": None},
        by="parent",
        at=AT,
    ),
    AgentDelivered(
        child_id=CHILD,
        status=RecordStatus.COMPLETED,
        content=f"<notice>Subagent {CHILD} (Look) ended: completed.</notice>\n{ODD}",
        artifact="f" * 64,
    ),
    ApprovalRequested(
        approval_id="approval-1",
        call_id=CALL,
        tool="git_commit",
        arguments={"message": "Mend rounding"},
        effects="write",
        profile="workspace-write",
        workspace="/srv/repos/shop",
        digest=f"sha256:{'a' * 64}",
        preview=ShownPreview(kind="diff", text="-a\n+b", artifact="c" * 64),
        why=Why(layer="operator", key="git_commit", when="true", message="Commits are looked at."),
        again="the preview is another one",
        would_save=SavedRule(key="git_commit", when='args.message.startsWith("Mend ")'),
        expires_at=AT,
    ),
    ApprovalDecided(
        approval_id="approval-1",
        call_id=CALL,
        decision="approve",
        note="Once.",
        by="operator",
        remember="session",
        digest=f"sha256:{'a' * 64}",
        profile="workspace-write",
        why=Why(layer="operator", key="git_commit"),
        expires_at=AT,
        control_id="control-2",
    ),
    QuestionAsked(
        question_id="question-1",
        call_id=CALL,
        question="Which one?",
        choices=("this", "that"),
        default="this",
        expires_at=AT,
        questions=(
            OneQuestion(id="which", question="Which one?", choices=("this", "that"), free=False, default="this"),
        ),
        waits_until=LATER,
    ),
    QuestionAnswered(
        question_id="question-1",
        call_id=CALL,
        answer="this",
        by="operator",
        expired=True,
        control_id="control-3",
        answers=(OneAnswer(id="which", status="expired", answer="this", by="operator"),),
    ),
)


def entry(fact: Fact, seq: int = 7) -> Entry:
    """An entry of a child agent, so that every field of the entry is filled."""
    return Entry(
        order_id=ORDER_ID, seq=seq, at=AT, record_id=CHILD, parent_id=ROOT, agent="explore", depth=1, data=fact
    )


NEW_ORDER = NewOrder(
    prompt="Explain this repository",
    kind=OrderKind.GENERATE,
    session_id=DOCUMENT_ID,
    agent="master",
    model="anthropic/claude-sonnet",
    **dict(ASKED),
    workspace="/srv/work",
    ref="release/1.2",
    document_id=DOCUMENT_ID,
    generation=Generation(
        metadata={"topic": "Photosynthesis"},
        nodes=("/lesson-2",),
        outline=True,
        concurrency=20,
        on_failure=Quorum(quorum=0.9),
    ),
    limits=LIMITS,
    priority=0,
    queue="slow",
    when_busy=WhenBusy.REJECT,
    not_before=AT,
    expires_at=LATER,
    labels=("team:blue", "nightly"),
    result_schema={"type": "object", "required": ["summary"]},
    rules=(Rule(cel="size(result.summary) > 0", message="Say something."),),
    verify=Verification(rubric="It is said.", max_revisions=2),
    webhook_url="https://example.org/hook",
    metadata={"ticket": "OPS-17", "tries": [1, 2]},
    controls=(ControlKind.PAUSE, ControlKind.RESUME, ControlKind.SET_METADATA),
)
WORK_ORDER = WorkOrder(
    **{**dict(NEW_ORDER), "blueprint": "course:0123456789ab"},
    id=ORDER_ID,
    session_seq=1,
    status=OrderStatus.FAILED,
    reason=FailureReason.GATE_FAILED,
    detail="The gate refused five times.",
    answer=ODD,
    result={"summary": ""},
    usage=USAGE,
    attempt=1,
    drone="drone-1",
    created_at=AT,
    started_at=AT,
    finished_at=LATER,
    last_seq=42,
    waits_for=WaitsFor(kind="provider", order_id=SESSION_ID, position=3, until=LATER, tries=4, message=ODD),
    queue_position=3,
    blocked_by=DOCUMENT_ID,
    origin=OrderOrigin(kind="fork", order_id=SESSION_ID, after=9, note="Begins with entries 1 to 9."),
    left_out=True,
)


def record(children: tuple[ChatRecord, ...] = ()) -> ChatRecord:
    return ChatRecord(
        id=CHILD if not children else ROOT,
        order_id=ORDER_ID,
        session_id=SESSION_ID,
        parent_id=None if children else ROOT,
        call_id=None if children else CALL,
        forked_from="another-record" if children else None,
        agent="master" if children else "explore",
        title="Explain",
        depth=0 if children else 1,
        prompt="Explain this repository",
        status=RecordStatus.COMPLETED,
        model=CHOICE,
        model_settings=ASKED,
        tools=("read_file",),
        definition_digest="d" * 64,
        definition_origin=ORIGIN,
        metadata={"ticket": "OPS-17"},
        steps=(
            ModelStep(
                seq=3,
                text="I read.",
                thinking="",
                tool_calls=(TOOL_CALL,),
                finish_reason="tool_calls",
                usage=USAGE,
                first_token_ms=None,
                seconds=1.0,
            ),
            ToolStep(
                seq=5,
                call_id=CALL,
                name="read_file",
                arguments="not an object",
                content="# Title",
                is_error=False,
                untrusted=True,
                seconds=0.1,
                subagent_ids=(CHILD,),
                background=(CHILD,),
                delivered=(CHILD,),
            ),
            GateStep(seq=6, ok=True, errors=(), warnings=("extra is not a property here and was left out",)),
            VerifyStep(
                seq=7,
                verifier="verify",
                verifier_id=CHILD,
                revision=1,
                passed=False,
                points=("Say which colour.",),
                error="none",
                sent_back=True,
                model="openai/qwen3-coder",
                usage=USAGE,
            ),
            SteerStep(seq=8, control="steer", message="Hurry.", reason=None, by="parent"),
            NoteStep(seq=9, name="retried", message="429"),
        ),
        result=None,
        answer="It hums.",
        error=None,
        usage=USAGE,
        usage_total=USAGE.plus(USAGE),
        started_at=AT,
        finished_at=LATER,
        subagent_history=children,
    )


DEFINITION = AgentDefinition(
    name="review",
    description="Reads a change.",
    tools=("workspace_read",),
    disallowed_tools=("find_files",),
    spawns=("explore",),
    model="fast",
    temperature=0.2,
    thinking="off",
    max_output_tokens=4_000,
    limits=AgentLimits(
        rounds=24, output_tokens=2_000, tool_calls=50, tool_seconds=9.5, model_call_seconds=60, wall_seconds=600
    ),
    isolation="worktree",
    permission={"run_shell": "ask"},
    result={"$ref": "report"},
    rules=(Rule(cel="true", message="Always."),),
    verify=Verification(agent="explore", max_revisions=0),
    guidelines=("Quote exactly.",),
    prompt="You review.",
)
REGISTRATION = Registration(
    incarnation=INCARNATION,
    name="drone-1",
    pid=4_711,
    host="here",
    version="0.1.0",
    queues=("default", "slow"),
    slots=200,
    sandbox=SandboxState(kind="bubblewrap", walls=Walls.without("not tried")),
    agents=(Capability(name="master", description="Answers."),),
    tools=(Capability(name="run_shell", problem="There is no sandbox."),),
    models=(Capability(name="offline", description="Rules."),),
    workspace_roots=("/srv",),
)
DRONE = Drone(
    name="drone-1",
    pid=4_711,
    host="here",
    version="0.1.0",
    queues=("default",),
    slots=200,
    active=3,
    refused_messages=2,
    status=DroneStatus.DRAINING,
    sandbox=SandboxState(kind="bubblewrap", walls=Walls.without("not tried")),
    started_at=AT,
    last_heartbeat_at=LATER,
    incarnation=INCARNATION,
)
CONTROL = Control(
    id="control-1",
    order_id=ORDER_ID,
    number=1,
    kind=ControlKind.STEER,
    record_id=CHILD,
    message="Look at the tests.",
    reason="They matter.",
    requested_at=AT,
    delivered_at=AT,
    applied_at=LATER,
    applied_seq=9,
    carried_seq=12,
    refused=None,
)

OTHERS: Mapping[str, BaseModel] = {
    "new-order": NEW_ORDER,
    "new-order-of-defaults": NewOrder(prompt="Hello"),
    "new-order-of-a-document": NewOrder(kind=OrderKind.GENERATE, blueprint="course"),
    "work-order": WORK_ORDER,
    "outcome": OrderOutcome(
        status=OrderStatus.FAILED,
        reason=FailureReason.POISON,
        detail="x",
        answer="y",
        result=[1],
        accepted=False,
        usage=USAGE,
    ),
    "session": Session(id=SESSION_ID, title="Talk", created_at=AT, turns=2, last_order_id=ORDER_ID),
    "new-session": NewSession(title="Talk"),
    "limits-of-defaults": Limits(),
    "usage": USAGE,
    "chat-record": record((record(),)),
    "new-controls": NewControls(
        controls=(
            ControlOfBatch(kind=ControlKind.STEER, message="Hurry.", remove_tools=("git_read",)),
            ControlOfBatch(kind=ControlKind.RESUME, record_id=ORDER_ID),
            ControlOfBatch(kind=ControlKind.SET_METADATA, metadata={"ticket": None}),
        )
    ),
    "new-control": NewControl(record_id=ORDER_ID, message="Hurry.", reason="Late.", metadata={"ticket": 17}),
    "control": CONTROL,
    "new-fork": NewFork(after=9, prompt="Look at the tests."),
    "earlier-turn": EarlierTurn(order_id=ORDER_ID, session_seq=2, prompt=ODD, status=OrderStatus.SUCCEEDED, answer=ODD),
    "audit-note": AuditNote(
        id="note-1", at=AT, principal="operator", kind="order.rolled_back", order_id=ORDER_ID, detail={"why": "asked"}
    ),
    "receipt": Receipt(id="control-1", requested_at=AT, order_id=ORDER_ID),
    "agent-definition": DEFINITION,
    "registration": REGISTRATION,
    "drone": DRONE,
    "wire-hint": Hint(order_id=ORDER_ID, seq=7, status="running"),
    "wire-progress": Progress(
        order_id=ORDER_ID,
        epoch=2,
        data=GenerationProgress(
            document_id=DOCUMENT_ID,
            done=6,
            running=2,
            pending=3,
            stale=1,
            failed=1,
            conflicts=1,
            output_tokens=1_200,
            cost_usd=0.25,
            seconds_left=12.5,
        ),
    ),
    "wire-delta": Delta(
        kind="model.delta",
        order_id=ORDER_ID,
        epoch=2,
        record_id=CHILD,
        parent_id=ROOT,
        agent="explore",
        depth=1,
        round=3,
        attempt=1,
        offset=120,
        text=ODD,
    ),
    "wire-delta-of-a-tool": Delta(
        kind="tool.progress",
        order_id=ORDER_ID,
        epoch=2,
        record_id=CHILD,
        round=0,
        attempt=0,
        offset=120,
        text=ODD,
        name="run_shell",
        call_id=CALL,
    ),
    "wire-wake": Wake(order_id=ORDER_ID, control_seq=4),
}
SAMPLES: Mapping[str, BaseModel] = {**OTHERS, **DOCUMENTS, **{f"journal-{fact.kind}": entry(fact) for fact in FACTS}}

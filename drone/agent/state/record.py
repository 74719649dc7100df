"""The state of one agent's run, computed by applying its journal entries one by one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never, cast

from drone.agent.ports.artifacts import READ_ARTIFACT
from drone.agent.ports.inbox_item import InboxItem, item_id
from drone.agent.ports.messages import AssistantMessage, Picture, ToolResult, ToolResults
from drone.agent.ports.receipts import CallReceipt
from drone.agent.ports.report import Cause, Halt, JudgedRun, Report, Stopped
from drone.agent.ports.transcript import NOT_SENT, NUDGE, Estimate, Transcript, text_for_model
from drone.agent.state.progress import AnswerCheck, RunProgress
from drone.agent.state.restraints import GateState, Restraints
from mcc.contracts.blocks import ToolCall
from mcc.contracts.control import SteerMode
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    AnyFact,
    BudgetWarned,
    ControlApplied,
    DocumentChanged,
    GateChecked,
    Outcome,
    ToolFinished,
    ToolStarted,
    TranscriptCompacted,
    VerifyChecked,
    WorkspaceCheckpointed,
)
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.usage import Usage

NOTHING = Usage()

MODEL_FAILED = "model_failed"
"""Name of the step that records the cost of a model call without a reply."""


@dataclass(slots=True)
class OpenReply:
    """A reply whose tool calls have not all ended; `started` and `finished` entries by call id."""

    reply: ModelReplied
    started: dict[str, ToolStarted] = field(default_factory=dict)
    finished: dict[str, ToolFinished] = field(default_factory=dict)
    calls: tuple[ToolCall, ...] = field(init=False)
    _by_id: dict[str, ToolCall] = field(init=False)

    def __post_init__(self) -> None:
        self.calls = self.reply.tool_calls
        # Of equal ids the first counts.
        self._by_id = {call.call_id: call for call in reversed(self.calls)}

    @property
    def is_done(self) -> bool:
        return len(self.finished) == len(self.calls)

    def call(self, call_id: str) -> ToolCall | None:
        return self._by_id.get(call_id)


@dataclass(slots=True)
class RecordState:
    """What the journal says about one agent's run. Only `apply` changes it, so a run resumed elsewhere has the same
    state as the interrupted one.

    `rounds`: replies so far. `tries`: model calls made for the current round. `open`: a reply whose tool calls have not
    all ended. `answer`: a reply without tool calls, unless something came after it. `nudge`: still to be sent to the
    model. `stopped`: why the run must not continue. `asked`: a model call without an outcome. `waits_for_provider`: the
    provider has to be asked again later; `waited_seconds`: how much later. `not_sent`: sentences about what its models
    did not get. `calls`: tool calls that were not denied. `usage`: that of its own model calls; `spent`: the part that
    this order paid (not a copied one). `warned`: limits the model was warned about, with their values; `warned_before`:
    those of the conversation that this run continues. `landing`: a limit is reached and one reply is left; `landed`:
    that reply has come. `judged`: its verifier's verdicts. `messages_heard`: people's messages beside its task.
    `denied`: a call of the last reply was denied. `items`: what it asked people. `window`: its model's context in
    tokens, as far as known.
    """

    origin: Origin
    started: AgentStarted | None = None
    finished: AgentFinished | None = None
    task: str = ""
    transcript: Transcript = field(default_factory=Transcript)
    rounds: int = 0
    tries: int = 0
    open: OpenReply | None = None
    answer: ModelReplied | None = None
    asked: ModelStarted | None = None
    waits_for_provider: bool = False
    waited_seconds: float = 0.0
    not_sent: set[str] = field(default_factory=set)
    receipts: list[CallReceipt] = field(default_factory=list)
    child_ids: list[str] = field(default_factory=list)
    calls: int = 0
    usage: Usage = NOTHING
    spent: Usage = NOTHING
    estimate: Estimate = field(default_factory=Estimate)
    gate: GateState = field(default_factory=GateState)
    judged: JudgedRun = field(default_factory=JudgedRun)
    messages_heard: list[str] = field(default_factory=list)
    progress: RunProgress = field(default_factory=RunProgress)
    nudge: AgentStep | None = None
    answer_check: AnswerCheck = field(default_factory=AnswerCheck)
    stopped: Halt | None = None
    restraints: Restraints = field(default_factory=Restraints)
    warned: dict[str, float] = field(default_factory=dict)
    warned_before: dict[str, float] = field(default_factory=dict)
    rounds_before: int = 0
    landing: BudgetWarned | None = None
    landed: bool = False
    denied: bool = False
    window: int | None = None
    finish_tools: frozenset[str] = frozenset()
    items: dict[str, InboxItem] = field(default_factory=dict)
    worktrees: dict[str, WorktreeMade | WorktreeEnded] = field(default_factory=dict)
    began_after: float | None = field(default=None, compare=False)
    """Seconds that drones had worked on the turn when the run began; None if under this drone."""
    found: dict[str, None] = field(default_factory=dict)
    """Deferred tools that it has searched for and that its model is shown, in order."""
    _characters_asked: int = 0

    @property
    def text(self) -> str:
        """The text of the model's last reply."""
        return self.answer_check.text

    @property
    def used(self) -> Usage:
        """The usage of its model calls, with the number of its tool calls."""
        return self.usage.plus(Usage(tool_calls=self.calls))

    def report(self) -> Report:
        """How the run ended. Raises ValueError while it has not."""
        started, end = self.started, self.finished
        if started is None or end is None:
            raise ValueError(f"the agent {self.origin.record_id} has not ended")
        return Report(
            status=end.status,
            text=end.answer or "",
            record_id=self.origin.record_id or "",
            usage=self.used,
            error=end.error,
            limit=end.limit,
            cause=None if end.cause is None else Cause(end.cause),
            result=end.result,
            agent=self.origin.agent or "",
            title=started.title,
            rounds=self.rounds,
            model=started.model.effective if started.model else "",
            checked=self.judged.checked,
            revisions=self.judged.revisions,
            remark=self.answer_check.remark,
        )

    def tokens_of_question(self) -> int:
        """The estimated input tokens of the next request."""
        return self.estimate.tokens(self.transcript.characters_said, self.transcript.characters_before)

    def reset_counts(self) -> None:
        """Reset what counts against limits: the entries so far were copied from another order, which paid for them."""
        self.spent, self.calls, self.rounds_before = Usage(), 0, self.rounds
        self.warned, self.warned_before = {}, {}
        self.progress, self.answer_check, self.asked = RunProgress(), AnswerCheck(self.text), None
        self.gate = GateState(accepted=self.gate.accepted)
        self.stopped = None
        self.landing, self.landed, self.judged = None, False, JudgedRun(self.judged.checked)

    def apply(self, fact: Fact) -> None:
        """Apply the next entry. Every kind is listed, including those that change nothing."""
        known = cast("AnyFact", fact)
        match known:  # the four most frequent kinds come first
            case ModelStarted():
                self.asked, self.waits_for_provider, self.tries = known, False, known.attempt
                self._characters_asked = self.transcript.characters_said
                self._continue()
            case ModelReplied():
                self._replied(known)
            case ToolStarted():
                if self.open is not None:
                    self.open.started[known.call_id] = known
            case ToolFinished():
                self._finished(known)
            case AgentStarted():
                self.started, self.task = known, known.prompt
                self.finish_tools = frozenset(known.finish_tools)
                self.transcript.readable = READ_ARTIFACT in known.tools
            case AgentFinished():
                self.finished, self.asked = known, None
            case ModelRetried() | ModelFellBack():
                self.asked, self.waits_for_provider = None, isinstance(known, ModelRetried)
                self.waited_seconds = known.wait_seconds if isinstance(known, ModelRetried) else 0.0
            case GateChecked():
                self.gate.apply(known, self.answer)
                self._add_text(known)
            case VerifyChecked():
                self._verified(known)
            case AgentStep():
                self._stepped(known)
            case BudgetWarned():
                self._warned(known)
            case ControlApplied():
                self._steered(known)
            case TranscriptCompacted():
                self.asked, self.window = None, known.window_tokens or self.window
                self.transcript.clip(known.clipped)
            case ApprovalRequested() | QuestionAsked():
                self.items.setdefault(item_id(known), InboxItem(known))
            case ApprovalDecided() | QuestionAnswered():
                if (item := self.items.get(item_id(known))) is not None:
                    item.heard = item.heard or known
            case WorktreeMade() | WorktreeEnded():
                self.worktrees[known.child_id] = known
            case AgentReused() | DocumentChanged() | WorkspaceCheckpointed() | WorkspaceCommitted():
                pass
            case OrderClaimed() | OrderFinished() | OrderHandedBack() | OrderQueued() | OrderRequeued():
                pass
            case OrderResumed() | OrderWaiting():
                pass
            case _:
                assert_never(known)

    def _stepped(self, step: AgentStep) -> None:
        self._use(step.usage)
        if step.name == NOT_SENT:
            self.not_sent.add(step.message)
        if step.name == MODEL_FAILED:
            self.asked = None
        if step.name == NUDGE:
            self.nudge = None
            self._add_text(step)

    def _warned(self, warning: BudgetWarned) -> None:
        if warning.landing:
            self.landing = warning
        if warning.used is not None:
            self.warned[warning.limit] = warning.allowed
            self._add_text(warning)

    def _verified(self, checked: VerifyChecked) -> None:
        self.judged.apply(checked, self.text)
        if checked.message:
            self.gate.sent_back()
            self.answer_check.begin_new_answer()
            self._add_text(checked)

    def _add_text(self, fact: Fact) -> None:
        if (text := text_for_model(fact)) is not None:
            self._continue()
            in_results = isinstance(fact, AgentStep | BudgetWarned) and fact.in_results
            self.transcript.add_text(text, in_results=in_results)

    def _continue(self) -> None:
        """The run continues, so what it had brought before does not end it."""
        self.answer, self.gate.accepted, self.judged.checked = None, None, None

    def _use(self, usage: Usage | None) -> None:
        if usage is not None:
            same, self.usage = self.usage is self.spent, self.usage.plus(usage)
            self.spent = self.usage if same else self.spent.plus(usage)
            self.estimate.learn(self._characters_asked, usage)

    def _replied(self, reply: ModelReplied) -> None:
        self.asked, self.waits_for_provider, self.waited_seconds = None, False, 0.0
        self.rounds, self.tries = reply.round, 0
        self.landed, self.denied = self.landing is not None, False
        self._use(reply.usage)
        self.transcript.add(AssistantMessage(reply.blocks, reply.model))
        if reply.calls_tools:
            self.open = OpenReply(reply)
        else:
            self.answer = reply
        tools = self.started.tools if self.started is not None else ()
        self._judge(lambda: self.answer_check.judge(reply, tools, self.finish_tools))

    def _finished(self, done: ToolFinished) -> None:
        if self.open is None or (call := self.open.call(done.call_id)) is None:
            return
        self.open.finished[call.call_id] = done
        self.found.update(dict.fromkeys(done.found))
        if call.name not in self.finish_tools:
            self.receipts.append(CallReceipt.of(call, done, self.open.started.get(call.call_id)))
            self.child_ids.extend(done.subagent_ids)
            self.calls += done.outcome is not Outcome.DENIED
        else:
            self.gate.ended(call, done)
        if self.open.is_done:
            self._acted(self.open)

    def _acted(self, whole: OpenReply) -> None:
        """Handle the end of the reply's last tool call."""
        self.open = None
        calls = whole.calls
        done = [whole.finished[call.call_id] for call in calls]
        self.denied = any(end.outcome is Outcome.DENIED for end in done)
        results = (
            ToolResult(end.call_id, end.name, end.content, end.is_error, tuple(map(Picture, end.images)))
            for end in done
        )
        self.transcript.add(ToolResults(tuple(results)))
        watched = [pair for pair in zip(calls, done, strict=True) if pair[0].name not in self.finish_tools]
        self._judge(lambda: self.progress.observe(watched, whole.reply))

    def _judge(self, judge: Callable[[], AgentStep | None]) -> None:
        try:
            self.nudge = judge()
        except Stopped as stopped:
            self.stopped = Halt(type(stopped), str(stopped))

    def _steered(self, asked: ControlApplied) -> None:
        self.restraints.apply(asked)
        if asked.control != "steer" or asked.message is None:
            return
        if self.answer is not None:  # a new message came before the answer was judged: its faults no longer count
            self.nudge, self.stopped = None, None
            self.answer_check.begin_new_answer()
        if asked.mode == SteerMode.REDIRECT:
            self.answer_check.begin_new_answer()
            self.task, self.messages_heard = asked.message, []
        else:
            self.messages_heard.append(asked.message)
        self._add_text(asked)

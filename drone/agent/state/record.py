"""The state of one agent's run, computed by applying its journal entries one by one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never, cast

from drone.agent.ports.inbox_item import InboxItem, item_id
from drone.agent.ports.receipts import CallReceipt
from drone.agent.ports.report import Cause, Halt, JudgedRun, Report, Stopped
from drone.agent.state.progress import AnswerCheck
from drone.agent.state.record_parts import AskingState, ChildrenState, ConversationState, CourseState, SpendingState
from drone.agent.state.restraints import GateState, Restraints
from mcc.contracts.compaction import CompactedRecord, TranscriptCompacted
from mcc.contracts.control import SteerMode
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
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
    VerifyChecked,
    WorkspaceCheckpointed,
    WorkspaceHeld,
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
from mcc.transcript.messages import AssistantMessage
from mcc.transcript.replies import OpenReply
from mcc.transcript.transcript import NOT_SENT, NUDGE, add_what_it_says

SUBAGENT_WAIT = "subagent_wait"
"""Name of the tool that waits for subagents in the background."""

MODEL_FAILED = "model_failed"
"""Name of the step that records the cost of a model call without a reply."""


@dataclass(slots=True)
class RecordState:
    """What the journal says about one agent's run. Only `apply` changes it, so a run resumed elsewhere has the same
    state as the interrupted one."""

    origin: Origin
    started: AgentStarted | None = None
    finished: AgentFinished | None = None
    conversation: ConversationState = field(default_factory=ConversationState)
    """What it and its model have said and heard."""
    asking: AskingState = field(default_factory=AskingState)
    """Its calls of the model."""
    rounds: int = 0
    """Replies so far."""
    open: OpenReply | None = None
    """A reply whose tool calls have not all ended."""
    answer: ModelReplied | None = None
    """A reply without tool calls, unless something came after it."""
    denied: bool = False
    """A call of the last reply was denied."""
    receipts: list[CallReceipt] = field(default_factory=list)
    """Of its tool calls that have ended, but those of its gate."""
    course: CourseState = field(default_factory=CourseState)
    """Whether it gets anywhere."""
    finish_tools: frozenset[str] = frozenset()
    """Those of its tools that its gate handles."""
    gate: GateState = field(default_factory=GateState)
    """What its gate has decided."""
    judged: JudgedRun = field(default_factory=JudgedRun)
    """Its verifier's verdicts."""
    spending: SpendingState = field(default_factory=SpendingState)
    """What counts against its limits."""
    restraints: Restraints = field(default_factory=Restraints)
    """What people have restrained it from."""
    children: ChildrenState = field(default_factory=ChildrenState)
    """The agents that it has hired."""
    tainted: bool = False
    """It, or an agent below it, was shown text from outside."""
    began_after: float | None = field(default=None, compare=False)
    """Seconds that drones had worked on the turn when the run began; None if under this drone."""

    @property
    def text(self) -> str:
        """The text of the model's last reply."""
        return self.course.answer_check.text

    @property
    def is_summary(self) -> bool:
        """Whether it is no agent, but a request for a summary of one's conversation."""
        return self.started is not None and isinstance(self.started.context, CompactedRecord)

    @property
    def used(self) -> Usage:
        """The usage of its model calls, with the number of its tool calls."""
        return self.spending.usage.plus(Usage(tool_calls=self.spending.calls))

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
            remark=self.course.answer_check.remark,
        )

    def tokens_of_question(self) -> int:
        """The estimated input tokens of the next request."""
        transcript = self.conversation.transcript
        return self.asking.estimate.tokens(transcript.characters_said, transcript.characters_before)

    def reset_counts(self) -> None:
        """Reset what counts against limits: the entries so far were copied from another order, which paid for them."""
        self.spending = SpendingState(usage=self.spending.usage, spent=Usage(), rounds_before=self.rounds)
        self.course, self.asking.asked = CourseState(answer_check=AnswerCheck(self.text), nudge=self.course.nudge), None
        self.asking.prefix = None  # Of a request with the call ids of the other order.
        self.gate, self.judged = GateState(accepted=self.gate.accepted), JudgedRun(self.judged.checked)

    def apply(self, fact: Fact) -> None:
        """Apply the next entry. Every kind is listed, including those that change nothing."""
        known = cast("AnyFact", fact)
        match known:  # the four most frequent kinds come first
            case ModelStarted():
                self.asking.asked, self.asking.waits_for_provider, self.asking.tries = known, False, known.attempt
                self.asking.characters_asked = self.conversation.transcript.characters_said
                self.conversation.transcript.steers_at = None
                self._continue()
            case ModelReplied():
                self._replied(known)
            case ToolStarted():
                if self.open is not None:
                    self.open.started[known.call_id] = known
            case ToolFinished():
                self._finished(known)
            case AgentStarted():
                self.started, self.conversation.task = known, known.prompt
                self.finish_tools = frozenset(known.finish_tools)
                self.conversation.transcript.begin(known)
            case AgentFinished():
                self.finished, self.asking.asked = known, None
            case ModelRetried() | ModelFellBack():
                self.asking.asked, self.asking.waits_for_provider = None, isinstance(known, ModelRetried)
                self.asking.waited_seconds = known.wait_seconds if isinstance(known, ModelRetried) else 0.0
            case GateChecked():
                self.gate.apply(known, self.answer)
                self._add_text(known)
            case VerifyChecked():
                self._verified(known)
            case AgentStep():
                self._stepped(known)
            case AgentDelivered():
                self.children.ids.append(known.child_id)
                self.children.delivered.add(known.child_id)
                self._add_text(known)
            case BudgetWarned():
                self._warned(known)
            case ControlApplied():
                self._steered(known)
            case TranscriptCompacted():
                self.asking.asked, self.asking.window = None, known.window_tokens or self.asking.window
                self.conversation.transcript.compact(known)
                self.asking.compacted(known)
            case ApprovalRequested() | QuestionAsked():
                # A resumed run may ask once more, under the same derived id.
                self.conversation.items.setdefault(item_id(known), InboxItem(known))
            case ApprovalDecided() | QuestionAnswered():
                if (item := self.conversation.items.get(item_id(known))) is not None:
                    item.heard = item.heard or known
            case WorktreeMade() | WorktreeEnded():
                self.children.worktrees[known.child_id] = known
            case AgentReused() | DocumentChanged() | WorkspaceCheckpointed() | WorkspaceHeld() | WorkspaceCommitted():
                pass
            case OrderClaimed() | OrderFinished() | OrderHandedBack() | OrderQueued() | OrderRequeued():
                pass
            case OrderResumed() | OrderWaiting() | DeliveryStarted() | DeliveryFinished():
                pass
            case _:
                assert_never(known)

    def _stepped(self, step: AgentStep) -> None:
        self._use(step.usage)
        if step.name == NOT_SENT:
            self.asking.not_sent.add(step.message)
        if step.name == MODEL_FAILED:
            self.asking.asked = None
        if step.name == NUDGE:
            self.course.nudge = None
            self._add_text(step)

    def _warned(self, warning: BudgetWarned) -> None:
        if warning.landing:
            self.spending.landing = warning
        if warning.used is not None:
            self.spending.warned[warning.limit] = warning.allowed
            self._add_text(warning)

    def _verified(self, checked: VerifyChecked) -> None:
        self.judged.apply(checked, self.text)
        if checked.message:
            self.gate.sent_back()
            self.course.answer_check.begin_new_answer()
            self._add_text(checked)

    def _add_text(self, fact: Fact) -> None:
        if add_what_it_says(self.conversation.transcript, fact):
            self._continue()

    def _continue(self) -> None:
        """The run continues, so what it had brought before does not end it."""
        self.answer, self.gate.accepted, self.judged.checked = None, None, None

    def _use(self, usage: Usage | None) -> None:
        if usage is not None:
            self.spending.add(usage)
            self.asking.estimate.learn(self.asking.characters_asked, usage)

    def _replied(self, reply: ModelReplied) -> None:
        self.asking.asked, self.asking.waits_for_provider, self.asking.waited_seconds = None, False, 0.0
        self.rounds, self.asking.tries, self.asking.prefix = reply.round, 0, reply.prefix
        self.spending.landed, self.denied = self.spending.landing is not None, False
        self._use(reply.usage)
        self.conversation.transcript.add(AssistantMessage(reply.blocks, reply.model))
        if reply.calls_tools:
            self.open = OpenReply(reply)
        else:
            self.answer = reply
        tools = self.started.tools if self.started is not None else ()
        self._judge(lambda: self.course.answer_check.judge(reply, tools, self.finish_tools))

    def _finished(self, done: ToolFinished) -> None:
        if self.open is None or (call := self.open.call(done.call_id)) is None:
            return
        self.open.finished[call.call_id] = done
        self.conversation.found.update(dict.fromkeys(done.found))
        if call.name not in self.finish_tools:
            self.receipts.append(CallReceipt.of(call, done, self.open.started.get(call.call_id)))
            self.children.ids.extend(done.subagent_ids)
            self.children.background |= dict.fromkeys(done.background, done.call_id)
            self.children.delivered.update(done.delivered)
            self.spending.calls += done.outcome is not Outcome.DENIED
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
        self.conversation.transcript.add(whole.results())
        # A wait that brings nothing new has waited: that is no standstill of the agent.
        watched = [
            (call, end)
            for call, end in zip(calls, done, strict=True)
            if call.name not in self.finish_tools and (call.name != SUBAGENT_WAIT or end.is_error)
        ]
        self._judge(lambda: self.course.progress.observe(watched, whole.reply))

    def _judge(self, judge: Callable[[], AgentStep | None]) -> None:
        try:
            self.course.nudge = judge()
        except Stopped as stopped:
            self.course.stopped = Halt(type(stopped), str(stopped))

    def _steered(self, asked: ControlApplied) -> None:
        self.restraints.apply(asked)
        if asked.by == "parent":
            self.children.told.add(asked.control_id)
        if asked.control != "steer" or asked.message is None:
            return
        if self.answer is not None:  # a new message came before the answer was judged: its faults no longer count
            self.course.nudge, self.course.stopped = None, None
            self.course.answer_check.begin_new_answer()
        if asked.mode == SteerMode.REDIRECT:
            self.course.answer_check.begin_new_answer()
            self.conversation.task, self.conversation.messages_heard = asked.message, []
        else:
            self.conversation.messages_heard.append(asked.message)
        self._add_text(asked)

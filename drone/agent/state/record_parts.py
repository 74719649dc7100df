"""Parts of the state of one agent's run: its conversation, model calls, spending, course and children."""

from dataclasses import dataclass, field
from datetime import datetime

from drone.agent.ports.inbox_item import InboxItem
from drone.agent.ports.report import Halt
from drone.agent.state.progress import AnswerCheck, RunProgress
from mcc.contracts.compaction import LITTLE, NOTHING_CARRIED, CompactedParts, TranscriptCompacted
from mcc.contracts.git_facts import WorktreeEnded, WorktreeMade
from mcc.contracts.journal import AgentStep, BudgetWarned
from mcc.contracts.model_facts import ModelStarted, Prefix
from mcc.contracts.usage import Usage
from mcc.transcript.transcript import Estimate, Transcript

NOTHING = Usage()


@dataclass(slots=True)
class ConversationState:
    """What an agent was told and asked, and what its model is shown."""

    task: str = ""
    """Its prompt, or what people have put in its place."""
    messages_heard: list[str] = field(default_factory=list)
    """People's messages beside its task."""
    transcript: Transcript = field(default_factory=Transcript)
    """The messages that its model is shown."""
    items: dict[str, InboxItem] = field(default_factory=dict)
    """What it asked people, by the id of the approval or question, and what they answered."""
    found: dict[str, None] = field(default_factory=dict)
    """Deferred tools that it has searched for and that its model is shown, in order."""


@dataclass(slots=True)
class AskingState:
    """An agent's calls of its model."""

    asked: ModelStarted | None = None
    """A call without an outcome."""
    tries: int = 0
    """Calls made for the current round."""
    waits_for_provider: bool = False
    """The provider has to be asked again later."""
    waited_seconds: float = 0.0
    """How much later."""
    not_sent: set[str] = field(default_factory=set)
    """Sentences about what its models did not get."""
    window: int | None = None
    """The model's context in tokens, as far as known."""
    estimate: Estimate = field(default_factory=Estimate)
    """Of the input tokens of a request."""
    prefix: Prefix | None = None
    """Of its last request that was answered."""
    replied_at: datetime | None = field(default=None, compare=False)
    """When its last request was answered."""
    characters_asked: int = 0
    """Length of the transcript when the model was asked last."""
    carried: CompactedParts = NOTHING_CARRIED
    """What the next summary takes over from the last one."""
    summaries: set[str] = field(default_factory=set)
    """Records of the requests for summaries that its model is shown, or was."""
    replaced: int = 0
    """How often a summary, or lines, took the place of messages; of the request for a summary: when it was asked."""
    meagre: int = 0
    """How many compactions one after the other have freed little."""

    def compacted(self, fact: TranscriptCompacted) -> None:
        """Remember what the next compaction has to know of this one."""
        if fact.stage != "clip":
            self.estimate.free(fact.tokens_before - fact.tokens_after)
        self.carried = fact.parts or self.carried
        self.replaced += fact.summary is not None
        if fact.record_id is not None:
            self.summaries.add(fact.record_id)
        if fact.stage == "images":
            return
        little = fact.tokens_before - fact.tokens_after < LITTLE * fact.tokens_before
        self.meagre = self.meagre + 1 if little else 0


@dataclass(slots=True)
class SpendingState:
    """What an agent used, what counts against its limits, and what it was told about them."""

    usage: Usage = NOTHING
    """Of its own model calls."""
    spent: Usage = NOTHING
    """The part of `usage` that this order paid, which is not that of copied entries. The same object where it is all
    of it."""
    calls: int = 0
    """Tool calls that were not denied."""
    rounds_before: int = 0
    """Replies that were copied from another order."""
    warned: dict[str, float] = field(default_factory=dict)
    """Limits that the model was warned about, with their values."""
    warned_before: dict[str, float] = field(default_factory=dict)
    """Those of the conversation that this run continues."""
    landing: BudgetWarned | None = None
    """The warning that a limit is reached and one reply is left."""
    landed: bool = False
    """That reply has come."""

    def add(self, usage: Usage) -> None:
        is_all, self.usage = self.usage is self.spent, self.usage.plus(usage)
        self.spent = self.usage if is_all else self.spent.plus(usage)


@dataclass(slots=True)
class CourseState:
    """Whether an agent gets anywhere: what was observed, and what follows from it."""

    progress: RunProgress = field(default_factory=RunProgress)
    """What its tool calls show."""
    answer_check: AnswerCheck = field(default_factory=AnswerCheck)
    """What its replies show."""
    nudge: AgentStep | None = None
    """Still to be sent to the model."""
    stopped: Halt | None = None
    """Why the run must not continue."""


@dataclass(slots=True)
class ChildrenState:
    """The agents that an agent has hired."""

    ids: list[str] = field(default_factory=list)
    """Their records, in the order in which the calls that hired them ended, or in which their reports were delivered.
    """
    background: dict[str, str] = field(default_factory=dict)
    """Those that a call left running, each with the id of that call."""
    delivered: set[str] = field(default_factory=set)
    """Those of them whose reports the agent has."""
    told: set[str] = field(default_factory=set)
    """Ids of the calls by which the agent above this one sent it a message that it has read."""

    @property
    def undelivered(self) -> list[str]:
        """The background agents whose reports the agent does not have yet, in the order of their hiring."""
        return [child_id for child_id in self.background if child_id not in self.delivered]

    worktrees: dict[str, WorktreeMade | WorktreeEnded] = field(default_factory=dict)
    """The newest entry about the worktree of each that has one, by its record."""

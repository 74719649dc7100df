"""This room is for an agent that goes on where a lost drone left it: its entries, read back into its run."""

from dataclasses import dataclass, field

from drone.agent.acting import Hands
from drone.agent.controls.helm import Helm
from drone.agent.gates.gate import Finish
from drone.agent.messages import AssistantMessage, ToolResult, ToolResults
from drone.agent.past import RecordPast
from drone.agent.progress import Progress
from drone.agent.report import NoProgress
from drone.agent.spending.allowance import Allowance
from drone.agent.spoken import NUDGE, REPLY
from drone.agent.transcript import Transcript
from mcc.contracts.control import SteerMode
from mcc.contracts.journal import (
    AgentStep,
    BudgetWarned,
    ControlApplied,
    Fact,
    GateChecked,
    ModelReplied,
    ModelStarted,
    ToolFinished,
    ToolStarted,
)


@dataclass(slots=True)
class Open:
    """A reply that was not dealt with to its end: calls that were started, and those that have a result."""

    reply: ModelReplied
    started: dict[str, ToolStarted] = field(default_factory=dict)
    finished: dict[str, ToolFinished] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return bool(self.reply.tool_calls) and len(self.finished) == len(self.reply.tool_calls)


@dataclass(slots=True)
class Recollection:
    """Reads the entries of one record in their order. What is left at the end says how its run goes on.

    `rounds` counts replies, `tries` the calls made for the round that has no reply yet; `nudge` is still to be said.
    """

    transcript: Transcript
    hands: Hands
    helm: Helm
    allowance: Allowance
    progress: Progress
    finish: Finish | None
    rounds: int = 0
    tries: int = 0
    text: str = ""
    open: Open | None = None
    nudge: AgentStep | None = None
    stopped: NoProgress | None = None

    def read(self, past: RecordPast) -> None:
        self.allowance.recall_beginning(past.began_after)
        for fact in past.facts[: past.copied]:
            self._take(fact)
        if past.copied:
            self._begin_anew()
        for fact in past.facts[past.copied :]:
            self._take(fact)

    def end(self) -> None:
        """The run had ended: its last reply is a part of the conversation."""
        self._answered()

    def _begin_anew(self) -> None:
        """What was copied from another order is remembered, but it was spent and counted there."""
        self.allowance.begin_anew(self.rounds)
        self.progress.begin_anew()
        if self.finish is not None:
            self.finish.begin_anew()
        self.stopped = None

    def _take(self, fact: Fact) -> None:
        match fact:
            case ModelStarted():
                self._answered()
                self.tries = fact.attempt
            case ModelReplied():
                self.rounds, self.tries, self.text = fact.round, 0, fact.text or self.text
                self.allowance.recall(fact)
                self.open = Open(fact)
            case ToolStarted() if self.open is not None:
                self.open.started[fact.call_id] = fact
            case ToolFinished() if self.open is not None:
                self._finished(self.open, fact)
            case GateChecked():
                self._checked(fact)
            case ControlApplied():
                self._asked(fact)
            case AgentStep(name=name) if name == NUDGE:
                self._answered()
                self.nudge = None
                self.transcript.hear(fact)
            case BudgetWarned():
                self.allowance.recall_warning(fact)
                self.transcript.hear(fact)
            case _:
                self.transcript.hear(fact)

    def _answered(self) -> None:
        """The open reply called no tool, or its result was accepted, and the run went on all the same."""
        if self.finish is not None:
            self.finish.accepted_before = None
        if self.open is None or self.open.reply.tool_calls:
            return
        reply, self.open = self.open.reply, None
        self.transcript.add(AssistantMessage(reply.text, reply.thinking, reply.thoughts))
        if self.finish is None:
            self.nudge = self.progress.answered(reply.text)

    def _finished(self, open_reply: Open, fact: ToolFinished) -> None:
        open_reply.finished[fact.call_id] = fact
        if not open_reply.is_done:
            return
        reply, calls = open_reply.reply, open_reply.reply.tool_calls
        done = tuple(open_reply.finished[call.call_id] for call in calls)
        self.open = None
        self.transcript.add(AssistantMessage(reply.text, reply.thinking, reply.thoughts, calls))
        results = (ToolResult(one.call_id, one.name, one.content, one.is_error) for one in done)
        self.transcript.add(ToolResults(tuple(results)))
        self.hands.recall_calls(calls, done)
        if self.finish is not None:
            self.finish.recall_calls(calls, done)
        try:
            self.nudge = self.progress.saw(calls, done, reply)
        except NoProgress as stopped:
            self.stopped = stopped

    def _checked(self, fact: GateChecked) -> None:
        if fact.tool == REPLY:
            self._answered()
            self.transcript.hear(fact)
        if self.finish is not None:
            self.finish.recall(fact)

    def _asked(self, fact: ControlApplied) -> None:
        self.helm.remove(fact.tools_removed)
        if fact.control == "pause":
            self.helm.pause()
        elif fact.control == "resume":
            self.helm.resume()
        elif fact.control == "steer" and fact.message is not None:
            self._answered()
            self.transcript.hear(fact)
            if fact.mode == SteerMode.REDIRECT:
                self.hands.task = fact.message

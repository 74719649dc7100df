"""The request for a summary, put together again from the entries of its record and of the one that it shortens."""

from collections.abc import Sequence

from mcc.contracts.compaction import CompactedRecord
from mcc.contracts.journal import AgentStarted, AnyFact
from mcc.contracts.model_calls import AskedParameters
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import ModelSettings
from mcc.contracts.order_facts import OrderClaimed
from mcc.transcript.asked import REPLY_TOKENS, output_cap
from mcc.transcript.compaction.cuts import ContextWindow
from mcc.transcript.compaction.gathered import Gathered, Part
from mcc.transcript.compaction.question import missing_lines, question, reply_cap, sections_of
from mcc.transcript.heard import RecordConversation
from mcc.transcript.messages import Message


class SummaryAsked:
    """The request as of the last fact that was added: facts of its record and claims of its order, in order.

    `of`: the conversation that it is a summary of, as of when a drone last began to ask. `windows`: sizes of the
    context of its agent's model that entries tell of, the likeliest first.
    """

    def __init__(
        self, record_id: str, started: AgentStarted, of: RecordConversation, windows: Sequence[int] = ()
    ) -> None:
        self._record_id = record_id
        self._started = started
        self._of = of
        self._windows = windows
        self._missing: Sequence[str] = ()
        self._answer: ModelReplied | None = None
        self._call: ModelStarted | None = None

    def add(self, fact: AnyFact) -> None:
        match fact:
            case OrderClaimed():
                # The next drone knows the last reply, if no request has followed that.
                self._missing = self._lacking(self._answer) if self._answer is not None else ()
            case ModelStarted():
                self._call, self._answer = fact, None
            case ModelReplied():
                self._answer = fact
                self._missing = self._missing or self._lacking(fact)
            case _:
                pass

    @property
    def _window(self) -> ContextWindow:
        """The window by which the summary was measured: the room for it is what the call reserved for its reply."""
        room = 0 if self._call is None else self._call.reserved_output_tokens
        known = (ContextWindow(tokens) for tokens in (*self._windows, *self._of.windows))
        return next((window for window in known if window.summary == room), ContextWindow(room * 10))

    def _lacking(self, reply: ModelReplied) -> Sequence[str]:
        """Lines of the checklist that the summary in a reply lacks: its model is asked for them once more."""
        sections, part_of = sections_of(reply), self._started.context
        if sections is None or not isinstance(part_of, CompactedRecord):
            return ()
        shown = self._of.messages[: part_of.messages]
        part = Part(
            [placed.message for placed in shown], [(placed.turn, placed.seq if placed.turn else 0) for placed in shown]
        )
        gathered = Gathered.of(part, (), self._of.carried, self._window)
        return missing_lines(gathered.checklist.missing_in(sections))

    @property
    def question(self) -> Message:
        """The last message, after those of the conversation."""
        return question(self._window, self._missing, self._record_id)

    def parameters(self, own: AskedParameters, asked_before: ModelStarted | None) -> AskedParameters:
        """`own`: those of any request of its record. `asked_before`: the newest request of the agent itself."""
        room = REPLY_TOKENS if asked_before is None else asked_before.reserved_output_tokens
        agent = self._of.started
        settings = (agent.model_settings if agent is not None else None) or ModelSettings()
        cap = reply_cap(output_cap(room, settings.max_output_tokens), self._window)
        return own.model_copy(update={"max_output_tokens": cap})

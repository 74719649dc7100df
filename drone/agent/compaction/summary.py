"""The request for a summary: a record of its own, which asks the agent's model with the agent's own request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drone.agent.compaction.built import sections_in
from drone.agent.compaction.cuts import ContextWindow
from drone.agent.compaction.gathered import Gathered, request
from drone.agent.model_call import ModelCall, ask, failed
from drone.agent.ports.clipping import CHARACTERS_PER_TOKEN
from drone.agent.ports.messages import UserMessage
from drone.agent.ports.model import Ask, AskLater, ContextOverflow, Model, ModelError, PictureRefused
from drone.agent.ports.prefix import PrefixWatch
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Reservation
from drone.agent.state.prefix_of_run import PrefixOfRun
from drone.agent.state.record import RecordState
from drone.agent.turns.turn import Turn
from mcc.contracts.compaction import CompactedRecord
from mcc.contracts.entry import Origin
from mcc.contracts.ids import compaction_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage

AGENT = "compaction"
"""The agent of a record that holds a request for a summary."""

ATTEMPTS = 3
COMPACTION_FAILED = "compaction_failed"
"""Name of the step that says why an attempt at a summary failed."""

REQUEST_TOKENS = 600
"""Most tokens of the message that asks for a summary."""

MISSING_SHARE = 0.2
"""The part of the checklist's weight from which on a model is asked once more for what its summary lacks."""

_WORDS_PER_TOKEN = 0.6
_CUT = ("length", "content_filter", "refusal")
_FINAL = (AskLater, ContextOverflow, PictureRefused)
"""Errors after which the same request is not tried again."""


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """What a model wrote: its four `sections`, `missing` lines of the checklist that they lack, and what it took."""

    sections: str
    record_id: str
    model: str
    usage: Usage
    missing: int
    attempts: int


class SummaryRequest:
    """One summary of the conversation of `state`, of its first `messages` messages, up to the entry `through`."""

    def __init__(self, model: Model, turn: Turn, state: RecordState, allowance: Allowance, record_id: str) -> None:
        self._model = model
        self._turn = turn
        self._of = state
        self._allowance = allowance
        origin = state.origin
        self._origin = Origin(record_id=record_id, parent_id=origin.record_id, agent=AGENT, depth=origin.depth + 1)
        self._state = turn.tree.record(self._origin)

    async def written(self, asked: Ask, gathered: Gathered, through: CompactedRecord) -> WrittenSummary | None:
        """The summary; None where there is none: no attempt brought one, or the limits leave no room for it.

        `asked`: the agent's own next request, which this one repeats so that it is cached already. Raises
        `JournalError`.
        """
        window = gathered.window
        question = request(int(window.summary * _WORDS_PER_TOKEN), (), self._origin.record_id or "")
        if self._of.tokens_of_question() + REQUEST_TOKENS + window.summary > window.tokens:
            return None
        if self._state.started is None:
            await self._turn.journal.write(self._origin, self._started(question, through))
        transcript = self._of.conversation.transcript
        self._state.conversation.transcript.refused_pictures.update(transcript.refused_pictures)
        summary = await self._tried(asked, gathered)
        await self._end(summary)
        return summary

    def _started(self, question: str, through: CompactedRecord) -> AgentStarted:
        of = self._of.started
        assert of is not None
        return AgentStarted(
            title="Summary of the conversation",
            prompt=question,
            model=of.model,
            model_settings=of.model_settings,
            tools=of.tools,
            limits=of.limits,
            definition_digest=of.definition_digest,
            definition_origin=of.definition_origin,
            setup_digest=of.setup_digest,
            context=through,
        )

    async def _tried(self, asked: Ask, gathered: Gathered) -> WrittenSummary | None:
        best: WrittenSummary | None = None
        missing: Sequence[str] = ()
        replied = self._state.answer  # under an earlier drone
        for attempt in range(1, ATTEMPTS + 1):
            if replied is None:
                replied = await self._reply(asked, gathered.window, missing)
            if replied is None:
                if self._is_over:
                    break
                continue
            sections = None if replied.finish_reason in _CUT else sections_in(replied.text)
            if sections is None:
                self._note("the model wrote no summary: it lacks one of the four sections, or was cut off")
            else:
                lacking = gathered.checklist.missing_in(sections)
                record_id, usage = self._origin.record_id or "", self._state.used
                summary = WrittenSummary(sections, record_id, replied.model, usage, len(lacking.items), attempt)
                if best is None or summary.missing <= best.missing:
                    best = summary
                enough = lacking.weight <= MISSING_SHARE * gathered.checklist.weight
                if enough or missing:
                    break
                missing = lacking.within(REQUEST_TOKENS * CHARACTERS_PER_TOKEN)
            replied = None
        return best

    async def _reply(self, asked: Ask, window: ContextWindow, missing: Sequence[str]) -> ModelReplied | None:
        """The model's reply; None where an attempt failed, which is told."""
        tokens = self._of.tokens_of_question() + REQUEST_TOKENS
        reserved = self._allowance.reserve_beside(tokens, window.summary)
        if reserved is None:
            self._is_over = True
            self._note("the limits leave no room for a summary")
            return None
        return await self._asked(asked, window, missing, reserved)

    async def _asked(
        self, asked: Ask, window: ContextWindow, missing: Sequence[str], reserved: Reservation
    ) -> ModelReplied | None:
        words = int(window.summary * _WORDS_PER_TOKEN)
        last = UserMessage(request(words, missing, self._origin.record_id or ""))
        prefix = PrefixOfRun(self._state, PrefixWatch())  # compared with nothing: its record is of this request alone
        call = ModelCall(self._turn.journal, self._state, self._model.name, reserved, prefix)
        question = replace(
            asked,
            messages=(*asked.messages, last),
            max_output_tokens=max(asked.max_output_tokens or 0, window.summary + window.reply),
        )
        try:
            replied = await ask(self._model, lambda: question, call)
        except ModelError as error:
            self._is_over = isinstance(error, _FINAL)
            self._note(f"the model gave no reply: {error}", call.spent)
            return None
        except BaseException:
            if (spent := call.spent) is not None:
                self._turn.journal.defer(self._origin, failed("The summary was stopped before it was whole.", spent))
            raise
        finally:
            self._allowance.settle(reserved)
        unpriced = self._allowance.unpriced(replied.usage, replied.model)
        await self._turn.journal.write(self._origin, replied, *unpriced)
        return replied

    _is_over = False
    """Whether another attempt would end the same way."""

    def _note(self, why: str, usage: Usage | None = None) -> None:
        self._turn.journal.note(
            self._origin, AgentStep(name=COMPACTION_FAILED, message=f"No summary: {why}.", usage=usage)
        )

    async def _end(self, summary: WrittenSummary | None) -> None:
        ended = (
            AgentFinished(status=RecordStatus.FAILED, error="no attempt brought a summary", cause="model")
            if summary is None
            else AgentFinished(status=RecordStatus.COMPLETED, answer=summary.sections)
        )
        await self._turn.journal.write(self._origin, ended)
        self._state.conversation.transcript.clear()


def next_record(turn: Turn, state: RecordState) -> str:
    """Id of the record of the next summary: one that an earlier drone had begun, else a new one."""
    number = 0
    while True:
        record_id = compaction_record_id(state.origin.record_id or "", number)
        begun = turn.tree.begun(record_id)
        if begun is None or begun.finished is None:
            return record_id
        number += 1

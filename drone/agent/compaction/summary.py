"""The request for a summary: a record of its own, which asks the agent's model with the agent's own request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drone.agent.model_call import ModelCall, ask, failed
from drone.agent.ports.model import Ask, AskLater, ContextOverflow, Model, ModelError, PictureRefused, UnknownPrice
from drone.agent.ports.prefix import PrefixWatch
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Reservation
from drone.agent.state.prefix_of_run import PrefixOfRun
from drone.agent.state.record import RecordState
from drone.agent.turns.turn import ProviderWait, Turn
from mcc.contracts.compaction import CompactedRecord
from mcc.contracts.entry import Origin
from mcc.contracts.ids import compaction_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.usage import Usage
from mcc.transcript.compaction.cuts import ContextWindow
from mcc.transcript.compaction.gathered import Gathered
from mcc.transcript.compaction.question import REQUEST_TOKENS, missing_lines, question, reply_cap, sections_of

AGENT = "compaction"
"""The agent of a record that holds a request for a summary."""

ATTEMPTS = 3
COMPACTION_FAILED = "compaction_failed"
"""Name of the step that says why an attempt at a summary failed."""

NOT_CACHED = "not_cached"
"""Name of the step that says that a summary is asked of another model than the agent's."""

MISSING_SHARE = 0.2
"""The part of the checklist's weight from which on a model is asked once more for what its summary lacks."""

_FINAL = (AskLater, ContextOverflow, PictureRefused, UnknownPrice)
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


@dataclass(frozen=True, slots=True)
class AskedModel:
    """The model that is asked for a summary, and how many tokens it takes in. `is_own`: it is the agent's, so that the
    request finds the conversation in its provider's cache."""

    model: Model
    tokens: int
    is_own: bool = True

    def takes(self, tokens: int, window: ContextWindow) -> bool:
        """Whether it takes in a conversation of so many tokens, and the question, and has room for the summary."""
        return tokens + REQUEST_TOKENS + window.summary <= self.tokens


class SummaryRequest:
    """One summary of the conversation of `state`, of its first `messages` messages, up to the entry `through`."""

    def __init__(
        self,
        asked: AskedModel,
        turn: Turn,
        state: RecordState,
        allowance: Allowance,
        record_id: str,
        provider: ProviderWait | None = None,
    ) -> None:
        """`provider`: how its agent waits where the provider can be asked later only; None: it goes on without."""
        self._provider = provider
        self._asked_model = asked
        self._model = asked.model
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
        if self._state.finished is not None:
            return self._written_before(gathered)
        window = gathered.window
        asking = question(window, (), self._origin.record_id or "")
        if not self._asked_model.takes(self._of.tokens_of_question(), window):
            return None
        if self._state.started is None:
            await self._turn.journal.write(self._origin, self._started(asking.text, through), *self._told)
        if not self._asked_model.is_own:
            # What the agent's own model is told of how to think may not fit to another one.
            asked = replace(asked, thinking="inherit", temperature=None, service_tier=None)
        summary = await self._tried(asked, gathered)
        await self._end(summary)
        return summary

    def _written_before(self, gathered: Gathered) -> WrittenSummary:
        """The summary of a record that has ended: an earlier drone has asked and paid for it."""
        assert self._state.finished is not None
        sections, used = self._state.finished.answer or "", self._state.used
        started = self._state.started
        model = started.model.effective if started is not None and started.model is not None else self._model.name
        missing = len(gathered.checklist.missing_in(sections).items)
        return WrittenSummary(sections, self._origin.record_id or "", model, used, missing, self._state.rounds)

    def _started(self, prompt: str, through: CompactedRecord) -> AgentStarted:
        of, name = self._of.started, self._model.name
        assert of is not None
        return AgentStarted(
            title="Summary of the conversation",
            prompt=prompt,
            model=of.model if self._asked_model.is_own else ModelChoice(requested=name, effective=name),
            model_settings=of.model_settings if self._asked_model.is_own else None,
            tools=of.tools,
            limits=of.limits,
            definition_digest=of.definition_digest,
            definition_origin=of.definition_origin,
            setup_digest=of.setup_digest,
            context=through,
        )

    @property
    def _told(self) -> tuple[AgentStep, ...]:
        """The step that tells people that the request costs its full price."""
        if self._asked_model.is_own:
            return ()
        why = f"{self._model.name} writes the summary: nothing of the conversation is in its provider's cache."
        return (AgentStep(name=NOT_CACHED, message=why),)

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
            sections = sections_of(replied)
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
                missing = missing_lines(lacking)
            replied = None
        return best

    async def _reply(self, asked: Ask, window: ContextWindow, missing: Sequence[str]) -> ModelReplied | None:
        """The model's reply; None where an attempt failed, which is told."""
        tokens = self._of.tokens_of_question() + REQUEST_TOKENS
        while (reserved := self._allowance.reserve_beside(tokens, window.summary)) is not None:
            try:
                return await self._asked(asked, window, missing, reserved)
            except AskLater as refusal:  # no attempt of the model's: it has not been asked yet
                assert self._provider is not None
                await self._provider.until_over(refusal)
        self._is_over = True
        self._note("the limits leave no room for a summary")
        return None

    async def _asked(
        self, asked: Ask, window: ContextWindow, missing: Sequence[str], reserved: Reservation
    ) -> ModelReplied | None:
        """The same of one request. Raises `AskLater` where it is to be repeated after a wait; the journal says that."""
        last = question(window, missing, self._origin.record_id or "")
        prefix = PrefixOfRun(self._state, PrefixWatch())  # compared with nothing: its record is of this request alone
        call = ModelCall(self._turn.journal, self._state, self._model.name, reserved, prefix)
        repeated = replace(
            asked,
            messages=(*asked.messages, last),
            max_output_tokens=reply_cap(asked.max_output_tokens, window),
            waited_seconds=self._state.asking.waited_seconds,
        )
        try:
            replied = await ask(self._model, lambda: repeated, call)
        except ModelError as error:
            if isinstance(error, AskLater) and self._provider is not None and self._provider.final(error) is None:
                lost = () if call.spent is None else (failed(f"The model gave no reply: {error}", call.spent),)
                await self._turn.journal.write(self._origin, *lost, call.retry_entry(str(error), error.seconds))
                raise
            self._is_over = isinstance(error, _FINAL)
            self.ask_in_seconds = error.seconds if isinstance(error, AskLater) else None
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

    ask_in_seconds: float | None = None
    """After how long the provider can be asked again, where that is why there is no summary."""
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
    """Id of the record of the next summary: one that an earlier drone had begun, or had paid for and not used, else a
    new one."""
    number = 0
    while True:
        record_id = compaction_record_id(state.origin.record_id or "", number)
        begun = turn.tree.begun(record_id)
        if begun is None or begun.finished is None:
            return record_id
        is_whole = begun.finished.status is RecordStatus.COMPLETED
        # Of the messages that there are: nothing has taken the place of any since.
        is_usable = is_whole and begun.asking.replaced == state.asking.replaced
        if is_usable and record_id not in state.asking.summaries:
            return record_id
        number += 1

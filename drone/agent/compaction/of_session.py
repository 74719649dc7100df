"""The compaction of a session between its turns: an agent whose only work is the summary of what turns were shown."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from drone.agent.compaction.compaction import Compactor
from drone.agent.compaction.conversation import Began
from drone.agent.ports.model import Ask, AskHint, Model
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Share
from drone.agent.state.record import RecordState
from drone.agent.turns.turn import ProviderWait, Turn
from mcc.contracts.agents import INHERIT
from mcc.contracts.compaction import OWN_MODEL, Compaction, CompactionMoment, CompactionOutcome, CompactionTerms
from mcc.contracts.entry import Origin
from mcc.contracts.ids import compaction_record_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted
from mcc.contracts.limits import AgentLimits, LimitChoice
from mcc.contracts.order import ModelSettings, OrderOutcome, WorkOrder
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.transcript.asked import session_key
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN
from mcc.transcript.messages import ToolSpec
from mcc.transcript.opening import SessionOpening
from mcc.transcript.setup import Setup
from mcc.transcript.transcript import Transcript, length

TITLE = "Compaction of the session"
NOT_STORED = (
    "What the session's last turn told its model is not stored any more; it can be compacted after the next turn."
)
NOTHING = "Nothing was put away: the newest turns stay as they are, and there is nothing else."
NO_SUMMARY = "No attempt brought a summary; the session is shown as before. The record says why."


@dataclass(frozen=True, slots=True)
class TurnSetup:
    """What a turn told its model before the conversation, and the model: `text` as it is stored."""

    text: str
    setup: Setup
    model: ModelChoice
    settings: ModelSettings
    compaction: Compaction | None
    agent: str

    @classmethod
    def read(cls, text: str) -> "TurnSetup":
        """Raises ValueError, LookupError, TypeError for a text that is none."""
        stored = json.loads(text)
        definition: Mapping[str, object] = stored["definition"]
        names = ModelSettings.model_fields.keys() & definition.keys()
        settings = ModelSettings.model_validate(
            {name: definition[name] for name in names if definition[name] is not None}
        )
        compaction = definition.get("compaction")
        return cls(
            text,
            Setup.read(text, ()),
            ModelChoice.model_validate(stored["model"]),
            settings,
            None if compaction is None else Compaction.model_validate(compaction),
            str(definition["name"]),
        )

    def describing(self, names: Iterable[str], known: Mapping[str, ToolSpec]) -> "TurnSetup":
        """The same with these tools after its own, as far as they are `known`."""
        own = {spec.name for spec in self.setup.specs}
        more = tuple(known[name] for name in names if name in known.keys() - own)
        return replace(self, setup=replace(self.setup, specs=(*self.setup.specs, *more)))


class SessionCompaction:
    """Shortens what the session's next turn would be shown, by one summary for which it asks as that turn would ask.

    `model_of`: a model by its name, None = the default one. `deferred`: tools of which it describes those that were
    added during the last turn, as the last request of that did.
    """

    def __init__(
        self,
        order: WorkOrder,
        turn: Turn,
        opening: SessionOpening,
        model_of: Callable[[str | None], Model],
        terms: CompactionTerms,
        deferred: Sequence[ToolSpec] = (),
    ) -> None:
        self._record_id = root_record_id(order.id)
        self._turn = turn
        self._opening = opening
        self._model_of = model_of
        self._wanted = ModelSettings.of(order)
        self._terms = terms
        self._deferred = {spec.name: replace(spec, deferred=False) for spec in deferred}
        # Only one that nobody asked for waits until nobody speaks.
        self._reason: CompactionMoment = "asked" if order.not_before is None else "idle"

    async def run(self) -> OrderOutcome:
        """How it went. Raises `JournalError`, and what `model_of` does."""
        told = await self._told()
        if told is None:
            return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=NOT_STORED)
        model, requested = self._model_of(None), told.model.requested
        # A turn whose order named no model says which one the default was.
        if requested not in (INHERIT, model.name):
            model = self._model_of(requested)
        origin = Origin(record_id=self._record_id, parent_id=None, agent=told.agent, depth=0)
        state = self._turn.tree.record(origin)
        if state.started is None:
            await self._begin(origin, told, model)
        transcript = state.conversation.transcript
        before = len(told.setup.system) + sum(len(spec.description) for spec in told.setup.specs)
        transcript.open((one.message for one in self._opening.shown), before)
        limits = self._turn.budget.limits
        allowance = Allowance(self._turn.budget, Share.of(limits, AgentLimits(), 0), state)
        with (
            self._turn.router.entered(origin) as agent_control,
            self._turn.idle.moving(self._record_id, agent_control.block),
        ):
            provider = ProviderWait(self._turn, agent_control)
            try:
                async with self._wall_clock(allowance):
                    outcome = await self._compacted(model, state, allowance, told, provider)
            except TimeoutError:
                detail = f"The limit wall_seconds ({limits.wall_seconds:.10g}) is reached."
                await self._turn.journal.close(RecordStatus.FAILED, detail, self._record_id, "wall_seconds")
                return OrderOutcome(
                    status=OrderStatus.FAILED,
                    reason=FailureReason.LIMIT_REACHED,
                    detail=detail,
                    result=self._result(self._opening.characters).model_dump(),
                )
        done = outcome.status is OrderStatus.SUCCEEDED
        ended = AgentFinished(
            status=RecordStatus.COMPLETED if done else RecordStatus.FAILED,
            answer=outcome.answer,
            error=outcome.detail,
            cause=None if done else "model",
        )
        self._turn.journal.defer(origin, ended)
        return outcome

    @asynccontextmanager
    async def _wall_clock(self, allowance: Allowance) -> AsyncIterator[None]:
        """Context in which the order's wall clock runs; it stands while the order waits for the provider."""
        async with asyncio.timeout(max(0.0, allowance.seconds_left())) as scope:

            def keep_time(stands: bool) -> None:
                if not scope.expired():  # such a one cannot be rescheduled
                    left = max(0.0, allowance.seconds_left())
                    scope.reschedule(None if stands else asyncio.get_running_loop().time() + left)

            with self._turn.idle.watched(keep_time):
                yield

    async def _told(self) -> TurnSetup | None:
        """What the last turn told its model; None where that is not known."""
        begun, before = self._turn.tree.begun(self._record_id), self._opening.before
        started = None if begun is None else begun.started
        digest = started.setup_digest if started is not None else "" if before is None else before.setup_digest
        text = await self._turn.journal.kept(digest) if digest and self._opening.shown else None
        try:
            told = None if text is None else TurnSetup.read(text)
        except (ValueError, LookupError, TypeError):
            return None
        searched = started.tools if started is not None else () if before is None else before.found
        return told and told.describing(searched, self._deferred)

    async def _begin(self, origin: Origin, told: TurnSetup, model: Model) -> None:
        limits = self._turn.budget.limits
        started = AgentStarted(
            title=TITLE,
            prompt="",
            model=ModelChoice(requested=told.model.requested, effective=model.name),
            model_settings=self._wanted.over(told.settings),
            tools=tuple(spec.name for spec in told.setup.specs),
            limits=LimitChoice(effective=Share.of(limits, AgentLimits(), 0).as_limits()),
            definition_digest="",
            setup_digest=await self._turn.journal.keep(told.text),
            context=self._opening.context({}),
        )
        self._turn.budget.spawn_began(self._record_id)
        await self._turn.journal.write(origin, started, *self._opening.notes)

    async def _compacted(
        self, model: Model, state: RecordState, allowance: Allowance, told: TurnSetup, provider: ProviderWait
    ) -> OrderOutcome:
        transcript = state.conversation.transcript
        if not _is_shortened(transcript):  # else an earlier drone has got this far
            terms = self._terms.nearer(told.compaction)
            summing = None if terms.model == OWN_MODEL else self._model_of(terms.model)
            compactor = Compactor(model, provider, state, allowance, summing)
            compactor.begin(Began(0, self._opening.shown, 0, last_at=self._opening.last_at), terms)
            last = None if self._opening.before is None else self._opening.before.last
            known = None if last is None or last.model != model.name else last.window
            await compactor.between_turns(lambda: self._request(state, allowance, told), known, self._reason)
        if _is_shortened(transcript):
            result = self._result(sum(map(length, transcript.messages)))
            count = self._opening.count
            turns = "one turn" if count == 1 else f"{count} turns"
            before, after = result.tokens_before, result.tokens_after
            answer = f"What is shown of {turns} was shortened, from about {before:,} to {after:,} tokens."
            return OrderOutcome(status=OrderStatus.SUCCEEDED, answer=answer, result=result.model_dump())
        nothing = self._result(self._opening.characters).model_dump()
        if self._turn.tree.begun(compaction_record_id(self._record_id, 0)) is None:
            return OrderOutcome(status=OrderStatus.SUCCEEDED, answer=NOTHING, result=nothing)
        return OrderOutcome(
            status=OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR, detail=NO_SUMMARY, result=nothing
        )

    def _result(self, left: int) -> CompactionOutcome:
        """The result of the order where so many characters are `left` of what was shown."""
        before = self._opening.characters // CHARACTERS_PER_TOKEN
        return CompactionOutcome(tokens_before=before, tokens_after=left // CHARACTERS_PER_TOKEN)

    def _request(self, state: RecordState, allowance: Allowance, told: TurnSetup) -> Ask:
        """The request that the session's next turn would make, without its prompt."""
        settings = state.started.model_settings if state.started is not None else None
        asked = settings or self._wanted.over(told.settings)
        return Ask(
            system=told.setup.system,
            messages=state.conversation.transcript.messages,
            tools=told.setup.specs,
            tool_choice="auto",
            max_output_tokens=allowance.output_cap(asked.max_output_tokens),
            temperature=asked.temperature,
            thinking=asked.thinking,
            service_tier=asked.service_tier,
            cache_key=session_key(self._opening.session_id, told.agent),
            seconds=allowance.seconds_for_call(),
            call_seconds=allowance.share.model_call_seconds,
            priced_only=self._turn.budget.priced_only,
            free_only=self._turn.budget.free_only,
            hint=AskHint(),
        )


def _is_shortened(transcript: Transcript) -> bool:
    """Whether anything of it was put away, or replaced."""
    return transcript.summary is not None or bool(transcript.clips or transcript.put_away)

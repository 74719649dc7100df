"""Compaction of one agent's conversation: which step is taken when, and the journal entries that take it."""

import asyncio
from collections.abc import Callable

from drone.agent.compaction.conversation import Began, PlannedCut, ShownConversation
from drone.agent.compaction.pictures import ShownPictures
from drone.agent.compaction.summary import AskedModel, SummaryRequest, WrittenSummary, next_record
from drone.agent.compaction.words import shortened_words
from drone.agent.model_call import window_of
from drone.agent.ports.model import Ask, ContextOverflow, Model, ModelError, context_tokens
from drone.agent.spending.allowance import Allowance
from drone.agent.state.record import RecordState
from drone.agent.turns.turn import ProviderWait
from mcc.contracts.compaction import (
    CheckedSummary,
    Clipped,
    CompactedRecord,
    CompactionMoment,
    CompactionTerms,
    Stage,
    TranscriptCompacted,
)
from mcc.contracts.fence import unfenced
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN, PUT_AWAY, to_clip, to_cut
from mcc.transcript.compaction.built import sections_in, whole_lines
from mcc.transcript.compaction.cuts import (
    SMALL_WINDOW,
    ContextWindow,
    Freed,
    arguments_to_put_away,
    kept_from,
    lines_for,
    results_to_put_away,
    size,
)
from mcc.transcript.compaction.gathered import in_fence
from mcc.transcript.messages import ToolResult
from mcc.transcript.pictures import picture_characters

MOST_MEAGRE = 3
"""After so many compactions running that freed little, the oldest messages become lines."""

NOT_SHOWN = "## Not shown any more"


class Compactor:
    """Keeps one agent's conversation within the context of its model, through journal entries alone, so that a resumed
    run sends the same request.

    `request` in its methods makes the agent's next request. `provider`: how the agent waits for its provider, as it
    does for that of a summary without which it cannot go on. `summing`: the model that writes its summaries, None: its
    own.
    """

    def __init__(
        self,
        model: Model,
        provider: ProviderWait,
        state: RecordState,
        allowance: Allowance,
        summing: Model | None = None,
    ) -> None:
        self._turn = provider.turn
        self._model = model
        self._provider = provider
        self._summing = summing
        self._earlier: Model | None = None
        self._rolled_back = False
        self._is_busy, self._ask_at = False, 0.0
        self._state = state
        self._allowance = allowance
        self._terms = CompactionTerms()
        self._conversation = ShownConversation(provider.turn.tree, state)
        self.pictures = ShownPictures(model, provider.turn, state)
        self._beside: tuple[PlannedCut, asyncio.Task[WrittenSummary | None]] | None = None

    def begin(self, began: Began, terms: CompactionTerms) -> None:
        """Learn what the run began with, and when to compact."""
        self._terms = terms
        self._earlier, self._rolled_back = began.earlier, began.rolled_back
        self._conversation.begin(began)

    @property
    def _window(self) -> int | None:
        return window_of(self._model, self._state)

    async def fit(self, request: Callable[[], Ask]) -> None:
        """Make room if the next request is nearly too large, or has too many pictures. Raises `JournalError`."""
        await self.pictures.fit()
        if (tokens := self._window) is None:
            return
        window = ContextWindow(tokens)
        if self._beside is not None and (self._beside[1].done() or self._is_full(window)):
            await self._apply_beside(window)
        if self._is_full(window):
            first = self._rolled_back and self._state.rounds == 0
            await self._make_room(window, "rollback" if first else "full", request)
        elif self._beside is None and self._is_due(window) and not await self._put_away(window, "background", request):
            # A turn that is answered at once would drop it.
            may_ask = self._state.asking.meagre < MOST_MEAGRE and asyncio.get_running_loop().time() >= self._ask_at
            begins = may_ask and self._state.rounds > 0
            if begins and (cut := await self._cut(window)) is not None:
                self._beside = (cut, asyncio.create_task(self._summary_of(cut, request(), None)))

    async def _cut(self, window: ContextWindow) -> PlannedCut | None:
        """What a summary takes the place of: where an earlier drone has asked for one, what that was asked of, as the
        messages since then may be unknown to it."""
        begun = self._turn.tree.begun(next_record(self._turn, self._state))
        asked_of = None if begun is None or begun.started is None else begun.started.context
        if isinstance(asked_of, CompactedRecord):
            return await self._conversation.gathered(asked_of.messages, window)
        return await self._conversation.cut(window, self._terms.keep_turns)

    def _is_full(self, window: ContextWindow) -> bool:
        return window.is_full(self._state.tokens_of_question())

    def _is_due(self, window: ContextWindow) -> bool:
        """Whether the conversation is so long that it is shortened while the agent goes on."""
        return not window.is_small and self._state.tokens_of_question() >= self._terms.window_share * window.tokens

    async def _make_room(self, window: ContextWindow, reason: CompactionMoment, request: Callable[[], Ask]) -> None:
        """All steps in turn, until there is room."""
        await self._put_away(window, reason, request, needed=True)
        if window.is_too_full_to_sum_up(self._state.tokens_of_question()):
            await self._shorten_words(window, reason)
        if not (self._is_full(window) or self._is_due(window)):
            return
        await self._sum_up(window, reason, request)
        if self._is_full(window):
            await self._lines(window, reason)
        if self._is_full(window):
            await self._clip(window.tokens, reason, refused=False)

    async def shorten(self, overflow: ContextOverflow, request: Callable[[], Ask]) -> None:
        """Make room after the model refused a request as too large.

        Raises `JournalError`, and `ModelError` when nothing is left to shorten.
        """
        tokens = self._state.tokens_of_question()
        known = overflow.window or self._window
        window = ContextWindow(known or max(1, int(tokens * 0.6)))
        await self._stop_beside("its agent goes on without it")
        fits = tokens - to_cut(tokens, known, refused=True) // CHARACTERS_PER_TOKEN
        changed = await self._clip(known, "refused", refused=True)
        if not changed or self._state.tokens_of_question() > fits:
            changed = await self._put_away(window, "refused", request, needed=True) or changed
        if not changed or window.is_too_full_to_sum_up(self._state.tokens_of_question()):
            changed = await self._shorten_words(window, "refused") or changed
        if not changed or self._state.tokens_of_question() > fits:
            changed = await self._sum_up(window, "refused", request) or changed
        if not changed or self._state.tokens_of_question() > fits:
            changed = await self._lines(window, "refused") or changed
        if changed or await self.pictures.halve():
            return
        takes = f"{self._model.name} takes in{'' if known is None else f' ({known:,} tokens)'}"
        raise ModelError(
            f"What the agent was told at the beginning, and has said itself, is more than {takes}, and no tool result "
            f"is left to shorten: choose a model with a larger context, or a shorter task. {overflow}",
            status=overflow.status,
        ) from overflow

    async def _sum_up(self, window: ContextWindow, reason: CompactionMoment, request: Callable[[], Ask]) -> bool:
        """Let a summary take the place of the older messages; False where there is none."""
        if window.is_small or self._state.asking.meagre >= MOST_MEAGRE:
            return False
        cut = await self._cut(window)
        if cut is None:
            return False
        return await self._summarised(cut, await self._summary_of(cut, request(), self._provider), reason)

    async def between_turns(self, request: Callable[[], Ask], known: int | None, reason: CompactionMoment) -> None:
        """Sum up what a session's next turn is shown; unless a person asked, only where putting away old results and
        arguments does not pay. Where no attempt brings a summary, the oldest messages become a line each if they take
        more than half of the window.

        `known`: the size of the context, where the last turn has learned it. Raises `JournalError`.
        """
        await self.pictures.fit()
        tokens = self._state.tokens_of_question()
        sizes = [size for size in (self._window, known) if size is not None]
        window = ContextWindow(min(sizes, default=max(SMALL_WINDOW, 2 * tokens)))
        if reason != "asked" and await self._put_away(window, reason, request):
            return
        if not await self._sum_up(window, reason, request) and tokens > window.tokens // 2:
            await self._lines(window, reason)

    async def _put_away(
        self, window: ContextWindow, reason: CompactionMoment, request: Callable[[], Ask], *, needed: bool = False
    ) -> bool:
        """Put old results away, then arguments of old calls, where that pays or any room is `needed`; whether it was
        done."""
        transcript = self._state.conversation.transcript
        done = False
        is_cold = self._conversation.is_cold(self._model)
        freed = results_to_put_away(transcript.messages, transcript.clips, window)
        if freed.results and (needed or freed.pays(window, is_cold=is_cold)):
            clipped = tuple([await self._clipped(result, PUT_AWAY) for result in freed.results])
            await self._shortened("results", reason, clipped, freed)
            done = True
        writing = frozenset(spec.name for spec in request().tools if spec.may_write)
        freed = arguments_to_put_away(transcript.messages, transcript.put_away, writing, window)
        if freed.calls and (needed or freed.pays(window, is_cold=is_cold)):
            cut = [(call.call_id, to_json(call.arguments).decode()) for call in freed.calls]
            clipped = tuple(
                [
                    Clipped(call_id=call_id, kept=PUT_AWAY, characters=len(text), artifact=await self._keep(text))
                    for call_id, text in cut
                ]
            )
            await self._shortened("arguments", reason, clipped, freed)
            done = True
        return done

    async def _shortened(
        self, stage: Stage, reason: CompactionMoment, clipped: tuple[Clipped, ...], freed: Freed
    ) -> None:
        tokens = self._state.tokens_of_question()
        what = ("tool result was", "tool results were") if stage == "results" else ("call's arguments were",) * 2
        count = f"one {what[0]}" if len(clipped) == 1 else f"{len(clipped)} {what[1]}"
        ids = tuple(clip.call_id for clip in clipped)
        await self._write(
            TranscriptCompacted(
                stage=stage,
                reason=reason,
                message=f"The conversation became long: {count} put away, {freed.characters:,} characters.",
                clipped=clipped,
                cleared_call_ids=ids if stage == "results" else (),
                cut_call_ids=ids if stage == "arguments" else (),
                window_tokens=self._window,
                tokens_before=tokens,
                tokens_after=max(0, tokens - self._tokens(freed.characters)),
            )
        )

    def _tokens(self, characters: int) -> int:
        return int(characters * self._state.asking.estimate.per_character)

    async def _summary_of(self, cut: PlannedCut, asked: Ask, provider: ProviderWait | None) -> WrittenSummary | None:
        """The summary; `provider` None: one for which nobody waits, so that it does not wait for its provider."""
        await self._turn.journal.write(self._state.origin)
        record_id, asks = next_record(self._turn, self._state), self._asked_for_summary(cut)
        request = SummaryRequest(asks, self._turn, self._state, self._allowance, record_id, provider)
        through = 0 if cut.kept_from is None else cut.kept_from.seq
        of = CompactedRecord(of=self._state.origin.record_id or "", through=through, messages=cut.at)
        summary = await request.written(asked, cut.gathered, of)
        self._is_busy = request.ask_in_seconds is not None
        self._ask_at = asyncio.get_running_loop().time() + (request.ask_in_seconds or 0.0)
        return summary

    def _asked_for_summary(self, cut: PlannedCut) -> AskedModel:
        """The model that writes the summary: one that is meant to, else the agent's own, unless what is shown is too
        long for it and came from another one."""
        if self._summing is not None:
            return AskedModel(self._summing, context_tokens(self._summing) or cut.gathered.window.tokens, is_own=False)
        asked = AskedModel(self._model, cut.gathered.window.tokens)
        if self._earlier is None or asked.takes(self._state.tokens_of_question(), cut.gathered.window):
            return asked
        return AskedModel(self._earlier, context_tokens(self._earlier) or asked.tokens, is_own=False)

    async def _summarised(self, cut: PlannedCut, summary: WrittenSummary | None, reason: CompactionMoment) -> bool:
        """Let the summary take the place of what it is of; False when there is none."""
        if summary is None:
            return False
        kept = cut.gathered.kept
        checked = CheckedSummary(kept=len(kept), missing=summary.missing, attempts=summary.attempts)
        count = cut.at
        fact = self._replaced("summary", reason, cut, summary.sections, f"a summary took the place of {count} messages")
        await self._write(
            fact.model_copy(
                update={
                    "checklist": checked,
                    "model": summary.model,
                    "usage": summary.usage,
                    "record_id": summary.record_id,
                }
            )
        )
        return True

    def _replaced(
        self, stage: Stage, reason: CompactionMoment, cut: PlannedCut, sections: str, what: str
    ) -> TranscriptCompacted:
        messages = self._state.conversation.transcript.messages
        text = cut.gathered.message(sections, cut.environment, f"{self._state.origin.record_id} {stage} {cut.at}")
        tokens = self._state.tokens_of_question()
        freed = sum(map(size, messages[: cut.at])) - len(text)
        return TranscriptCompacted(
            stage=stage,
            reason=reason,
            message=f"The conversation became long: {what}.",
            kept_from=cut.kept_from,
            kept_messages=len(messages) - cut.at,
            summary=text,
            parts=cut.gathered.parts,
            window_tokens=self._window,
            tokens_before=tokens,
            tokens_after=max(0, tokens - self._tokens(freed)),
        )

    async def _lines(self, window: ContextWindow, reason: CompactionMoment) -> bool:
        """Without a model: the oldest messages become a line each, until half of the window is free."""
        messages, places = self._conversation.with_places()
        half = window.tokens // 2
        others = self._state.tokens_of_question() - self._tokens(sum(map(size, messages)))
        most = max(0, half - others) * CHARACTERS_PER_TOKEN
        at = kept_from(messages, 0, most)
        transcript = self._state.conversation.transcript
        if at is None or (at == 1 and transcript.summary is not None):
            return False
        cut = await self._conversation.gathered(at, window)
        summed_up = in_fence(transcript.summary or "")
        before = sections_in(summed_up) or ""
        start = 1 if transcript.summary is not None else 0
        lines = summed_up.partition(f"{NOT_SHOWN}\n")[2].partition("\n\n")[0].split("\n")
        lines += lines_for(messages[start:at], [turn for turn, _ in places[start:at]])
        room = max(0, cut.gathered.characters // 2 - len(NOT_SHOWN))
        listed = "\n".join((NOT_SHOWN, *reversed(whole_lines("\n".join(reversed(lines)), room).split("\n"))))
        sections = "\n\n".join(filter(None, (listed, before)))
        await self._write(self._replaced("handles", reason, cut, sections, f"{at} messages became a line each"))
        return True

    async def _clip(self, window: int | None, reason: CompactionMoment, *, refused: bool) -> bool:
        """Shorten tool results, storing each whole one as an artifact; False when none could be shortened."""
        transcript, tokens = self._state.conversation.transcript, self._state.tokens_of_question()
        to_shorten = to_clip(transcript.messages, transcript.clips, to_cut(tokens, window, refused=refused))
        clipped = [(result, await self._clipped(result, kept)) for result, kept in to_shorten]
        if not clipped:
            return False
        cut = sum(len(result.content) + picture_characters(result.pictures) - clip.kept for result, clip in clipped)
        place = "the model's context" if window is None else f"the model's context of {window:,} tokens"
        results = "one tool result was" if len(clipped) == 1 else f"{len(clipped)} tool results were"
        await self._write(
            TranscriptCompacted(
                stage="clip",
                reason=reason,
                message=f"The conversation did not fit into {place}: {results} shortened, by {cut:,} characters.",
                clipped=tuple(clip for _, clip in clipped),
                window_tokens=window,
                tokens_before=tokens,
                tokens_after=max(0, tokens - cut // CHARACTERS_PER_TOKEN),
            )
        )
        return True

    async def _shorten_words(self, window: ContextWindow, reason: CompactionMoment) -> bool:
        """Show beginning and end of what people have just said at great length; False where there is none."""
        fact = await shortened_words(self._state, self._keep, window, reason)
        if fact is not None:
            await self._write(fact)
        return fact is not None

    async def _clipped(self, result: ToolResult, kept: int) -> Clipped:
        before = self._state.conversation.transcript.clips.get(result.call_id)
        if before is not None:
            return before.model_copy(update={"kept": kept})
        characters = len(result.content)  # may be below `kept` for a result with images: then only the images are cut
        artifact = await self._keep(unfenced(result.content))
        return Clipped(call_id=result.call_id, kept=min(kept, characters), characters=characters, artifact=artifact)

    async def _keep(self, text: str) -> str:
        return await self._turn.artifacts.keep(text)

    async def _write(self, fact: TranscriptCompacted) -> None:
        await self._turn.journal.write(self._state.origin, fact)
        if fact.summary is not None:
            self._turn.artifacts.put_away()

    async def _apply_beside(self, window: ContextWindow) -> None:
        """Apply the summary that was written while the agent went on, once it is there."""
        assert self._beside is not None
        cut, writing = self._beside
        summary = await writing
        self._beside = None
        done = await self._summarised(cut, summary, "background")
        if not (done or self._is_busy or self._is_full(window)):
            await self._lines(window, "background")

    def stop(self) -> None:
        """Stop a summary that nobody waits for any more."""
        if self._beside is not None:
            self._beside[1].cancel()

    async def _stop_beside(self, why: str) -> None:
        """The same, and close its record, or one that an earlier drone had begun. Raises `JournalError`."""
        if self._beside is not None:
            self._beside[1].cancel()
            await asyncio.wait([self._beside[1]])
            self._beside = None
        record_id = next_record(self._turn, self._state)
        if (begun := self._turn.tree.begun(record_id)) is not None and begun.finished is None:
            await self._turn.journal.close(RecordStatus.CANCELLED, why, under=record_id)

    async def end(self) -> None:
        """Close what is still open when the agent ends. Raises `JournalError`."""
        await self._stop_beside("its agent ended before it was whole")

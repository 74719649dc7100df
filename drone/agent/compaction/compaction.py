"""Compaction of one agent's conversation: which step is taken when, and the journal entries that take it."""

import asyncio
from collections.abc import Callable

from drone.agent.compaction.built import sections_in, whole_lines
from drone.agent.compaction.conversation import Began, PlannedCut, ShownConversation
from drone.agent.compaction.cuts import (
    SMALL_WINDOW,
    ContextWindow,
    Freed,
    arguments_to_put_away,
    kept_from,
    lines_for,
    results_to_put_away,
    size,
)
from drone.agent.compaction.gathered import in_fence
from drone.agent.compaction.summary import SummaryRequest, WrittenSummary, next_record
from drone.agent.model_call import window_of
from drone.agent.ports.clipping import CHARACTERS_PER_TOKEN, PUT_AWAY, to_clip, to_cut
from drone.agent.ports.messages import ToolResult
from drone.agent.ports.model import Ask, ContextOverflow, Model, ModelError, PictureRefused
from drone.agent.ports.pictures import next_to_drop, picture_characters
from drone.agent.ports.transcript import PICTURE_REFUSED
from drone.agent.spending.allowance import Allowance
from drone.agent.state.record import RecordState
from drone.agent.turns.turn import Turn
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
from mcc.contracts.journal import AgentStep
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json

MOST_MEAGRE = 3
"""After so many compactions running that freed little, the oldest messages become lines."""

LINES_SHARE = 8
NOT_SHOWN = "## Not shown any more"


class Compactor:
    """Keeps one agent's conversation within the context of its model, through journal entries alone, so that a resumed
    run sends the same request.

    `request` in its methods makes the agent's next request.
    """

    def __init__(self, model: Model, turn: Turn, state: RecordState, allowance: Allowance) -> None:
        self._model = model
        self._turn = turn
        self._state = state
        self._allowance = allowance
        self._terms = CompactionTerms()
        self._conversation = ShownConversation(turn.tree, state)
        self._beside: tuple[PlannedCut, asyncio.Task[WrittenSummary | None]] | None = None

    def begin(self, began: Began, terms: CompactionTerms) -> None:
        """Learn what the run began with, and when to compact."""
        self._terms = terms
        self._conversation.begin(began)

    @property
    def _window(self) -> int | None:
        return window_of(self._model, self._state)

    async def fit(self, request: Callable[[], Ask]) -> None:
        """Make room if the next request is nearly too large. Raises `JournalError`."""
        if (tokens := self._window) is None:
            return
        window = ContextWindow(tokens)
        if self._beside is not None and (self._beside[1].done() or self._is_full(window)):
            await self._apply_beside(window)
        if self._is_full(window):
            await self._make_room(window, "full", request)
        elif self._beside is None and self._is_due(window) and not await self._put_away(window, "background", request):
            cut = await self._cut(window) if self._state.asking.meagre < MOST_MEAGRE else None
            if cut is not None:
                self._beside = (cut, asyncio.create_task(self._summary_of(cut, request())))

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
        if await self._put_away(window, reason, request, needed=True) and not (
            self._is_full(window) or self._is_due(window)
        ):
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
        if not changed or self._state.tokens_of_question() > fits:
            changed = await self._sum_up(window, "refused", request) or changed
        if not changed or self._state.tokens_of_question() > fits:
            changed = await self._lines(window, "refused") or changed
        if changed:
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
        return cut is not None and await self._summarised(cut, await self._summary_of(cut, request()), reason)

    async def between_turns(self, request: Callable[[], Ask], known: int | None) -> None:
        """Sum up what a session's next turn is shown, as a person asked. Where no attempt brings a summary, the oldest
        messages become a line each if they take more than half of the window.

        `known`: the size of the context, where the last turn has learned it. Raises `JournalError`.
        """
        tokens = self._state.tokens_of_question()
        sizes = [size for size in (self._window, known) if size is not None]
        window = ContextWindow(min(sizes, default=max(SMALL_WINDOW, 2 * tokens)))
        if not await self._sum_up(window, "asked", request) and tokens > window.tokens // 2:
            await self._lines(window, "asked")

    async def drop_picture(self, refused: PictureRefused) -> None:
        """Leave out the picture, or pictures, for which the model refused a request, for good.

        Raises `JournalError`, and the refusal when no picture is left.
        """
        transcript = self._state.conversation.transcript
        digests = next_to_drop(transcript.messages, transcript.refused_pictures, str(refused), refused.digest)
        if not digests:
            raise ModelError(str(refused), status=refused.status) from refused
        what = "a picture is" if len(digests) == 1 else f"{len(digests)} pictures are"
        said = f"{self._model.name} refused a request for what it shows, so {what} left out from now on. {refused}"
        await self._write(AgentStep(name=PICTURE_REFUSED, message=said, pictures=tuple(digests)))

    async def _put_away(
        self, window: ContextWindow, reason: CompactionMoment, request: Callable[[], Ask], *, needed: bool = False
    ) -> bool:
        """Put old results away, then arguments of old calls, where that pays or any room is `needed`; whether it was
        done."""
        transcript = self._state.conversation.transcript
        done = False
        freed = results_to_put_away(transcript.messages, transcript.clips, window)
        if freed.results and (needed or freed.pays(window)):
            clipped = tuple([await self._clipped(result, PUT_AWAY) for result in freed.results])
            await self._shortened("results", reason, clipped, freed)
            done = True
        writing = frozenset(spec.name for spec in request().tools if spec.may_write)
        freed = arguments_to_put_away(transcript.messages, transcript.put_away, writing, window)
        if freed.calls and (needed or freed.pays(window)):
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

    async def _summary_of(self, cut: PlannedCut, asked: Ask) -> WrittenSummary | None:
        await self._turn.journal.write(self._state.origin)
        request = SummaryRequest(
            self._model, self._turn, self._state, self._allowance, next_record(self._turn, self._state)
        )
        through = 0 if cut.kept_from is None else cut.kept_from.seq
        of = CompactedRecord(of=self._state.origin.record_id or "", through=through, messages=cut.at)
        return await request.written(asked, cut.gathered, of)

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

    async def _clipped(self, result: ToolResult, kept: int) -> Clipped:
        before = self._state.conversation.transcript.clips.get(result.call_id)
        if before is not None:
            return before.model_copy(update={"kept": kept})
        characters = len(result.content)  # may be below `kept` for a result with images: then only the images are cut
        artifact = await self._keep(unfenced(result.content))
        return Clipped(call_id=result.call_id, kept=min(kept, characters), characters=characters, artifact=artifact)

    async def _keep(self, text: str) -> str:
        return await self._turn.artifacts.keep(text)

    async def _write(self, *facts: TranscriptCompacted | AgentStep) -> None:
        await self._turn.journal.write(self._state.origin, *facts)
        if any(isinstance(fact, TranscriptCompacted) and fact.summary is not None for fact in facts):
            self._turn.artifacts.put_away()

    async def _apply_beside(self, window: ContextWindow) -> None:
        """Apply the summary that was written while the agent went on, once it is there."""
        assert self._beside is not None
        cut, writing = self._beside
        summary = await writing
        self._beside = None
        if not await self._summarised(cut, summary, "background") and not self._is_full(window):
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
        if self._turn.tree.begun(record_id) is not None:
            await self._turn.journal.close(RecordStatus.CANCELLED, why, under=record_id)

    async def end(self) -> None:
        """Close what is still open when the agent ends. Raises `JournalError`."""
        await self._stop_beside("its agent ended before it was whole")

"""The context of a model: an agent's question is made to fit into it, by shortening what the agent has read."""

from drone.agent.artifacts import TOGETHER
from drone.agent.clipping import to_clip, to_cut
from drone.agent.estimate import CHARACTERS_PER_TOKEN
from drone.agent.messages import ToolResult
from drone.agent.model import ContextOverflow, Model, ModelError, context_tokens
from drone.agent.pictures import seen
from drone.agent.record import RecordState
from drone.agent.turn import Turn
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import Clipped, TranscriptCompacted

REPLY_TOKENS = 4_096
"""Room that is left for a reply, in a small context an eighth of it."""

FEWEST_CHARACTERS = 3
"""Characters that a token of a tool's result is believed to have, when it is asked how many fit."""


class Context:
    """Of one run. Tool results are cut in the state by a journal entry, so whoever goes on asks the same question."""

    def __init__(self, model: Model, turn: Turn, state: RecordState) -> None:
        self._model = model
        self._turn = turn
        self._state = state

    @property
    def window(self) -> int | None:
        """The tokens that the model takes in; None where nobody knows yet."""
        known = (self._state.window, context_tokens(self._model))
        return min((tokens for tokens in known if tokens), default=None)

    def room(self) -> int:
        """Characters that the results of one reply's calls may tell together: at most half of what is left."""
        window = self.window
        if window is None:
            return TOGETHER
        return min(TOGETHER, max(0, window - self._state.tokens_of_question()) // 2 * FEWEST_CHARACTERS)

    async def fit(self) -> None:
        """Shorten what was read, where the question is known to be too large. Raises `JournalError`."""
        window = self.window
        if window is not None and self._state.tokens_of_question() + min(REPLY_TOKENS, window // 8) > window:
            await self._clip(window, refused=False)

    async def shorten(self, overflow: ContextOverflow) -> None:
        """Shorten what was read, since the model did not take it in.

        Raises `JournalError`, and `ModelError` where nothing is left to shorten.
        """
        window = overflow.window or self.window
        if await self._clip(window, refused=True):
            return
        takes = f"{self._model.name} takes in{'' if window is None else f' ({window:,} tokens)'}"
        raise ModelError(
            f"What the agent was told at the beginning, and said itself, is more than {takes}, and no tool result is "
            f"left to shorten: take a model with a larger context, or a shorter task. {overflow}",
            status=overflow.status,
        ) from overflow

    async def _clip(self, window: int | None, *, refused: bool) -> bool:
        """Whether any tool result was shortened; the whole of it is kept as an artifact."""
        transcript, tokens = self._state.transcript, self._state.tokens_of_question()
        found = to_clip(transcript.messages, transcript.clips, to_cut(tokens, window, refused=refused))
        clipped = [(result, await self._clipped(result, kept)) for result, kept in found]
        if not clipped:
            return False
        cut = sum(len(result.content) + seen(result.pictures) - one.kept for result, one in clipped)
        size = "the model's context" if window is None else f"the model's context of {window:,} tokens"
        results = "one tool result was" if len(clipped) == 1 else f"{len(clipped)} tool results were"
        fact = TranscriptCompacted(
            summary=f"The conversation did not fit into {size}: {results} shortened, by {cut:,} characters.",
            clipped=tuple(one for _, one in clipped),
            window_tokens=window,
            tokens_before=tokens,
            tokens_after=max(0, tokens - cut // CHARACTERS_PER_TOKEN),
        )
        await self._turn.journal.write(self._state.origin, fact)
        return True

    async def _clipped(self, result: ToolResult, kept: int) -> Clipped:
        before = self._state.transcript.clips.get(result.call_id)
        if before is not None:
            return before.model_copy(update={"kept": kept})
        artifact = await self._turn.artifacts.kept(unfenced(result.content))
        characters = len(result.content)  # of a result with pictures they may be fewer than are left: the pictures go
        return Clipped(call_id=result.call_id, kept=min(kept, characters), characters=characters, artifact=artifact)

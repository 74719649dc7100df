"""Which pictures of one agent's conversation its model is not shown any more, each choice an entry of the journal."""

from collections.abc import Collection

from drone.agent.model_call import window_of
from drone.agent.ports.model import Model, ModelError, PictureRefused, TooManyPictures, picture_limits
from drone.agent.state.record import RecordState
from drone.agent.turns.turn import Turn
from mcc.contracts.compaction import CompactionMoment, TranscriptCompacted
from mcc.transcript.pictures import (
    PictureLimits,
    next_to_drop,
    picture_characters,
    put_away,
    shown_pictures,
)


class ShownPictures:
    """Keeps the pictures of a conversation within what its model is shown at once and takes, through entries that last:
    no request chooses among them by itself."""

    def __init__(self, model: Model, turn: Turn, state: RecordState) -> None:
        self._model = model
        self._turn = turn
        self._state = state

    async def fit(self) -> None:
        """Put the oldest pictures away if the model is shown fewer. Raises `JournalError`."""
        limits = picture_limits(self._model)
        if limits.most:
            await self._keep_within(limits)

    async def drop(self, refused: PictureRefused) -> None:
        """Leave out the picture, or pictures, for which the model refused a request, for good.

        Raises `JournalError`, and the refusal when no picture is left.
        """
        transcript = self._state.conversation.transcript
        if isinstance(refused, TooManyPictures):  # a fallback is shown fewer than the first model
            if await self._keep_within(refused.limits):
                return
            raise ModelError(str(refused)) from refused
        digests = refused.suspects or next_to_drop(
            transcript.messages, transcript.hidden.refused, str(refused), refused.digest
        )
        if not digests:
            raise ModelError(str(refused), status=refused.status) from refused
        what = f"{_count(digests)} left out from now on"
        if refused.suspects:
            why = "refused a request without saying for what; it never answered one with these pictures"
        else:
            why = "refused a request for what it shows"
        await self._hide(digests, "refused", f"{self._model.name} {why}, so {what}. {refused}")

    async def halve(self) -> bool:
        """Put the older half of the pictures away, where nothing else is left that would make a request shorter; False
        where none is shown. Raises `JournalError`."""
        messages = self._state.conversation.transcript.messages
        digests = list(dict.fromkeys(picture.image.artifact for picture in shown_pictures(messages)))
        gone = digests[: (len(digests) + 1) // 2]
        if gone and picture_limits(self._model).most:
            said = f"The conversation did not fit into the model's context: {_count(gone)} put away."
            await self._hide(gone, "full", said)
            return True
        return False

    async def _keep_within(self, limits: PictureLimits) -> bool:
        """Put the oldest pictures away where these limits are passed; whether they were."""
        gone = put_away(shown_pictures(self._state.conversation.transcript.messages), limits)
        if gone:
            most = f"at most {limits.most} pictures, of {limits.characters / 1_000_000:g} MB"
            said = f"A request shows {most}: {_count(gone)} put away, the oldest first."
            await self._hide(gone, "images", said)
        return bool(gone)

    async def _hide(self, digests: Collection[str], reason: CompactionMoment, said: str) -> None:
        state = self._state
        tokens = state.tokens_of_question()
        pictures = shown_pictures(state.conversation.transcript.messages)
        freed = picture_characters(picture for picture in pictures if picture.image.artifact in digests)
        await self._turn.journal.write(
            state.origin,
            TranscriptCompacted(
                stage="images",
                reason=reason,
                message=said,
                pictures=tuple(digests),
                window_tokens=window_of(self._model, state),
                tokens_before=tokens,
                tokens_after=max(0, tokens - int(freed * state.asking.estimate.per_character)),
            ),
        )


def _count(digests: Collection[str]) -> str:
    return "a picture is" if len(digests) == 1 else f"{len(digests)} pictures are"

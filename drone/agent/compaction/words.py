"""What people have just said, where it is too long to be shown as a whole: no summary can take its place before the
model has read it."""

from collections.abc import Awaitable, Callable

from drone.agent.state.record import RecordState
from mcc.contracts.compaction import CompactionMoment, ShortenedWords, TranscriptCompacted
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN
from mcc.transcript.compaction.cuts import ContextWindow, rounds_from
from mcc.transcript.messages import UserMessage
from mcc.transcript.previews import preview, where_to_read
from mcc.transcript.transcript import request_in


async def shortened_words(
    state: RecordState, keep: Callable[[str], Awaitable[str]], window: ContextWindow, reason: CompactionMoment
) -> TranscriptCompacted | None:
    """The entry after which of words that take more than a quarter of the window, and that the model has not answered
    yet, beginning and end are shown; None without such. `keep` stores the whole, and answers its digest.

    Raises `JournalError`.
    """
    transcript, tokens = state.conversation.transcript, state.tokens_of_question()
    messages, most = transcript.messages, window.tokens // 4 * CHARACTERS_PER_TOKEN
    unread = rounds_from(messages, 1)
    words: list[ShortenedWords] = []
    cut = 0
    for place, message in enumerate(messages[unread:], start=unread):
        if not isinstance(message, UserMessage) or not message.by_person:
            continue
        asked = request_in(message.text)
        if len(asked) <= most:
            continue
        artifact = await keep(asked)
        short = preview(asked, most, where_to_read(artifact, transcript.readable), len(asked))
        text = f"{message.text.removesuffix(asked)}{short}"
        if len(text) >= len(message.text):  # as short as it can be told: nothing would change, for ever
            continue
        words.append(ShortenedWords(position=len(messages) - place, text=text, artifact=artifact))
        cut += len(message.text) - len(text)
    if not words:
        return None
    said = f"What a person said takes more than a quarter of the window: {cut:,} characters of it are not shown."
    return TranscriptCompacted(
        reason=reason,
        message=said,
        words=tuple(words),
        window_tokens=window.tokens,
        tokens_before=tokens,
        tokens_after=max(0, tokens - int(cut * state.asking.estimate.per_character)),
    )

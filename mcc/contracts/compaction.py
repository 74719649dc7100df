"""How a conversation is compacted: settings of an agent or an operator, and what a compaction's entry says of it."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.fact import NotedFact
from mcc.contracts.order import ModelName
from mcc.contracts.shape import LIST_AS_TUPLE, Closed, Text
from mcc.contracts.usage import Usage

Stage: TypeAlias = Literal["clip", "results", "arguments", "summary", "handles", "images"]
"""What was done: results were shortened (`clip`), or put away, or arguments of calls were; a summary or lines took the
place of the oldest messages; pictures were put away."""

CompactionMoment: TypeAlias = Literal["background", "full", "refused", "idle", "asked", "rollback", "images"]
"""When: while the agent went on, before its window was full, after its model refused a request as too long or for a
picture in it, after a turn, when a person asked, before a turn that came after a rollback, and for a limit on pictures.
"""

WindowShare = Annotated[float, Field(gt=0, le=0.9, allow_inf_nan=False)]
OWN_MODEL = "inherit"
KeptTurns = Annotated[int, Field(ge=0, le=100)]


class Compaction(Closed):
    """When an agent's conversation is compacted, and what stays as it is. None: as the operator says.

    `model`: writes the summaries; "inherit": the agent's own, whose provider has the conversation in its cache.
    `window_share`: the part of the model's context from which on it is summarised while the agent goes on.
    `keep_turns`: the newest turns that a summary leaves as they are.
    """

    model: ModelName | None = None

    window_share: WindowShare | None = None
    keep_turns: KeptTurns | None = None


class CompactionTerms(Closed):
    """The same, in effect.

    `idle`: a session is compacted between its turns, shortly before the provider's cache of it expires, if its last
    turn took at least `idle_share` of the model's context.
    """

    model: ModelName = OWN_MODEL
    window_share: WindowShare = 0.7
    keep_turns: KeptTurns = 2
    idle: bool = True
    idle_share: WindowShare = 0.5

    def nearer(self, own: Compaction | None) -> "CompactionTerms":
        """These terms with what `own` says instead."""
        if own is None:
            return self
        return self.model_copy(update=own.model_dump(exclude_none=True))


DEFAULT_TERMS = CompactionTerms()


class Clipped(Closed):
    """A tool result of which the model sees only beginning and end from now on: `kept` of its `characters`; 0: only
    where the whole can be read. In the stages `arguments`, the arguments of that call.

    `artifact` is the digest under which the full text is stored.
    """

    call_id: str
    kept: int
    characters: int
    artifact: str


class ShortenedWords(Closed):
    """A person's words of which the model sees only beginning and end from now on, `text`: those of the message at this
    `position` from the end, 1 = the last one. `artifact` is the digest under which they are stored as a whole."""

    position: Annotated[int, Field(ge=1)]
    text: Text
    artifact: str


class KeptFrom(Closed):
    """The first message that stayed as it was: the order and the number of the entry that made it."""

    order_id: str
    seq: int


class CarriedWords(Closed):
    """What a person said, as a summary has it; `place`: TURN/SEQ of the entry that has all of it."""

    text: Text
    place: str = ""


class CompactedParts(Closed):
    """What a summary holds that the next one takes over as it is: people's words, lines about agents, and the lines
    that code kept."""

    words: Annotated[tuple[CarriedWords, ...], LIST_AS_TUPLE] = ()
    agents: Annotated[tuple[Text, ...], LIST_AS_TUPLE] = ()
    kept: Annotated[tuple[Text, ...], LIST_AS_TUPLE] = ()


NOTHING_CARRIED = CompactedParts()


class CheckedSummary(Closed):
    """How much of the checklist the model's summary had: lines that code kept, lines that the model had left out, and
    how often it was asked."""

    kept: int
    missing: int
    attempts: int


class CompactedRecord(Closed):
    """What a summary was asked of: the record `of`, its first `messages` messages, through the entry `through` (0: of
    turns before its own)."""

    of: str
    through: int
    messages: int


LITTLE = 0.1
"""A compaction that frees a smaller share than this has freed little; a session that changes by less stays the same."""


class CompactionOutcome(Closed):
    """The result of an order that compacts a session: about how many tokens of it its next turn would have been shown,
    and is shown now."""

    tokens_before: int
    tokens_after: int

    def is_repeated_at(self, tokens: int) -> bool:
        """Whether another one would cost as much and free as little: this one freed little, and the next turn is shown
        so many `tokens`, hardly more or less than it left."""
        freed_little = self.tokens_after > (1 - LITTLE) * self.tokens_before
        return freed_little and abs(tokens - self.tokens_after) < LITTLE * self.tokens_after


class TranscriptCompacted(NotedFact):
    """The model's transcript was shortened; `message` tells people how, `stage` and `reason` what was done and when.

    `clipped`: tool results that were shortened or put away (`cleared_call_ids`), or calls whose arguments were
    (`cut_call_ids`). `words`: what people said that was shortened. `summary`: what the model reads in place of all
    messages but the last `kept_messages`, the first of which is that of the entry `kept_from` (None: none is left);
    `parts` of it are carried into the next one.
    `pictures`: digests of those that are not shown any more, as they are too many (`reason` "images"), refused by a
    provider ("refused"; not shown either where they come again) or too large. `checklist`: how much of what had to be
    kept the model's summary had; `record_id`: that of the request for it, `model` and `usage` its own, which are not
    added again. `base`: digest of the session's stored context. `window_tokens`: the model's context window, None =
    unknown. `tokens_before`, `tokens_after`: estimated size of the request.
    """

    kind: ClassVar[str] = "transcript.compacted"
    stage: Stage = "clip"
    reason: CompactionMoment = "full"
    message: Text
    clipped: tuple[Clipped, ...] = ()
    cleared_call_ids: tuple[str, ...] = ()
    cut_call_ids: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    words: tuple[ShortenedWords, ...] = ()
    kept_from: KeptFrom | None = None
    kept_messages: int | None = None
    summary: Text | None = None
    parts: CompactedParts | None = None
    checklist: CheckedSummary | None = None
    window_tokens: int | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    model: str | None = None
    usage: Usage | None = None
    record_id: str | None = None
    base: str | None = None

    @property
    def in_words(self) -> Text:
        return self.message

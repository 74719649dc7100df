"""How a conversation is compacted: settings of an agent or an operator, and what a compaction's entry says of it."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.fact import NotedFact
from mcc.contracts.shape import LIST_AS_TUPLE, Closed, Text
from mcc.contracts.usage import Usage

Stage: TypeAlias = Literal["clip", "results", "arguments", "summary", "handles", "images"]
"""What was done: results were shortened (`clip`), or put away, or arguments of calls were; a summary or lines took the
place of the oldest messages; pictures were put away."""

CompactionMoment: TypeAlias = Literal["background", "full", "refused", "idle", "asked", "rollback", "images"]
"""When: while the agent went on, before its window was full, after its model refused a request as too long, after a
turn, when a person asked, before a turn that came after a rollback, and for a limit on pictures."""

WindowShare = Annotated[float, Field(gt=0, le=0.9, allow_inf_nan=False)]
KeptTurns = Annotated[int, Field(ge=0, le=100)]


class Compaction(Closed):
    """When an agent's conversation is compacted, and what stays as it is. None: as the operator says.

    `window_share`: the part of the model's context from which on it is summarised while the agent goes on.
    `keep_turns`: the newest turns that a summary leaves as they are.
    """

    window_share: WindowShare | None = None
    keep_turns: KeptTurns | None = None


class CompactionTerms(Closed):
    """The same, in effect."""

    window_share: WindowShare = 0.7
    keep_turns: KeptTurns = 2

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


class TranscriptCompacted(NotedFact):
    """The model's transcript was shortened; `message` tells people how, `stage` and `reason` what was done and when.

    `clipped`: tool results that were shortened or put away (`cleared_call_ids`), or calls whose arguments were
    (`cut_call_ids`). `summary`: what the model reads in place of all messages but the last `kept_messages`, the first
    of which is that of the entry `kept_from` (None: none is left); `parts` of it are carried into the next one.
    `checklist`: how much of what had to be kept the model's summary had; `record_id`: that of the request for it,
    `model` and `usage` its own, which are not added again. `base`: digest of the session's stored context.
    `window_tokens`: the model's context window, None = unknown. `tokens_before`, `tokens_after`: estimated size of the
    request.
    """

    kind: ClassVar[str] = "transcript.compacted"
    stage: Stage = "clip"
    reason: CompactionMoment = "full"
    message: Text
    clipped: tuple[Clipped, ...] = ()
    cleared_call_ids: tuple[str, ...] = ()
    cut_call_ids: tuple[str, ...] = ()
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

"""The journal that the agent loop writes: the port, an implementation in memory, and a wrapper that redacts secrets."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Literal, Protocol

from drone.threads import in_thread
from mcc.contracts.entry import ORDER, Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now, share_fields_set
from mcc.contracts.similar import hints_keywords
from mcc.contracts.wire import Delta, GenerationProgress
from mcc.redaction import Redactor

DeltaKind = Literal["model.delta", "thinking.delta", "tool_call.delta", "tool.progress"]


@dataclass(frozen=True, slots=True)
class GrowingCall:
    """The tool call that a delta belongs to: its tool, and its index within the reply where that is known."""

    index: int | None
    name: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of streamed text. `offset`: its first character's position among the text of this kind in this attempt at
    the round's reply.

    `call` and `call_id`: for a `tool_call.delta` the call whose arguments grow; for a `tool.progress`, which has no
    round and attempt, the running call that prints the text.
    """

    kind: DeltaKind
    round: int
    attempt: int
    offset: int
    text: str
    call: GrowingCall | None = None
    call_id: str | None = None

    def for_viewers(self, order_id: str, epoch: int, origin: Origin) -> Delta:
        """As viewers of the order get it. `origin` is an agent's."""
        assert origin.record_id is not None
        # Not validated, for speed: all parts are our own, and there is one delta for every few characters of a reply.
        return Delta.model_construct(
            type="delta",
            kind=self.kind,
            order_id=order_id,
            epoch=epoch,
            record_id=origin.record_id,
            parent_id=origin.parent_id,
            agent=origin.agent,
            depth=origin.depth,
            round=self.round,
            attempt=self.attempt,
            offset=self.offset,
            text=self.text,
            index=self.call.index if self.call else None,
            name=self.call.name if self.call else "",
            call_id=self.call_id,
        )


class Journal(Protocol):
    """Stores a turn's history."""

    async def write(self, origin: Origin, *facts: Fact) -> int:
        """Commit the facts in this order; returns the number of the last entry. Raises `JournalError`."""

    def defer(self, origin: Origin, *facts: Fact) -> None:
        """Accept facts to be committed before the next write, or when the order leaves its drone.

        Used where nothing can be awaited or need be: what a cancelled agent has spent, and how the root agent ended.
        The facts are dropped when another drone holds the order by then.
        """

    async def keep(self, text: str) -> str:
        """Store a text; returns its SHA-256 (hex)."""

    async def kept(self, digest: str) -> str | None:
        """The text stored under this SHA-256 (hex); None when there is none."""

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        """Write the end of every call and agent still open (`Fold.closing`), children first; returns what was written.

        `under`: only that record and its descendants. `limit`: the limit that was reached.
        """

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        """Stream text to viewers; may be lost."""

    def progress(self, progress: GenerationProgress) -> None:
        """Report a document generation's progress to viewers; may be lost."""

    async def confirm_held(self) -> None:
        """Return once this drone is known to still hold the order; call it right before each external effect.

        Raises `Fenced`.
        """


class JournalError(Exception):
    """Nothing more can be written: stop, start nothing more. It ends the whole tree; models are not told.

    JournalError
    ├── Fenced        another holder has the order
    └── Unwritable    an entry is refused because of its content; the message says why
    """


class Fenced(JournalError):
    """Another holder has the order: write nothing more."""


class Unwritable(JournalError):
    """An entry of this order is refused because of its content; the message says why."""


LONG = 500_000
"""Texts of more characters than this are hashed in a thread."""


@hints_keywords
class MemoryJournal:
    """Keeps entries in memory, numbered from 1, and calls `watch` with each; `hear` gets (origin, kind, text) of
    streamed deltas, `see` the progress of a document generation.

    `entries`: entries 1..N of the same order to start with.
    """

    def __init__(
        self,
        order_id: str,
        *,
        entries: Iterable[Entry] = (),
        watch: Callable[[Entry], None] | None = None,
        hear: Callable[[Origin, DeltaKind, str], None] | None = None,
        see: Callable[[GenerationProgress], None] | None = None,
    ) -> None:
        self.order_id = order_id
        # Parallel lists instead of a list of entries: an object around each fact would take half the fact's memory.
        self._times: list[datetime] = []
        self._origins: list[Origin] = []
        self._facts: list[Fact] = []
        for entry in entries:
            self._add(entry.at, entry.origin, entry.data)
        self.texts: dict[str, str] = {}
        self._fold = Fold(order_id)
        self.in_use = False
        """Whether a `SubAgentSession` is writing to it at the moment."""
        self._watch = watch
        self._hear = hear
        self._see = see

    @property
    def fold(self) -> Fold:
        """The fold of all entries so far; each access adds only the entries written since the last one."""
        for entry in self.entries_after(self._fold.last_seq):
            self._fold.add(entry)
        return self._fold

    @property
    def entries(self) -> list[Entry]:
        """All entries so far, built on each access: stored ones would double the memory of a running turn."""
        return list(self.entries_after(0))

    def entries_after(self, after: int) -> Iterator[Entry]:
        """The entries whose numbers are larger, built one by one."""
        for seq in count(after + 1):
            if seq > len(self._facts):
                return
            yield self._entry(seq)

    def _entry(self, seq: int) -> Entry:
        place = seq - 1
        return Draft(self._times[place], self._origins[place], self._facts[place]).numbered(self.order_id, seq)

    async def write(self, origin: Origin, *facts: Fact) -> int:
        self.defer(origin, *facts)
        return len(self._facts)

    def defer(self, origin: Origin, *facts: Fact) -> None:
        at = now()
        for fact in facts:
            self._take(at, origin, fact)

    async def keep(self, text: str) -> str:
        digest = await in_thread(_digest, text) if len(text) > LONG else _digest(text)
        self.texts[digest] = text
        return digest

    async def kept(self, digest: str) -> str | None:
        return self.texts.get(digest)

    async def confirm_held(self) -> None:
        """Returns at once: nobody else can hold this order."""

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        drafts = self.fold.closing(now(), status, error, under, limit)
        for draft in drafts:
            self._take(draft.at, draft.origin, draft.data)
        return drafts

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        if self._hear is not None:
            self._hear(origin, delta.kind, delta.text)

    def progress(self, progress: GenerationProgress) -> None:
        if self._see is not None:
            self._see(progress)

    def tell(self, fact: Fact) -> None:
        """Add an entry of the order itself, which belongs to no agent's record."""
        self._take(now(), ORDER, fact)

    def _take(self, at: datetime, origin: Origin, fact: Fact) -> None:
        self._add(at, origin, fact)
        if self._watch is not None:
            self._watch(self._entry(len(self._facts)))

    def _add(self, at: datetime, origin: Origin, fact: Fact) -> None:
        self._times.append(at)
        self._origins.append(origin)
        self._facts.append(fact)
        share_fields_set(fact)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class RedactedJournal:
    """Redacts secrets from every entry before it reaches `journal`.

    Texts that models see are redacted before the model sees them; this catches what only people read, such as error
    messages. Streamed text is redacted by its receivers; stored texts (`keep`) pass unchanged.
    """

    def __init__(self, journal: Journal, redactor: Redactor) -> None:
        self.journal = journal
        self._redactor = redactor

    async def write(self, origin: Origin, *facts: Fact) -> int:
        return await self.journal.write(origin, *map(self._redactor.model, facts))

    def defer(self, origin: Origin, *facts: Fact) -> None:
        self.journal.defer(origin, *map(self._redactor.model, facts))

    async def keep(self, text: str) -> str:
        return await self.journal.keep(text)

    async def kept(self, digest: str) -> str | None:
        return await self.journal.kept(digest)

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        return await self.journal.close(status, self._redactor.text(error), under, limit)

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        self.journal.delta(origin, delta)

    def progress(self, progress: GenerationProgress) -> None:
        self.journal.progress(progress)

    async def confirm_held(self) -> None:
        await self.journal.confirm_held()

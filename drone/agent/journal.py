"""The journal as the agent loop writes it: its port, the one in memory, and one that no secret is written into."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Literal, Protocol

from drone.agent.threads import in_thread
from mcc.contracts.entry import ORDER, Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now, share_fields_set
from mcc.contracts.wire import GenerationProgress
from mcc.redaction import Redactor

DeltaKind = Literal["model.delta", "thinking.delta", "tool_call.delta", "tool.progress"]


@dataclass(frozen=True, slots=True)
class GrowingCall:
    """A call of which text is on its way: its place among those of the reply, where that counts, and its tool."""

    index: int | None
    name: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text on its way, from character `offset` on of what this try at a round's reply says of its kind.

    `call`: the one whose arguments the text of a `tool_call.delta` is of, or that says the text of a `tool.progress`
    while it runs, which has no round and try; `call_id` is that one's.
    """

    kind: DeltaKind
    round: int
    attempt: int
    offset: int
    text: str
    call: GrowingCall | None = None
    call_id: str | None = None


class Journal(Protocol):
    """Where a turn's history goes. `write` returns once the facts are committed, in this order."""

    async def write(self, origin: Origin, *facts: Fact) -> int:
        """Answers the number of the last of these entries. Raises `JournalError`."""

    def owe(self, origin: Origin, *facts: Fact) -> None:
        """Take in what an agent that is cancelled has spent, or how the one that answers for the turn ended: committed
        before whatever is written next, or when the order leaves its drone. Nothing is written of an order that another
        holder has."""

    async def keep(self, text: str) -> str:
        """Store a text under its SHA-256 (hex), which is answered."""

    async def kept(self, digest: str) -> str | None:
        """The text that is stored under this SHA-256 (hex); None when there is none."""

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        """Write the ends of every call and agent that is still open (`Fold.closing`), children first; what was written.

        `under`: only those of that record and of what hangs below it. `limit`: the one that was reached.
        """

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        """Tell viewers of text on its way; may be lost."""

    def progress(self, progress: GenerationProgress) -> None:
        """Tell viewers how far a generation is; may be lost."""

    async def cleared(self) -> None:
        """Return when effects may be caused on the strength of what is written here; asked right before each one.

        Raises `Fenced`.
        """


class JournalError(Exception):
    """Nothing more can be written: stop, start nothing more. It ends the whole tree, and no model is told.

    JournalError
    ├── Fenced        another holder has the order
    └── Unwritable    an entry is refused for what is in it; the sentence says why
    """


class Fenced(JournalError):
    """Another holder has the order: write nothing more."""


class Unwritable(JournalError):
    """The data of this order is refused; the sentence says why."""


LONG = 500_000
"""Texts of more characters are hashed beside the loop."""


class MemoryJournal:
    """Numbers entries 1..N, and tells `watch` of each; `hear` gets (origin, kind, text) of deltas, `see`
    the progress of a generation.

    `entries` are those that it begins with: 1..N of the same order.
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
        # One list for each of their parts: an object around every fact would take half as much memory as the fact.
        self._times: list[datetime] = []
        self._origins: list[Origin] = []
        self._facts: list[Fact] = []
        for entry in entries:
            self._add(entry.at, entry.origin, entry.data)
        self.texts: dict[str, str] = {}
        self._fold = Fold(order_id)
        self.in_use = False
        """Whether a session writes a tree in it just now."""
        self._watch = watch
        self._hear = hear
        self._see = see

    @property
    def fold(self) -> Fold:
        """What the entries come to by now; only what came since the last time is added."""
        for entry in self._numbered(self._fold.last_seq):
            self._fold.add(entry)
        return self._fold

    @property
    def entries(self) -> list[Entry]:
        """All so far, made when they are asked for: a turn under way holds its facts, and each entry around one takes
        as much memory as the fact."""
        return list(self._numbered(0))

    def _numbered(self, after: int) -> Iterator[Entry]:
        for seq in count(after + 1):
            if seq > len(self._facts):
                return
            yield self._entry(seq)

    def _entry(self, seq: int) -> Entry:
        place = seq - 1
        return Draft(self._times[place], self._origins[place], self._facts[place]).numbered(self.order_id, seq)

    async def write(self, origin: Origin, *facts: Fact) -> int:
        self.owe(origin, *facts)
        return len(self._facts)

    def owe(self, origin: Origin, *facts: Fact) -> None:
        at = now()
        for fact in facts:
            self._take(at, origin, fact)

    async def keep(self, text: str) -> str:
        digest = await in_thread(_digest, text) if len(text) > LONG else _digest(text)
        self.texts[digest] = text
        return digest

    async def kept(self, digest: str) -> str | None:
        return self.texts.get(digest)

    async def cleared(self) -> None:
        """Nobody else can hold this order."""

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
        """An entry of the order itself."""
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
    """The last look at every entry.

    What an agent is told was redacted before it came to the agent, and is written here as it was told: this is for what
    only people read, such as the words of an error. Texts on their way are redacted by whoever hears them.
    `journal` is the one that is written.
    """

    def __init__(self, journal: Journal, redactor: Redactor) -> None:
        self.journal = journal
        self._redactor = redactor

    async def write(self, origin: Origin, *facts: Fact) -> int:
        return await self.journal.write(origin, *map(self._redactor.model, facts))

    def owe(self, origin: Origin, *facts: Fact) -> None:
        self.journal.owe(origin, *map(self._redactor.model, facts))

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

    async def cleared(self) -> None:
        await self.journal.cleared()

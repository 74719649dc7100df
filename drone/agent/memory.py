"""A journal in memory: the runtime without a database, for embedding, `drone run` and tests."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

from drone.agent.journal import DeltaKind, TextDelta
from drone.agent.threads import in_thread
from mcc.contracts.entry import ORDER, Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now

LONG = 500_000
"""Texts of more characters are hashed beside the loop."""


class MemoryJournal:
    """Numbers entries 1..N, folds them, and tells `watch` of each; `hear` gets (origin, kind, text) of deltas.

    `entries` are those that it begins with: 1..N of the same order.
    """

    def __init__(
        self,
        order_id: str,
        *,
        entries: Iterable[Entry] = (),
        watch: Callable[[Entry], None] | None = None,
        hear: Callable[[Origin, DeltaKind, str], None] | None = None,
    ) -> None:
        self.order_id = order_id
        self.entries: list[Entry] = []
        self.texts: dict[str, str] = {}
        self.fold = Fold(order_id)
        self.in_use = False
        """Whether a session writes a tree in it just now."""
        self._watch = watch
        self._hear = hear
        for entry in entries:
            self.entries.append(entry)
            self.fold.add(entry)

    async def write(self, origin: Origin, *facts: Fact) -> int:
        at = now()
        for fact in facts:
            self._take(Draft(at=at, origin=origin, data=fact))
        return len(self.entries)

    async def keep(self, text: str) -> str:
        digest = await in_thread(_digest, text) if len(text) > LONG else _digest(text)
        self.texts[digest] = text
        return digest

    async def kept(self, digest: str) -> str | None:
        return self.texts.get(digest)

    async def cleared(self) -> None:
        """Nobody else can hold this order."""

    async def close(self, status: AgentEnd, error: str, under: str | None = None) -> Sequence[Draft]:
        drafts = self.fold.closing(now(), status, error, under)
        for draft in drafts:
            self._take(draft)
        return drafts

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        if self._hear is not None:
            self._hear(origin, delta.kind, delta.text)

    def tell(self, fact: Fact) -> None:
        """An entry of the order itself."""
        self._take(Draft(at=now(), origin=ORDER, data=fact))

    def _take(self, draft: Draft) -> None:
        entry = draft.numbered(self.order_id, len(self.entries) + 1)
        self.entries.append(entry)
        self.fold.add(entry)
        if self._watch is not None:
            self._watch(entry)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

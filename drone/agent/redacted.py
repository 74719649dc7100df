"""A journal around a journal into which no known secret is written, whoever says it."""

from collections.abc import Sequence

from drone.agent.journal import Journal, TextDelta
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.record import AgentEnd
from mcc.redaction import Redactor


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

    async def keep(self, text: str) -> str:
        return await self.journal.keep(text)

    async def kept(self, digest: str) -> str | None:
        return await self.journal.kept(digest)

    async def close(self, status: AgentEnd, error: str, under: str | None = None) -> Sequence[Draft]:
        return await self.journal.close(status, self._redactor.text(error), under)

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        self.journal.delta(origin, delta)

    async def cleared(self) -> None:
        await self.journal.cleared()

"""Evidence: what a gate may know beside the result."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drone.agent.reads import shown
from drone.agent.receipts import Receipt
from drone.agent.report import Report
from drone.agent.threads import OwnThreads
from mcc.contracts.usage import Usage
from mcc.rules.reads import Passage


async def _nothing_kept(digest: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The task, what the tools did, what the children brought.

    `reading` are the names of the tools by which the agent can look at something; `threads` are for checks that block.
    `below` are the receipts of the children, `roots` the spellings of the directory that paths are relative to; `kept`
    answers the whole of a text that an artifact names.
    """

    task: str
    receipts: Sequence[Receipt]
    children: Sequence[Report]
    usage: Usage
    reading: frozenset[str] = frozenset()
    threads: OwnThreads = field(default_factory=OwnThreads, repr=False, compare=False)
    below: Sequence[Receipt] = ()
    roots: tuple[str, ...] = ()
    kept: Callable[[str], Awaitable[str | None]] = field(default=_nothing_kept, repr=False, compare=False)

    @property
    def untried(self) -> bool:
        """Whether the agent could have looked at something and never called such a tool."""
        return bool(self.reading) and not any(receipt.tool in self.reading for receipt in self.receipts)

    async def whole(self) -> Mapping[str, str]:
        """The texts, by their digests, of which tools that show files told only a part. Raises `JournalError`."""
        cut = {one.artifact for one in (*self.receipts, *self.below) if one.content and one.artifact}
        found = {digest: await self.kept(digest) for digest in sorted(cut)}
        return {digest: text for digest, text in found.items() if text is not None}

    def shown(self, whole: Mapping[str, str]) -> Iterator[tuple[str, Passage]]:
        """What of files was shown, each with the id of the call that did: by the agent's tools and its children's."""
        for receipt in (*self.receipts, *self.below):
            content = whole.get(receipt.artifact or "", receipt.content)
            if content:
                yield from ((receipt.call_id, one) for one in shown(receipt.tool, receipt.arguments, content))

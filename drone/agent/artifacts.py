"""Artifacts: texts too long for a transcript, kept whole and read piece by piece."""

from collections.abc import Awaitable, Callable

from drone.agent.journal import Journal

READ_ARTIFACT = "read_artifact"
"""The tool that reads them."""

LONGEST = 201_000
"""Characters of a tool's output that a model is told at once: about 50,000 tokens, and all that `read_file` says."""

MOST_KEPT = 16_000_000
"""Characters that are kept of one text."""

PREVIEW_HEAD = 4_000
PREVIEW_TAIL = 1_000
HANDLE = 16
"""Characters of a handle."""


class Artifacts:
    """The kept texts of one turn, by the handle under which a model was told of them. The texts are the journal's."""

    def __init__(self, journal: Journal, *, longest: int = LONGEST, most_kept: int = MOST_KEPT) -> None:
        """`longest` is at least 300."""
        self._journal = journal
        self._longest = longest
        self._most_kept = most_kept
        self._digests: dict[str, str] = {}
        self._remember: Callable[[], Awaitable[None]] | None = None

    async def fitted(self, text: str, *, readable: bool = True) -> tuple[str, str | None]:
        """The text and None; of a text beyond `longest` characters its preview, and the digest of what is kept.

        `readable`: whether the model that is told of it can read artifacts. Raises `JournalError`.
        """
        if len(text) <= self._longest:
            return text, None
        digest = await self.kept(text)
        where = f"read them with {READ_ARTIFACT}, id {handle_of(digest)}" if readable else "the record has them"
        return _preview(text, self._longest, where), digest

    async def kept(self, text: str) -> str:
        """Keep a text, up to `most_kept` characters of it; the digest that the journal names. Raises `JournalError`."""
        beyond = len(text) - self._most_kept
        if beyond > 0:
            text = f"{text[: self._most_kept]}\n[… the {beyond:,} characters after these were not kept …]"
        digest = await self._journal.keep(text)
        self.know(digest)
        return digest

    def know(self, digest: str) -> None:
        """From now on the agents of this turn may read the text that is kept under this digest."""
        self._digests[handle_of(digest)] = digest

    def remember_by(self, remember: Callable[[], Awaitable[None]]) -> None:
        """Called once when a handle is not known: it may be of the time before a drone took over."""
        self._remember = remember

    async def read(self, handle: str) -> str | None:
        """The whole text; None when there is no such handle in this turn. Raises `JournalError`."""
        if handle_of(handle) not in self._digests and self._remember is not None:
            remember, self._remember = self._remember, None
            await remember()
        digest = self._digests.get(handle_of(handle))
        return await self._journal.kept(digest) if digest and digest.startswith(handle) else None


def handle_of(digest: str) -> str:
    """The name by which a model asks for a kept text: short, and the same in every run."""
    return digest[:HANDLE]


def _preview(text: str, most: int, where: str) -> str:
    room = most - len(_gap(len(text), len(text), where))
    head, tail = min(PREVIEW_HEAD, room * 4 // 5), min(PREVIEW_TAIL, room // 5)
    return f"{text[:head]}{_gap(len(text) - head - tail, len(text), where)}{text[-tail:]}"


def _gap(left_out: int, total: int, where: str) -> str:
    return f"\n\n[… {left_out:,} of {total:,} characters are left out here; {where} …]\n\n"

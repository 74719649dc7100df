"""Artifacts: texts too long for a transcript, kept whole and read piece by piece."""

from base64 import b64encode
from collections.abc import Awaitable, Callable

from drone.agent.journal import Journal
from mcc.contracts.blocks import ImageBlock

READ_ARTIFACT = "read_artifact"
"""The tool that reads them."""

LONGEST = 80_000
"""Characters of a tool's output that a model is told at once: about 20,000 tokens."""

TOGETHER = 200_000
"""Characters that the results of one reply's calls tell together."""

LEAST = 2_000
"""Characters of a result that are told however much the others of its reply said."""

MOST_KEPT = 16_000_000
"""Characters that are kept of one text."""

SHORTEST_PREVIEW = 300
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

    async def fitted(
        self, text: str, *, readable: bool = True, room: int = LONGEST, artifact: str | None = None
    ) -> tuple[str, str | None]:
        """The text and `artifact`; of a text of more than `longest` or `room` characters its preview, and the digest of
        the whole.

        `readable`: whether the model that is told of it can read artifacts. `artifact`: the digest of what is kept
        already of all that the text is about. Raises `JournalError`.
        """
        most = min(self._longest, room)
        if len(text) <= most:
            return text, artifact
        digest = artifact or await self.kept(text)
        return preview(text, most, where_whole(digest, readable), len(text)), digest

    async def kept(self, text: str) -> str:
        """Keep a text, up to `most_kept` characters of it; the digest that the journal names. Raises `JournalError`."""
        beyond = len(text) - self._most_kept
        if beyond > 0:
            text = f"{text[: self._most_kept]}\n[… the {beyond:,} characters after these were not kept …]"
        digest = await self._journal.keep(text)
        self.know(digest)
        return digest

    async def image(self, data: bytes, block: ImageBlock) -> ImageBlock:
        """Keep a picture's bytes; `block` with the digest that the journal names. Raises `JournalError`."""
        return block.model_copy(update={"artifact": await self._journal.keep(b64encode(data).decode())})

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


def where_whole(digest: str, readable: bool) -> str:
    """Where the rest of a text is, as a preview says it; `readable`: its reader can read artifacts."""
    return f"read them with {READ_ARTIFACT}, id {handle_of(digest)}" if readable else "the record has them"


def preview(text: str, most: int, where: str, total: int) -> str:
    """Beginning and end of a text that had `total` characters, in `most`; under 300 only where the rest is."""
    if most < SHORTEST_PREVIEW:
        return f"[… {total:,} characters were here; {where} …]"
    room = most - len(_gap(total, total, where))
    head, tail = min(PREVIEW_HEAD, room * 4 // 5), min(PREVIEW_TAIL, room // 5)
    return f"{text[:head]}{_gap(total - head - tail, total, where)}{text[-tail:]}"


def _gap(left_out: int, total: int, where: str) -> str:
    return f"\n\n[… {left_out:,} of {total:,} characters are left out here; {where} …]\n\n"

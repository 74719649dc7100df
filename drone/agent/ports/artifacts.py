"""Artifacts: texts too long for a transcript, stored whole, and read in pieces by `read_artifact`."""

from base64 import b64encode
from collections.abc import Awaitable, Callable

from drone.agent.ports.history import HistoryPort
from drone.agent.ports.journal import Journal
from mcc.contracts.blocks import ImageBlock
from mcc.transcript.previews import SHORTEST_PREVIEW, handle_of, preview, where_to_read

LONGEST = 80_000
"""Most characters of one tool output that a model is shown: about 20,000 tokens."""

TOGETHER = 200_000
"""Most characters that the results of one reply's calls show together."""

LEAST = 2_000
"""Characters that each result may show, however long the other results of its reply are."""

MOST_KEPT = 16_000_000
"""Most characters that are stored of one text."""

NOT_RECORDED = "not recorded"
"""Begins the line of a result that says why the bookkeeping after the call's effect failed."""

UNREADABLE = 4
"""So many times as much a preview of a tool's output shows where the model has no tool to read on."""


class Artifacts:
    """The artifacts of one turn by handle, and those of earlier turns in `history`, None where there is none. The
    journal stores the texts themselves."""

    def __init__(self, journal: Journal, *, longest: int = LONGEST, most_kept: int = MOST_KEPT) -> None:
        """`longest` is at least 300."""
        self._journal = journal
        self._longest = longest
        self._most_kept = most_kept
        self._digests: dict[str, str] = {}
        self._pictures: dict[str, ImageBlock] = {}
        self._remember: Callable[[], Awaitable[None]] | None = None
        self.history: HistoryPort | None = None

    async def fitted(
        self, text: str, *, readable: bool = True, room: int = LONGEST, artifact: str | None = None, times: int = 1
    ) -> tuple[str, str | None]:
        """The text and `artifact`; for a text above `longest` or `room` characters a preview and the whole's digest.

        `readable`: whether the model that sees it can read artifacts. `artifact`: digest of the whole, if it is stored
        already. `times`: so many times the usual size a preview has. Raises `JournalError`.
        """
        most = min(self._longest, room)
        if len(text) <= most:
            return text, artifact
        digest = artifact or await self.keep(text)
        return preview(text, most, where_to_read(digest, readable), len(text), times=times), digest

    async def fitted_output(
        self, text: str, *, readable: bool, room: int, artifact: str | None
    ) -> tuple[str, str | None]:
        """As `fitted`, for what a tool has answered."""
        times = 1 if readable else UNREADABLE
        return await self.fitted(text, readable=readable, room=room, artifact=artifact, times=times)

    async def keep(self, text: str) -> str:
        """Store a text, at most `most_kept` characters of it; returns its digest. Raises `JournalError`."""
        beyond = len(text) - self._most_kept
        if beyond > 0:
            text = f"{text[: self._most_kept]}\n[… the {beyond:,} characters after these were not kept …]"
        digest = await self._journal.keep(text)
        self.register(digest)
        return digest

    async def image(self, data: bytes, block: ImageBlock) -> ImageBlock:
        """Store an image's bytes; returns `block` with their digest. Raises `JournalError`."""
        stored = block.model_copy(update={"artifact": await self._journal.keep(b64encode(data).decode())})
        self.register_pictures(stored)
        return stored

    def register_pictures(self, *stored: ImageBlock) -> None:
        """Let the agents of this turn see these pictures again."""
        self._pictures |= {handle_of(picture.artifact): picture for picture in stored}

    def picture(self, handle: str) -> ImageBlock | None:
        """The picture with this handle; None when this turn has none."""
        return self._pictures.get(handle_of(handle))

    def register(self, digest: str) -> None:
        """Let the agents of this turn read the text stored under this digest."""
        self._digests[handle_of(digest)] = digest

    def on_unknown_handle(self, remember: Callable[[], Awaitable[None]]) -> None:
        """Set the function to call once when a handle is unknown: it may date from before this drone took over."""
        self._remember = remember

    def put_away(self) -> None:
        """To be called when something that earlier turns said is not shown to an agent any more: from now on the
        history finds it."""
        if self.history is not None:
            self.history.put_away()

    async def read(self, handle: str) -> str | None:
        """The whole text; None when neither this turn nor an earlier one has such a handle. Raises `JournalError`."""
        if handle_of(handle) not in self._digests and self._remember is not None:
            remember, self._remember = self._remember, None
            await remember()
        digest = self._digests.get(handle_of(handle))
        if digest is None and self.history is not None and (digest := await self.history.artifact(handle)) is not None:
            # Of an earlier turn: a summary of what is not shown any more may name it.
            self.register(digest)
        return await self._journal.kept(digest) if digest and digest.startswith(handle) else None


def not_kept(text: str, most: int, why: str) -> str:
    """Beginning and end of a text within `most` characters, whose whole could not be kept for this reason."""
    return f"{preview(text, max(most, SHORTEST_PREVIEW), 'they were not kept', len(text))}\n{NOT_RECORDED}: {why}."

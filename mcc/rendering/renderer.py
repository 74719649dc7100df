"""Renders untrusted texts in a process that is killed when one takes too long, and keeps what was rendered."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from pydantic_core import from_json

from mcc.contracts.shape import to_json
from mcc.rendering.nodes import Nodes, plain, visible_pieces
from mcc.rendering.work import rendering
from mcc.side_process import CutOff, SideProcess

SECONDS = 1.0
"""CPU time after which the process is killed."""

TOGETHER_SECONDS = 3.0
"""How long the texts of one request are tried, one by one, once one of them has had the process killed."""

LARGEST_BYTES = 256 * 1024
"""A longer text is shown as it is."""

AT_ONCE_BYTES = 1_000_000
KEPT_BYTES = 64_000_000

Form = Literal["markdown", "output", "plain"]
"""What a text is: Markdown, output of a program with its colours, or text as it is."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text to render. `name`: the name of the file that it is the content of, whose language colours it."""

    text: str
    form: Form = "plain"
    name: str = ""

    @property
    def asked(self) -> tuple[str, str]:
        return (f"/{self.name}" if self.name else self.form, self.text)

    @property
    def digest(self) -> str:
        form, text = self.asked
        return hashlib.sha256(f"{form}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def as_it_is(self) -> object:
        """What is shown in place of the rendered text where there is none."""
        if self.name:
            return [visible_pieces(line) for line in self.text.split("\n")]
        return plain(self.text) if self.text else []


class RenderingTime:
    """The time of one request for texts that have the process killed: it begins with the first of them."""

    def __init__(self, seconds: float = TOGETHER_SECONDS) -> None:
        self._seconds = seconds
        self._until: float | None = None

    def begin(self) -> None:
        self._until = self._until or time.monotonic() + self._seconds

    @property
    def is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until


class TextRenderer:
    """Nodes of texts, and coloured lines of files. Texts are rendered one request at a time; `close` ends the process.

    A text that is too long, or that the process was killed for, is shown as it is.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES, seconds: float = SECONDS) -> None:
        self._kept_bytes = kept_bytes
        self._seconds = seconds
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        # One thread: the process dies with the thread that started it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rendering")
        self._process = SideProcess(rendering)

    @property
    def size(self) -> int:
        """Bytes of what is kept."""
        return self._size

    @property
    def starts(self) -> int:
        """How often the process was started."""
        return self._process.starts

    def close(self) -> None:
        self._thread.submit(self._process.close)
        self._thread.shutdown(wait=True, cancel_futures=False)

    async def nodes(self, sources: Sequence[Source], time_left: RenderingTime | None = None) -> Sequence[Nodes]:
        """The nodes of each text, in the same order. `time_left`: of a request that asks for texts several times."""
        made = await self._made([source for source in sources if not source.name], time_left or RenderingTime())
        return [from_json(made[source.digest]) for source in sources]

    async def lines(self, sources: Sequence[Source]) -> Sequence[Sequence[list[tuple[str | None, str]]]]:
        """The lines of each file, each as pairs of a class (None: of no class) and a part of the line."""
        made = await self._made([source for source in sources if source.name], RenderingTime())
        read = (from_json(made[source.digest]) for source in sources)
        return [[[(kind, part) for kind, part in line] for line in lines] for lines in read]

    async def _made(self, sources: Sequence[Source], time_left: RenderingTime) -> Mapping[str, bytes]:
        made: dict[str, bytes] = {}
        missing: dict[str, Source] = {}
        for source in sources:
            digest = source.digest
            if (kept := self._kept.get(digest)) is not None:
                self._kept.move_to_end(digest)
                made[digest] = kept
            elif len(source.text.encode("utf-8", "surrogatepass")) > LARGEST_BYTES or not source.text:
                made[digest] = to_json(source.as_it_is)
            else:
                missing[digest] = source
        if missing:
            loop = asyncio.get_running_loop()
            rendered = await loop.run_in_executor(self._thread, self._rendered, missing, time_left)
            for digest, source in missing.items():
                answered = rendered.get(digest)
                made[digest] = to_json(source.as_it_is) if answered is None else self._keep(digest, answered)
        return made

    def _rendered(self, missing: Mapping[str, Source], time_left: RenderingTime) -> Mapping[str, bytes]:
        """What these texts become, by digest; those for which there was no time are left out."""
        made: dict[str, bytes] = {}
        for group in _grouped(missing.items()):
            if time_left.is_over:
                break
            answers = self._asked([source for _, source in group])
            if answers is not None:
                made |= dict(zip((digest for digest, _ in group), answers, strict=True))
                continue
            time_left.begin()
            for digest, source in group:
                if time_left.is_over:
                    return made
                alone = self._asked([source])
                made[digest] = to_json(source.as_it_is) if alone is None else alone[0]
        return made

    def _asked(self, sources: Sequence[Source]) -> Sequence[bytes] | None:
        """The process's answers; None when it was killed."""
        try:
            answers = self._process.ask([source.asked for source in sources], self._seconds)
        except (CutOff, ValueError):
            return None
        return [answer.encode() for answer in answers]

    def _keep(self, digest: str, made: bytes) -> bytes:
        if digest not in self._kept:
            self._kept[digest] = made
            self._size += len(made)
            while self._size > self._kept_bytes and self._kept:
                self._size -= len(self._kept.popitem(last=False)[1])
        return made


def _grouped(sources: Iterable[tuple[str, Source]]) -> Iterable[Sequence[tuple[str, Source]]]:
    """The sources in groups of about `AT_ONCE_BYTES`."""
    group: list[tuple[str, Source]] = []
    size = 0
    for digest, source in sources:
        if group and size + len(source.text) > AT_ONCE_BYTES:
            yield group
            group, size = [], 0
        group.append((digest, source))
        size += len(source.text)
    if group:
        yield group

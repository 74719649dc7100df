"""What a command says: kept from its two ends, told to viewers while it runs, made into text without secrets."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from drone.sandbox.child import Captured
from drone.tools.display_text import strip_controls, word_after, word_before
from mcc.redaction import Redactor, Stream

KEPT_BYTES = 1_000_000
"""Of each end of an output."""

HEAD_BYTES, TAIL_BYTES = 12_000, 20_000
"""Of an output, as a model is told it at once: where tests fail, the end says more."""

TELL_SECONDS = 0.25
TOLD_BYTES = 8_000
"""Of an output, that viewers are told at once; what comes faster is left out."""

_LONGEST_LINE = 2_000


@dataclass(frozen=True, slots=True)
class OutputText:
    """An output as text. `shown`: as a model is told it, with how many bytes are left out in the middle.

    `whole`: all that was kept, where that is more; None where `shown` is everything. `size`: bytes that were written.
    """

    shown: str
    whole: str | None
    size: int


@dataclass(frozen=True, slots=True)
class CapturedOutput:
    """An output as it is now: what was kept of its ends, and its bytes in all."""

    head: bytes
    tail: bytes
    size: int

    @classmethod
    def of(cls, output: Captured) -> "CapturedOutput":
        return cls(output.head, output.tail, output.total)


def captured() -> Captured:
    """Room for an output of any length."""
    return Captured(KEPT_BYTES, KEPT_BYTES)


def said(kept: CapturedOutput, redactor: Redactor) -> OutputText:
    """The text of an output. Blocks for some 50 ms when there is much of it."""
    head, tail = kept.head, kept.tail
    if len(head) + len(tail) == kept.size:
        return _cut(redactor.text(_text(head + tail)), kept.size)
    head = head[: head.rfind(b"\n") + 1] or head[: word_before(head, len(head) - 1)]
    tail = tail[tail.find(b"\n") + 1 :] or tail[word_after(tail, 1, len(tail)) :]
    gap = f"\n… [{kept.size - len(head) - len(tail):,} bytes were not kept] …\n"
    return _cut(redactor.text(_text(head)) + gap + redactor.text(_text(tail)), kept.size)


def _text(data: bytes) -> str:
    return strip_controls(data.decode("utf-8", "replace"))


def _cut(whole: str, size: int) -> OutputText:
    data = whole.encode()
    if len(data) <= HEAD_BYTES + TAIL_BYTES:
        return OutputText(whole, None, size)
    head, tail = data[:HEAD_BYTES], data[-TAIL_BYTES:]
    head = head[: head.rfind(b"\n") + 1] or head[: word_before(data, HEAD_BYTES)]
    tail = tail[tail.find(b"\n") + 1 :] or data[word_after(data, len(data) - TAIL_BYTES, len(data)) :]
    left_out = max(1, size - len(head) - len(tail))
    gap = f"… [{left_out:,} bytes left out] …"
    return OutputText(f"{head.decode().rstrip()}\n{gap}\n{tail.decode()}", whole, size)


class Live:
    """Tells viewers what a command says, whole lines of it, at most once in `TELL_SECONDS`. Use on one event loop."""

    def __init__(self, tell: Callable[[int, str], None], redactor: Redactor) -> None:
        """`tell` is given how many characters came before, about, and the next ones."""
        self._tell = tell
        self._redactor = redactor
        self._stream: Stream | None = None
        self._waiting = b""
        self._missed = 0
        self._offset = 0
        self._next: asyncio.TimerHandle | None = None

    def hear(self, piece: bytes) -> None:
        self._waiting += piece
        if (beyond := len(self._waiting) - TOLD_BYTES) > 0:
            # The newest is what is worth seeing; what went before it is no beginning of a secret any more.
            self._waiting = self._waiting[beyond:]
            self._missed += beyond
        if self._next is None:
            self._next = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell_now)

    def close(self) -> None:
        """It has ended: the result tells the rest."""
        if self._next is not None:
            self._next.cancel()

    def _tell_now(self) -> None:
        self._next = None
        if self._missed:
            self._offset, self._missed, self._stream = self._offset + self._missed, 0, None
            after = self._waiting.find(b"\n") + 1
            self._offset, self._waiting = self._offset + after, self._waiting[after:]
        end = max(self._waiting.rfind(b"\n"), self._waiting.rfind(b"\r")) + 1
        if not end and len(self._waiting) > _LONGEST_LINE:
            end = word_before(self._waiting, len(self._waiting) - 1)
        lines, self._waiting = self._waiting[:end], self._waiting[end:]
        if self._stream is None:
            self._stream = self._redactor.stream()
        if text := self._stream.feed(_text(lines)):
            self._tell(self._offset, text)
            self._offset += len(text)

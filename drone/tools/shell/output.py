"""Output of commands: captured from both ends, streamed to viewers, and turned into text without secrets."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from drone.sandbox.child import Captured
from drone.tools.frame.display_text import strip_controls, word_after, word_before
from drone.tools.frame.terminal import Overwriting, rendered
from mcc.redaction import Redactor, Stream

KEPT_BYTES = 1_000_000
"""Bytes kept of each end of an output."""

HEAD_BYTES, TAIL_BYTES = 12_000, 20_000
"""Bytes of an output that a result shows; more of the tail, because failing tests report at the end."""

SEND_SECONDS = 0.25
"""The shortest time between two pieces sent to viewers."""

PENDING_BYTES = 8_000
"""Bytes waiting to be sent to viewers; of output that comes faster, the oldest is dropped."""

_LONGEST_LINE = 2_000


@dataclass(frozen=True, slots=True)
class OutputText:
    """An output as text. `shown`: what models see, with the number of bytes left out in its middle.

    `whole`: all that was kept, None if `shown` is all of it. `size`: the bytes that the command wrote.
    """

    shown: str
    whole: str | None
    size: int


@dataclass(frozen=True, slots=True)
class CapturedOutput:
    """A snapshot of an output: the kept bytes of both ends, the size in bytes of all that was not overwritten, and how
    many bytes were `written`."""

    head: bytes
    tail: bytes
    size: int
    written: int

    @classmethod
    def of(cls, output: Overwriting) -> "CapturedOutput":
        return cls(output.head, output.tail, output.total, output.written)


def captured() -> Overwriting:
    """A new capture, for an output of any length."""
    return Overwriting(Captured(KEPT_BYTES, KEPT_BYTES))


def output_text(kept: CapturedOutput, redactor: Redactor) -> OutputText:
    """The text of an output as a terminal leaves it, without secrets. Blocks for some 50 ms if the output is long."""
    head, tail = kept.head, kept.tail
    if len(head) + len(tail) == kept.size:
        return _cut(redactor.text(_text(head + tail)), 0, kept.written)
    head = head[: head.rfind(b"\n") + 1] or head[: word_before(head, len(head) - 1)]
    tail = tail[tail.find(b"\n") + 1 :] or tail[word_after(tail, 1, len(tail)) :]
    missing = kept.size - len(head) - len(tail)
    gap = f"\n… [{missing:,} bytes were not kept] …\n"
    return _cut(redactor.text(_text(head)) + gap + redactor.text(_text(tail)), missing, kept.written)


def _text(data: bytes) -> str:
    return rendered(data.decode("utf-8", "replace"))


def _cut(whole: str, missing: int, size: int) -> OutputText:
    """`missing`: bytes that `whole` lacks; `size`: bytes that the command wrote."""
    data = whole.encode()
    if len(data) <= HEAD_BYTES + TAIL_BYTES:
        return OutputText(whole, None, size)
    head, tail = data[:HEAD_BYTES], data[-TAIL_BYTES:]
    head = head[: head.rfind(b"\n") + 1] or head[: word_before(data, HEAD_BYTES)]
    tail = tail[tail.find(b"\n") + 1 :] or data[word_after(data, len(data) - TAIL_BYTES, len(data)) :]
    left_out = max(1, len(data) + missing - len(head) - len(tail))
    gap = f"… [{left_out:,} bytes left out] …"
    return OutputText(f"{head.decode().rstrip()}\n{gap}\n{tail.decode()}", whole, size)


class Live:
    """Sends a command's output to viewers, in whole lines, at most once in `SEND_SECONDS`. Use on one event loop."""

    def __init__(self, send: Callable[[int, str], None], redactor: Redactor) -> None:
        """`send` receives the approximate number of characters before this piece, and the piece."""
        self._send = send
        self._redactor = redactor
        self._stream: Stream | None = None
        self._pending = b""
        self._dropped = 0
        self._offset = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, piece: bytes) -> None:
        self._pending += piece
        if (beyond := len(self._pending) - PENDING_BYTES) > 0:
            # Viewers care for the newest output. Redaction restarts after the gap, at the next whole line, because a
            # secret cannot continue across it.
            self._pending = self._pending[beyond:]
            self._dropped += beyond
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SEND_SECONDS, self._send_pending)

    def close(self) -> None:
        """Send nothing more: the command has ended, and its result holds the rest."""
        if self._timer is not None:
            self._timer.cancel()

    def _send_pending(self) -> None:
        self._timer = None
        if self._dropped:
            self._offset, self._dropped, self._stream = self._offset + self._dropped, 0, None
            after = self._pending.find(b"\n") + 1
            self._offset, self._pending = self._offset + after, self._pending[after:]
        end = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        if not end and len(self._pending) > _LONGEST_LINE:
            end = word_before(self._pending, len(self._pending) - 1)
        lines, self._pending = self._pending[:end], self._pending[end:]
        if self._stream is None:
            self._stream = self._redactor.stream()
        if text := self._stream.feed(strip_controls(lines.decode("utf-8", "replace"))):
            self._send(self._offset, text)
            self._offset += len(text)

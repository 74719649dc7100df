"""Glyphs, which say a state by their shape, as on the page; and what stands for them where the encoding has none."""

from collections.abc import Mapping
from typing import NamedTuple

from rich.cells import cell_len

from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus, WaitingReason


class Glyph(NamedTuple):
    """Each shape is one column wide; of several, one follows the other while something works."""

    shapes: str
    style: str

    def at(self, seconds: float) -> str:
        return self.shapes[int(seconds * TURNS_PER_SECOND) % len(self.shapes)]


TURNS_PER_SECOND = 4

GLYPHS: Mapping[str, Glyph] = {
    "approval": Glyph("◆", "bold yellow"),
    "question": Glyph("◆", "bold yellow"),
    "running": Glyph("◐◓◑◒", "cyan"),
    "queued": Glyph("◌", "cyan"),
    "later": Glyph("◷", ""),
    "paused": Glyph("‖", ""),
    "done": Glyph("✓", "green"),
    "failed": Glyph("✗", "red"),
    "budget": Glyph("!", "red"),
    "cancelled": Glyph("⊘", "dim"),
    "ok": Glyph("·", "dim"),
    "error": Glyph("✗", "red"),
    "note": Glyph("·", "dim"),
    "untouched": Glyph("–", "dim"),
    "steer": Glyph("»", "magenta"),
    "warning": Glyph("!", "yellow"),
}
"""By the names that the page's shapes have, where it has them."""

_PLAIN = str.maketrans("◆◐◓◑◒◌◷‖✓✗⊘·»×…├└│─–−", "?|/-\\o@=+x-.>x~|`|---")


def in_plain(text: str, encoding: str = "ascii") -> str:
    """`text` for an encoding other than UTF-8: our glyphs and lines in ASCII, and question marks for what it lacks; all
    of it as wide as before."""
    plain = text.translate(_PLAIN)
    lacking = {char for char in plain if char.encode(encoding, "ignore") == b""}
    return plain.translate({ord(char): "?" * cell_len(char) for char in lacking})


def of_record(status: RecordStatus) -> str:
    match status:
        case RecordStatus.RUNNING:
            return "running"
        case RecordStatus.WAITING:
            return "later"
        case RecordStatus.COMPLETED:
            return "done"
        case RecordStatus.CANCELLED:
            return "cancelled"
        case RecordStatus.LIMIT_REACHED:
            return "budget"
    return "failed"


def of_wait(reason: WaitingReason | None) -> str:
    """What an order waits for, before the fact that it waits."""
    match reason:
        case WaitingReason.APPROVAL:
            return "approval"
        case WaitingReason.QUESTION:
            return "question"
        case WaitingReason.PAUSED:
            return "paused"
    return "later"


def of_end(status: OrderStatus) -> str:
    return {OrderStatus.SUCCEEDED: "done", OrderStatus.CANCELLED: "cancelled"}.get(status, "failed")

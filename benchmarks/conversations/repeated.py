"""How much of each request the next one repeats, in a session of which everything is shown."""

from collections.abc import Sequence

from benchmarks.conversations.speaking import Speaking, prose
from benchmarks.conversations.talk import FILE, Place, Talk, disk_bytes
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from mcc.transcript.messages import ToolSpec, UserMessage
from mcc.transcript.transcript import request_in

SHARE = 0.995
CHARACTERS = 160

Piece = tuple[object, int]
"""A part of a request, and its bytes."""


class Comparing(Speaking):
    """Reads a file where it is told to, and compares each request with the one before: bytes of that, and those in
    common."""

    def __init__(self) -> None:
        super().__init__()
        self._before: list[Piece] = []
        self.bytes_before = self.bytes_same = self.pairs = self.breaks = 0

    def reply(self, ask: Ask) -> Said:
        self._compare(ask)
        last = ask.messages[-1]
        reads = isinstance(last, UserMessage) and request_in(last.text).startswith("read")
        return Line("I look.", (call("read_file", path=FILE),)) if reads else super().reply(ask)

    def _compare(self, ask: Ask) -> None:
        pieces = [(ask.system, len(ask.system.encode())), *map(self._tool, ask.tools)]
        for number, message in enumerate(ask.messages, len(pieces)):
            before = self._before[number] if number < len(self._before) else None
            pieces.append(
                before if before is not None and before[0] == message else (message, len(repr(message).encode()))
            )
        same = 0
        for old, new in zip(self._before, pieces, strict=False):
            if old[0] != new[0]:
                break
            same += old[1]
        if self._before:
            before_bytes = sum(size for _, size in self._before)
            self.pairs, self.bytes_before = self.pairs + 1, self.bytes_before + before_bytes
            self.bytes_same, self.breaks = self.bytes_same + same, self.breaks + (same < before_bytes)
        self._before = pieces

    def _tool(self, spec: ToolSpec) -> Piece:
        told = (spec.name, spec.description, spec.parameters)
        return told, len(repr(told).encode())


async def measured(database: str, place: Place, turns: int) -> Sequence[Promise]:
    """A session of so many short turns; every other one reads a file."""
    model, empty = Comparing(), disk_bytes(place.store)
    async with Talk(place, model) as talk:
        session_id = None
        for number in range(turns):
            word = "read" if number % 2 else "note"
            order, _ = await talk.say(f"{word} number {number}: {prose(number, CHARACTERS)}", session_id)
            session_id = order.session_id
    told, share = talk.journaled, model.bytes_same / model.bytes_before
    disk = (disk_bytes(place.store) - empty) / turns
    rows = [
        ("by comparing requests", f"{model.pairs:,}", f"{share:.4%}", f"{model.breaks}"),
        ("by the journal", "", f"{told.same / told.before:.4%}", f"{told.told} told"),
        ("disk per turn", "", f"{disk / 1000:.1f} KB", ""),
    ]
    head = ("", "pairs", "same", "breaks")
    table(f"Bytes of a request that the next one repeats, {turns:,} turns, {database}", head, rows)
    return [
        Promise(f"request repeated by the next one, {turns:,} turns, {database}", share, SHARE, at_least=True),
        Promise(f"rewrites that no entry tells of, {database}", max(0, model.breaks - told.told), 0),
    ]

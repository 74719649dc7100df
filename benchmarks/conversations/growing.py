"""What a turn costs early and late in a session, where both are shown the same number of tokens."""

from collections.abc import Sequence
from statistics import median

from benchmarks.conversations.speaking import Speaking, prose
from benchmarks.conversations.talk import Place, Talk, Turn, disk_bytes
from benchmarks.summary import Promise
from benchmarks.workload import table

EARLY, SESSIONS = 10, 8
WINDOW, PART = 100_000, 15
"""Tokens of the model's context, of which each turn takes one part: the tenth turn is the last one before a summary."""

RATIO = 1.5
NEAR = 0.06
"""Turns that show so nearly the same number of tokens are compared."""

LATE = 0.2
"""The part of the long session, its end, that is compared."""


async def measured(database: str, place: Place, turns: int) -> Sequence[Promise]:
    """Turns of a fixed part of the window: new sessions, a long one, and new ones again, as all operations of a
    database cost a little more when it holds more; the first ones tell that apart."""
    empty = disk_bytes(place.store)
    async with Talk(place, Speaking(WINDOW)) as talk:
        first = await _new_sessions(talk)
        shown = max(turn.shown_tokens for turn in first if not turn.shortened)
        talk.journaled.moments.clear()
        long = await _session(talk, turns)
        moments = dict(talk.journaled.moments)
        beside = await _new_sessions(talk)
    disk = (disk_bytes(place.store) - empty) / (turns + 2 * SESSIONS * EARLY)
    late = long[-int(LATE * turns) :]
    cpu, read = zip(*(_middle(some, shown) for some in (first, beside, late)), strict=True)
    names = (f"up to {EARLY}, new database", f"up to {EARLY}, database with {turns:,} turns", f"up to {turns:,}")
    counts = [len(_alike(some, shown)) for some in (first, beside, late)]
    rows: list[tuple[object, ...]] = [
        (name, count, f"{milliseconds:.1f} ms", f"{size / 1000:,.0f} KB")
        for name, count, milliseconds, size in zip(names, counts, cpu, read, strict=True)
    ]
    rows.append(("ratio to a new database", "", f"{cpu[2] / cpu[0]:.2f}", f"{read[2] / read[0]:.2f}"))
    rows.append(("ratio to the same database", "", f"{cpu[2] / cpu[1]:.2f}", f"{read[2] / read[1]:.2f}"))
    rows.append(("compactions of the long session", sum(moments.values()), _listed(moments), ""))
    rows.append(("disk per turn", "", "", f"{disk / 1000:.0f} KB"))
    table(f"A turn that shows about {shown:,} tokens, {database}", ("turn", "measured", "CPU", "read"), rows)
    note = "to a new database: {:.2f}"
    of = f"of turn {turns:,} / turn {EARLY}, {database}"
    return [
        Promise(f"CPU {of}", cpu[2] / cpu[1], RATIO, note=note.format(cpu[2] / cpu[0])),
        Promise(f"bytes read {of}", read[2] / read[1], RATIO, note=note.format(read[2] / read[0])),
    ]


async def _new_sessions(talk: Talk) -> list[Turn]:
    return [turn for _ in range(SESSIONS) for turn in await _session(talk, EARLY)]


async def _session(talk: Talk, turns: int) -> list[Turn]:
    session_id, costs = None, list[Turn]()
    for number in range(turns):
        prompt = f"note {number}: {prose(number, WINDOW * 4 // PART)}"
        order, turn = await talk.say(prompt, session_id)
        session_id = order.session_id
        costs.append(turn)
    return costs


def _alike(turns: Sequence[Turn], shown: int) -> list[Turn]:
    return [turn for turn in turns if not turn.shortened and abs(turn.shown_tokens - shown) <= NEAR * shown]


def _middle(turns: Sequence[Turn], shown: int) -> tuple[float, float]:
    """Milliseconds of CPU and bytes read of the turn in the middle."""
    alike = _alike(turns, shown)
    return median(turn.cpu_ms for turn in alike), median(turn.bytes_read for turn in alike)


def _listed(moments: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(moments.items()))

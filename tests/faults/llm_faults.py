"""What a model server may do wrong: the kinds of faults, and which call gets which.

A control file (JSON, `Orders`) says it, and may be changed while the server runs: faults drawn by a seed for a share of
all calls, and faults armed for one call.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tests.faults.script import Asked, Step

EMAIL_DATE = "Fri, 01 Jan 2100 00:00:00 GMT"
RETRY_AFTER = ("0", "1", "garbage", "-5", EMAIL_DATE, "86400")

BEFORE = ("refuse", "status", "stall_first")
"""Kinds that let no reply begin."""

BYTES = ("cut", "reset", "stall_between", "slices")
"""Kinds that disturb the bytes of a right reply, from byte `after` on."""

EVENTS = ("malformed", "no_terminator", "duplicate", "late", "usage_absent", "usage_negative", "usage_huge")
"""Kinds that change the events of a reply."""

WORDS = ("nul", "surrogate")
"""Kinds that put into the text what PostgreSQL and UTF-8 refuse; its expected words are then these."""

KINDS = (*BEFORE, *BYTES, *EVENTS, *WORDS)

HARMLESS_TO_THE_END = ("refuse", "status", "cut", "reset", "stall_between", "slices", "malformed", "no_terminator")
"""Drawn by default: those after which a client that asks again gets on, within seconds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`after`: bytes of the body that still come; `seconds`: how long a stall lasts, None = for ever."""

    kind: str
    status: int = 503
    retry_after: str | None = None
    after: int = 200
    seconds: float | None = 2.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no fault {self.kind!r}; there are {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True)
class Armed:
    """A fault for the calls that fit; None fits all. `n` counts how often this very step was asked, from 1."""

    fault: Fault
    order: str | None = None
    agent: str | None = None
    step: int | None = None
    n: int | None = 1

    def fits(self, asked: Asked, n: int) -> bool:
        there = (asked.play.key, asked.play.path, asked.step, n)
        wanted = (self.order, self.agent, self.step, self.n)
        return all(want is None or want == have for want, have in zip(wanted, there, strict=True))


@dataclass(frozen=True, slots=True)
class Orders:
    """What the control file says. `rate`: the share of calls that get one of `kinds`, drawn from `seed`.

    After `most_in_a_row` faults the same step is answered. `gap_seconds` lie between two events of every stream.
    """

    gap_seconds: float = 0.0
    rate: float = 0.0
    seed: int = 0
    kinds: Sequence[str] = HARMLESS_TO_THE_END
    most_in_a_row: int = 2
    armed: Sequence[Armed] = field(default_factory=tuple)

    @classmethod
    def read(cls, text: str) -> "Orders":
        """Raises ValueError."""
        said: Mapping[str, Any] = json.loads(text)
        if unknown := set(said) - {one.name for one in fields(cls)}:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        armed = [Armed(**{**one, "fault": Fault(**one["fault"])}) for one in said.get("armed", ())]
        return replace(cls(**{name: value for name, value in said.items() if name != "armed"}), armed=tuple(armed))

    def fault(self, asked: Asked, n: int) -> Fault | None:
        """What happens to the `n`-th request for this step; the same for the same request."""
        for one in self.armed:
            if one.fits(asked, n):
                return one.fault
        dice = random.Random(json.dumps([self.seed, asked.play.key, asked.play.path, asked.step, n]))
        if n > self.most_in_a_row or dice.random() >= self.rate:
            return None
        return _drawn(dice.choice(list(self.kinds)), dice)


class ControlFile:
    """The orders of a server, read again when the file was changed; nothing wrong while there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._orders = Orders()

    def orders(self) -> Orders:
        """Raises ValueError for a file that cannot be read as orders."""
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return Orders()
        if self._seen != (now.st_mtime_ns, now.st_size):
            self._orders = Orders.read(self._path.read_text())
            self._seen = (now.st_mtime_ns, now.st_size)
        return self._orders


def _drawn(kind: str, dice: random.Random) -> Fault:
    if kind == "status":
        status = dice.choice((429, 500, 502, 503, 529, 408, 425))
        return Fault(kind, status=status, retry_after=dice.choice(("0", "1", None)) if status == 429 else None)
    return Fault(kind, after=dice.randint(0, 1_500), seconds=round(dice.uniform(0.2, 1.0), 2))


def worded(step: Step, fault: Fault | None) -> Step:
    """The step with what the fault puts into its words."""
    match fault and fault.kind:
        case "nul":
            return replace(step, text=f"{step.text}\x00.")
        case "surrogate":
            return replace(step, text=f"{step.text}\ud800.")
        case _:
            return step


def disturbed(events: Iterator[bytes], fault: Fault | None) -> Iterator[bytes]:
    """The events of a reply with what the fault does to them."""
    kind = fault.kind if fault else None
    if kind not in EVENTS:
        yield from events
        return
    told = list(events)
    match kind:
        case "malformed":
            told.insert(len(told) // 2, b'data: {"choices": [{"delta": {"content": "half\n\n')
        case "no_terminator":
            told = told[:-3]
        case "duplicate":
            told.insert(1, told[0])
        case "late":
            told += told[1:3]
        case _:
            told = [_costing(one, kind) for one in told]
    yield from told


_USAGE = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")


def _costing(event: bytes, kind: str) -> bytes:
    head, mark, data = event.partition(b"data: ")
    if not mark or not data.startswith(b"{"):
        return event
    value = json.loads(data)
    for holder in (value, value.get("message") or {}):
        if "usage" not in holder:
            continue
        if kind == "usage_absent":
            del holder["usage"]
        else:
            cost = -1_000 if kind == "usage_negative" else 10**18
            holder["usage"] = {name: cost for name in holder["usage"] if name in _USAGE}
    return head + mark + json.dumps(value).encode() + b"\n\n"

"""This room is for what a look at one part found."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warning", "broken"]
Fix = Literal["sweep", "nudge", "messages", "locks", "receipts"]
"""What `mcc doctor --fix` can do about it."""

WORST: tuple[State, ...] = ("ok", "warning", "broken")
MOST = 20
"""Findings of one kind that are told one by one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`advice` says what to do, for all that is not ok. `drone` is the name of the drone that it is about."""

    what: str
    state: State
    detail: str
    advice: str = ""
    order_id: str | None = None
    drone: str | None = None
    fix: Fix | None = None

    def told(self) -> dict[str, object]:
        return asdict(self)


def bounded(findings: Iterable[Finding], most: int = MOST) -> list[Finding]:
    """The same, but of each `what` at most `most` and then one that says how many more there are."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.what, []).append(finding)
    return [finding for of_kind in kinds.values() for finding in _shortened(of_kind, most)]


def _shortened(findings: Sequence[Finding], most: int) -> list[Finding]:
    if len(findings) <= most + 1:
        return list(findings)
    rest = findings[most:]
    worst = max((finding.state for finding in rest), key=WORST.index)
    fix = next((finding.fix for finding in rest if finding.fix), None)
    return [*findings[:most], Finding(rest[0].what, worst, f"{len(rest)} more of this kind", rest[0].advice, fix=fix)]

"""Findings: what a check found, its state and what to do about it; and phrases that several findings share."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from mcc.store.rows.values import SeenDrone

State = Literal["ok", "warning", "broken"]
Fix = Literal["sweep", "nudge", "messages", "locks", "receipts"]
"""A repair that `mcc doctor --fix` makes."""

SEVERITY: tuple[State, ...] = ("ok", "warning", "broken")
MOST_OF_A_KIND = 20
FIX_COMMAND = "mcc doctor --fix"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check. `what` names the check. `advice`: what to do about a state other than "ok". `drone`: a
    drone's name. `fix`: the repair that would help."""

    what: str
    state: State
    detail: str
    advice: str = ""
    order_id: str | None = None
    drone: str | None = None
    fix: Fix | None = None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def bounded(findings: Iterable[Finding], most: int = MOST_OF_A_KIND) -> list[Finding]:
    """At most `most` findings of each `what`, followed by one that counts the others."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.what, []).append(finding)
    return [finding for of_kind in kinds.values() for finding in _shortened(of_kind, most)]


def _shortened(findings: Sequence[Finding], most: int) -> list[Finding]:
    # A line that says "1 more" takes as much room as the finding itself.
    if len(findings) <= most + 1:
        return list(findings)
    rest = findings[most:]
    # The line counts for the exit code as the worst that it stands for would.
    worst = max((finding.state for finding in rest), key=SEVERITY.index)
    fix = next((finding.fix for finding in rest if finding.fix), None)
    return [*findings[:most], Finding(rest[0].what, worst, f"{len(rest)} more of this kind", rest[0].advice, fix=fix)]


def duration(seconds: float) -> str:
    """A span of time in its largest fitting unit: "90 s", "5 min", "3 h", "4 days"."""
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{hours} h" if hours < 72 else f"{round(hours / 24)} days"


def process_of(drone: SeenDrone) -> str:
    return f"{drone.name} (pid {drone.pid} on {drone.host})"


def kill(drone: SeenDrone, signal: str = "TERM") -> str:
    return f"kill -{signal} {drone.pid} on {drone.host}"

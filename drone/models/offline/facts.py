"""Facts: what the offline model can say at the end, in pieces that a form can be filled with."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

COMPLETED = "completed"
BLOCKED = "blocked"

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`evidence` is Markdown lines; `paths` are files that were really read, `place` the first `(path, line)`."""

    title: str
    evidence: str
    paths: tuple[str, ...] = ()
    severity: Severity = "info"
    place: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """`read`: every file that was read, in order. `report` is the whole as Markdown."""

    status: str
    summary: str
    report: str
    name: str = ""
    findings: tuple[Finding, ...] = ()
    steps: tuple[str, ...] = ()
    next_actions: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    files: int | None = None
    languages: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def within(self, findings: int, characters: int) -> "Facts":
        """The same with so many findings at most, so many characters of evidence, and twice that of other texts."""
        kept = tuple(replace(one, evidence=shortened(one.evidence, characters)) for one in self.findings[:findings])
        most = 2 * characters
        return replace(self, findings=kept, report=shortened(self.report, most), summary=shortened(self.summary, most))

    def blocked(self, why: str) -> "Facts":
        """The same for a reader who refuses the result as a completed one."""
        return replace(self, status=BLOCKED, summary=f"{self.summary} Not accepted as completed: {why}")


def shortened(text: str, characters: int) -> str:
    """`text`, or the whole lines of it that fit, with a mark."""
    if len(text) <= characters:
        return text
    return text[:characters].rsplit("\n", 1)[0][: max(0, characters - 2)] + "\n…"


def unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))

"""What `make bench` ends with: each promised figure beside what was measured."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.workload import table


@dataclass(frozen=True, slots=True)
class Promise:
    """A figure that is held while it is at most `limit` (or, with `at_least`, no less). `measured` None: it was not
    measured here, for the reason in `note`. `note` also says by what it was judged, where that is not plain."""

    what: str
    measured: float | None
    limit: float
    unit: str = ""
    at_least: bool = False
    note: str = ""

    @property
    def said(self) -> str:
        if self.measured is None:
            return "not measured"
        held = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return "held" if held else "missed"


def show(promises: Iterable[Promise]) -> None:
    rows = [
        (
            promise.what,
            f"{'>=' if promise.at_least else '<='} {_figure(promise.limit)}{_unit(promise)}",
            "" if promise.measured is None else f"{_figure(promise.measured)}{_unit(promise)}",
            promise.said,
            promise.note,
        )
        for promise in promises
    ]
    table("What is promised", ("what", "hold", "measured", "", ""), rows)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def _unit(promise: Promise) -> str:
    return f" {promise.unit}" if promise.unit else ""

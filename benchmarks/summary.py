"""The final table of `make bench`: each promised figure beside the measured one."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.workload import table


@dataclass(frozen=True, slots=True)
class Promise:
    """A promised figure: met while `measured` is at most `limit` or, with `at_least`, no less than it.

    `measured` None: it was not measured on this machine, for the reason in `note`. Otherwise `note` holds figures to
    compare with, and what the figure was derived from where its name does not say that.
    """

    what: str
    measured: float | None
    limit: float
    unit: str = ""
    at_least: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        met = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return "met" if met else "missed"


def show(promises: Iterable[Promise]) -> None:
    """Print the table."""
    rows = [
        (
            promise.what,
            f"{'>=' if promise.at_least else '<='} {_figure(promise.limit)}{_unit(promise)}",
            "" if promise.measured is None else f"{_figure(promise.measured)}{_unit(promise)}",
            promise.verdict,
            promise.note,
        )
        for promise in promises
    ]
    table("Promised figures", ("promise", "target", "measured", "verdict", "note"), rows)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def _unit(promise: Promise) -> str:
    return f" {promise.unit}" if promise.unit else ""

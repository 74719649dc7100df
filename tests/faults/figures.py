"""The figures of a run: how fast it recovered, what it repeated, what it lost."""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.invariants.evidence import Evidence
from tests.faults.invariants.hygiene import by_process
from tests.faults.invariants.journals import missed, repeated, stale_attempts
from tests.faults.invariants.spending import overshoot
from tests.faults.invariants.times import (
    cancel_latencies,
    false_takeovers,
    hand_backs,
    percentile,
    takeovers,
    waits,
)

Figure = int | float | None


def figures(evidence: Evidence) -> dict[str, Figure]:
    """By name, seconds and bytes where the name says so; None: there was nothing to measure."""
    statuses = Counter(order.status for order in evidence.orders.values())
    lost, twice = _viewed(evidence)
    beyond = [over for order in evidence.orders.values() if (over := overshoot(evidence, order)) is not None]
    return {
        "orders": len(evidence.orders),
        **{f"orders {status}": count for status, count in sorted(statuses.items())},
        "entries": sum(len(order.entries) for order in evidence.orders.values()),
        "effects": len(evidence.effects),
        "faults": len(evidence.faults),
        **_spread("takeover", takeovers(evidence)),
        **_spread("hand-back", hand_backs(evidence)),
        **_spread("cancel", cancel_latencies(evidence)),
        **_spread("queue wait", waits(evidence)),
        "false takeovers": len(false_takeovers(evidence)),
        "stale attempts": stale_attempts(evidence.logs),
        "tool calls repeated": _repeated(Counter(effect.call_id for effect in evidence.effects)),
        "model calls repeated": _repeated(Counter((one.order, one.agent, one.step) for one in evidence.model_calls)),
        "results unknown": _unknown(evidence),
        "worst overshoot in tokens": max((over for over, _ in beyond), default=None),
        "worst overshoot in calls": max((over / most for over, most in beyond if most), default=None),
        "events lost": lost,
        "events twice": twice,
        **{
            f"largest {name} resident bytes": max(one.rss_bytes for one in samples)
            for name, samples in by_process(evidence).items()
        },
    }


def _spread(what: str, values: Sequence[float]) -> dict[str, Figure]:
    if not values:
        return {f"{what}s": 0}
    return {
        f"{what}s": len(values),
        f"{what} p50 seconds": round(percentile(values, 50), 3),
        f"{what} p99 seconds": round(percentile(values, 99), 3),
    }


def _repeated(counted: Mapping[object, int]) -> int:
    return sum(count - 1 for count in counted.values())


def _unknown(evidence: Evidence) -> int:
    return sum(
        entry.data.get("outcome") == "outcome_unknown"
        for order in evidence.orders.values()
        for entry in order.of_kind("tool.finished")
    )


def _viewed(evidence: Evidence) -> tuple[int, int]:
    """Entries that viewers did not get, and that they got twice."""
    lost = twice = 0
    for seen in evidence.viewers.values():
        for order_id in {one.order_id for one in seen}:
            got = [(one.seq, one.kind) for one in seen if one.order_id == order_id]
            order = evidence.orders.get(order_id)
            lost += missed(order, got) if order else 0
            twice += repeated(got)
    return lost, twice


def table(measured: Mapping[str, Figure]) -> str:
    """For people, as wide as it needs to be."""
    rows = Table("figure", "value", box=None)
    for name, value in measured.items():
        rows.add_row(name, _shown(value))
    out = StringIO()
    Console(file=out, width=100).print(rows)
    return out.getvalue()


def _shown(value: Figure) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def main(arguments: list[str] | None = None) -> int:
    from tests.faults.checker import evidence_of

    parser = argparse.ArgumentParser(prog="python -m tests.faults.figures", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    measured = figures(evidence_of(asked.directory))
    print(json.dumps(measured, indent=2) if asked.json else table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())

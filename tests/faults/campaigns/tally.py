"""The figures of many runs together, beside what they should be."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO

from rich.console import Console
from rich.table import Table

from tests.faults.figures import figures
from tests.faults.invariants.evidence import Evidence
from tests.faults.invariants.spending import last_activity, whole_cancels
from tests.faults.invariants.times import false_takeovers, hand_backs, percentile, takeovers

TAKEOVER_P50_LEASES, TAKEOVER_BEYOND_SECONDS = 1.0, 3.0
HAND_BACK_SECONDS, CANCEL_SECONDS, CANCEL_WITHOUT_REDIS_SECONDS = 3.0, 2.0, 6.0
HEALING = ("restart", "up", "heal")
"""What is told among the faults and is none."""

SWEEPS_SECONDS = 1.0
"""Half of the takeovers may take a lease and this: with a short lease the sweep and the next claim count."""


@dataclass
class Tally:
    """What one run gave, as plain JSON. `skipped` says why it was not done, `missing` why some of its harm was not."""

    campaign: str
    seed: int
    database: str
    seconds: float = 0.0
    lease_seconds: float = 0.0
    skipped: str = ""
    problems: list[str] = field(default_factory=list)
    orders: int = 0
    effects: int = 0
    lost: int = 0
    events_lost: int = 0
    events_twice: int = 0
    stale_attempts: int = 0
    calls_repeated: int = 0
    never_twice_repeated: int = 0
    model_calls_repeated: int = 0
    overshoot_calls: float | None = None
    false_takeovers: int | None = None
    takeovers: list[float] = field(default_factory=list)
    hand_backs: list[float] = field(default_factory=list)
    cancels: list[float] = field(default_factory=list)
    cancels_without_redis: list[float] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    measured: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """As a file of results has it."""
        return json.dumps(asdict(self)) + "\n"


def of_evidence(tally: Tally, evidence: Evidence, without_redis: Iterable[str]) -> None:
    """Fill in what the evidence says."""
    found, apart = figures(evidence), set(without_redis)
    tally.lease_seconds = evidence.lease_seconds
    tally.orders = len(evidence.orders)
    tally.effects = len(evidence.effects)
    tally.lost = sum(not order.final for order in evidence.orders.values())
    tally.lost += sum(post.accepted and post.order_id not in evidence.orders for post in evidence.posts)
    tally.events_lost = int(found["events lost"] or 0)
    tally.events_twice = int(found["events twice"] or 0)
    tally.stale_attempts = int(found["stale attempts"] or 0)
    tally.calls_repeated = int(found["tool calls repeated"] or 0)
    once = Counter(effect.call_id for effect in evidence.effects if effect.once)
    tally.never_twice_repeated = once.total() - len(once)
    tally.model_calls_repeated = int(found["model calls repeated"] or 0)
    tally.overshoot_calls = found["worst overshoot in calls"]
    if evidence.run.get("false_takeovers") is not None:
        tally.false_takeovers = len(false_takeovers(evidence))
    if "clock_seconds" not in evidence.run:
        tally.takeovers, tally.hand_backs = takeovers(evidence), hand_backs(evidence)
    for asked in whole_cancels(evidence):
        late = max(0.0, last_activity(evidence, asked.order_id) - asked.t)
        (tally.cancels_without_redis if asked.order_id in apart else tally.cancels).append(late)
    tally.faults = dict(Counter(_class(fault.fault) for fault in evidence.faults if fault.fault not in HEALING))
    if drawn := sum(call.fault is not None for call in evidence.model_calls):
        tally.faults["model calls disturbed"] = drawn


def _class(fault: str) -> str:
    return "kill9" if fault.lower().startswith("kill") else fault


def table(tallies: Sequence[Tally]) -> str:
    """Tables: the campaigns, the figures beside their targets, the faults by class, and what could not be done."""
    out = StringIO()
    console = Console(file=out, width=118)
    for one in (_campaigns(tallies), _figures(tallies), _measured(tallies), _faults(tallies)):
        console.print(one)
    if (missing := _missing(tallies)).row_count:
        console.print(missing)
    return out.getvalue()


def _campaigns(tallies: Sequence[Tally]) -> Table:
    heads = ("campaign", "runs", "orders", "faults", "seconds", "violations", "not run")
    rows = Table(*heads, box=None, title="Campaigns", title_justify="left")
    for name in dict.fromkeys(one.campaign for one in tallies):
        own = [one for one in tallies if one.campaign == name]
        skipped = next((one.skipped for one in own if one.skipped), "")
        done = [one for one in own if not one.skipped]
        numbers = (
            len(done),
            sum(one.orders for one in done),
            sum(sum(one.faults.values()) for one in done),
            round(sum(one.seconds for one in done)),
            sum(len(one.problems) for one in done),
        )
        rows.add_row(name, *(f"{number:,}" for number in numbers), skipped[:50])
    return rows


def _figures(tallies: Sequence[Tally]) -> Table:
    rows = Table("figure", "measured", "should be", "of", box=None, title="\nFigures", title_justify="left")
    for lease in sorted({one.lease_seconds for one in tallies if one.takeovers}):
        there = [second for one in tallies if one.lease_seconds == lease for second in one.takeovers]
        half = f"≤ {lease + (SWEEPS_SECONDS if lease < 5 else 0):g} s"
        _times(rows, f"takeover, lease {lease:g} s", there, half, f"≤ {lease + TAKEOVER_BEYOND_SECONDS:g} s")
    back = [second for one in tallies for second in one.hand_backs]
    _times(rows, "hand-back to next claim", back, None, f"≤ {HAND_BACK_SECONDS:g} s")
    cancels = [second for one in tallies for second in one.cancels]
    _times(rows, "last call begun after a cancel", cancels, None, f"≤ {CANCEL_SECONDS:g} s")
    apart = [second for one in tallies for second in one.cancels_without_redis]
    _times(rows, "the same without Redis", apart, None, f"≤ {CANCEL_WITHOUT_REDIS_SECONDS:g} s")
    done = [one for one in tallies if not one.skipped]
    orders, effects = sum(one.orders for one in done), sum(one.effects for one in done)
    judged = [one.false_takeovers for one in done if one.false_takeovers is not None]
    hogged = sum(one.orders for one in done if one.false_takeovers is not None)
    rows.add_row("false takeovers under CPU hogs", f"{sum(judged)}", "0", f"{hogged:,} orders")
    rows.add_row("accepted orders lost", f"{sum(one.lost for one in done)}", "0", f"{orders:,} orders")
    rows.add_row("events lost", f"{sum(one.events_lost for one in done)}", "0", "")
    rows.add_row("events twice", f"{sum(one.events_twice for one in done)}", "0", "")
    never = sum(one.never_twice_repeated for one in done)
    rows.add_row("effects that must not be repeated, repeated", f"{never}", "0", f"{effects:,} effects")
    rows.add_row("idempotent calls repeated", f"{sum(one.calls_repeated for one in done) - never}", "any", "")
    rows.add_row("model calls repeated", f"{sum(one.model_calls_repeated for one in done)}", "any", "")
    over = [one.overshoot_calls for one in done if one.overshoot_calls is not None]
    rows.add_row("budget overshoot, in calls", f"{max(over):.2f}" if over else "-", "≤ 1", f"{len(over)} runs")
    rows.add_row("stale writers told off", f"{sum(one.stale_attempts for one in done)}", "> 0", "")
    return rows


def _times(rows: Table, what: str, values: Sequence[float], half: str | None, most: str) -> None:
    if not values:
        rows.add_row(what, "-", most, "0")
        return
    if half is not None:
        rows.add_row(f"{what}, p50", f"{percentile(values, 50):.2f} s", half, f"{len(values):,}")
    rows.add_row(f"{what}, p99", f"{percentile(values, 99):.2f} s", most, f"{len(values):,}")


def _measured(tallies: Sequence[Tally]) -> Table:
    rows = Table("also measured", "number", "p50", "p99", "sum", box=None, title="\nOther", title_justify="left")
    gathered: dict[str, list[float]] = {}
    for one in tallies:
        for name, values in one.measured.items():
            gathered.setdefault(name, []).extend(values)
    for name, values in sorted(gathered.items()):
        spread = (percentile(values, 50), percentile(values, 99), sum(values))
        rows.add_row(name, f"{len(values):,}", *(f"{value:,.2f}" for value in spread))
    return rows


def _faults(tallies: Sequence[Tally]) -> Table:
    rows = Table("fault", "times", box=None, title="\nFaults", title_justify="left")
    counted: Counter[str] = Counter()
    for one in tallies:
        counted.update(one.faults)
    for name, count in counted.most_common():
        rows.add_row(name, f"{count:,}")
    rows.add_row("all", f"{counted.total():,}")
    return rows


def _missing(tallies: Sequence[Tally]) -> Table:
    rows = Table("campaign", "not done here", "because", box=None, title="\nMissing", title_justify="left")
    for name, harm, why in sorted({(one.campaign, *item) for one in tallies for item in one.missing.items()}):
        rows.add_row(name, harm, why)
    return rows


def read_back(lines: Iterable[str]) -> list[Tally]:
    """Tallies from the lines of a file of results."""
    return [Tally(**json.loads(line)) for line in lines if line.strip()]

"""This room is for the judgement as a whole: a chart in, findings out, the worst news first."""

from collections import Counter

from mcc.doctor.chart import Chart
from mcc.doctor.finding import WORST, Finding, bounded
from mcc.doctor.ghosts import ghosts
from mcc.doctor.leftovers import leftovers
from mcc.doctor.silent import silent
from mcc.doctor.strangers import strangers
from mcc.doctor.stuck import stuck
from mcc.doctor.zombies import zombies


def judge(chart: Chart) -> list[Finding]:
    """One line that counts the orders, then whatever does not agree."""
    found = [*zombies(chart), *ghosts(chart), *stuck(chart), *silent(chart), *strangers(chart), *leftovers(chart)]
    found.sort(key=lambda finding: -WORST.index(finding.state))
    return [_counted(chart, well=not found), *bounded(found)]


def _counted(chart: Chart, *, well: bool) -> Finding:
    counts = Counter(order.status.value for order in chart.examined.orders)
    told = ", ".join(f"{number} {status}" for status, number in counts.most_common()) or "none is unfinished"
    more = "" if chart.examined.whole else "; there are more, these were looked at"
    agreed = "; database, Celery and processes agree" if well and chart.nodes is not None else ""
    return Finding("orders", "ok", f"{told}{more}{agreed}")

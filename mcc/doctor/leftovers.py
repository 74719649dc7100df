"""This room is for what was left behind in the database, and for the database's own health."""

from collections import Counter
from collections.abc import Iterator

from mcc.doctor.chart import Chart
from mcc.doctor.finding import Finding
from mcc.doctor.words import FIX, seconds
from mcc.store.examined import Health, IdleTransaction

IDLE_SECONDS = 5.0
"""Our own connections are cut off by the server after this long."""


def leftovers(chart: Chart) -> Iterator[Finding]:
    for stale in chart.examined.locks:
        taken = f"order {stale.order_id}, which does not run under epoch {stale.epoch}"
        detail = f"workspace {stale.workspace_key} is locked by {taken}"
        advice = f"the lock counts for nobody; {FIX} removes it"
        yield Finding("lock", "warning", detail, advice, stale.order_id, fix="locks")
    late = Counter(receipt.order_id for receipt in chart.examined.receipts)
    for order_id, count in late.items():
        detail = f"order {order_id} is final, and controls of it are still open: {count}"
        yield Finding("receipt", "warning", detail, f"{FIX} settles them", order_id, fix="receipts")


def health_of(health: Health) -> Iterator[Finding]:
    """Of the database itself; nothing when it is well."""
    for problem in health.problems:
        advice = "stop everything, keep a copy, and restore a backup (sqlite3 mcc.db .recover saves what can be read)"
        yield Finding("database", "broken", f"the file is damaged: {problem}", advice)
    if not health.checked:
        detail = "the check of the file took too long and was given up"
        yield Finding("database", "warning", detail, "mcc doctor --seconds 60 gives it longer")
    yield from (_idle(idle) for idle in health.idle if idle.seconds > IDLE_SECONDS)


def _idle(idle: IdleTransaction) -> Finding:
    name = f"connection {idle.pid} ({idle.program or 'without a name'})"
    detail = f"{name} has been idle in a transaction for {seconds(idle.seconds)}"
    if idle.blocks:
        detail += f"; {idle.blocks} others wait for it"
    advice = f"end it: SELECT pg_terminate_backend({idle.pid})"
    return Finding("database", "broken" if idle.blocks else "warning", detail, advice)

"""Views for programs of others, which may read these and no table's own columns: docs/how-to/read-the-database.md."""

ORDERS = """
CREATE VIEW mcc_orders AS
SELECT orders.id, orders.session_id, orders.session_seq, {agent} AS agent, {prompt} AS prompt, {workspace} AS workspace,
  order_state.status, order_state.reason, order_state.queue, order_state.priority, order_state.attempt,
  {created_at} AS created_at, {started_at} AS started_at, {finished_at} AS finished_at
FROM orders JOIN order_state ON order_state.order_id = orders.id
"""

LOAD = """
CREATE VIEW mcc_load AS
SELECT queue,
  COUNT(CASE WHEN status = 'queued' AND (not_before IS NULL OR not_before <= {now})
    AND (expires_at IS NULL OR expires_at > {now} OR attempt > 0)
    AND NOT EXISTS (SELECT 1 FROM order_state AS earlier WHERE earlier.session_id = order_state.session_id
      AND earlier.session_seq < order_state.session_seq AND earlier.status IN ('queued', 'running', 'waiting'))
    THEN 1 END) AS claimable,
  COUNT(CASE WHEN status = 'running' THEN 1 END) AS running
FROM order_state WHERE status IN ('queued', 'running') GROUP BY queue
"""
"""Queues without a queued or running order have no row."""


def on(dialect: str) -> tuple[str, str]:
    """The statements for a database: `postgresql` or `sqlite`."""
    if dialect == "postgresql":
        now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        times = {name: f"to_timestamp({place} / 1000000.0)" for name, place in TIMES.items()}
        spec = {name: f"orders.spec_json::jsonb ->> '{name}'" for name in SPEC}
    else:
        now = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
        times = {
            name: f"strftime('%Y-%m-%dT%H:%M:%SZ', {place} / 1000000, 'unixepoch')" for name, place in TIMES.items()
        }
        spec = {name: f"json_extract(orders.spec_json, '$.{name}')" for name in SPEC}
    return ORDERS.format(**spec, **times), LOAD.format(now=now)


SPEC = ("agent", "prompt", "workspace")
TIMES = {
    "created_at": "orders.created_at",
    "started_at": "order_state.started_at",
    "finished_at": "orders.finished_at",
}
"""Columns with microseconds since 1970."""

"""When a schedule is due: cron expressions and intervals, in time zones. No I/O but reading the table of a zone."""

"""Models that cross processes: orders, statuses, limits, records, journal entries, controls, names on the wire."""

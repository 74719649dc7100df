"""What crosses a process: orders, statuses, limits, records, journal entries, controls, wire names."""

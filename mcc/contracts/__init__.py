"""This room is for what crosses a process: orders, statuses, limits, records, journal entries, controls, wire names."""

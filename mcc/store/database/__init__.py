"""The database itself: engine, connections, tables, clock, migrations."""

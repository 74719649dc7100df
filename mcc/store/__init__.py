"""This room is for the database: orders, leases, the journal, sessions, controls."""

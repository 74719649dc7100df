"""This room is for the store on SQLite and PostgreSQL."""

from mcc.store.sql.store import SqlStore, open_store

__all__ = ["SqlStore", "open_store"]

"""Doubles that ship: a temporary store, and a clock that tests move."""

from mcc.testing.store import FakeClock, temporary_store

__all__ = ["FakeClock", "temporary_store"]

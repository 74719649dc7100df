"""Doubles that ship: a temporary store, and a clock that tests move."""

from mcc.testing.clock import FakeClock
from mcc.testing.store import temporary_store

__all__ = ["FakeClock", "temporary_store"]

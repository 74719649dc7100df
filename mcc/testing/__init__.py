"""This room is for doubles that ship: a store in memory and a clock that tests move."""

from mcc.testing.clock import FakeClock
from mcc.testing.store import MemoryStore

__all__ = ["FakeClock", "MemoryStore"]

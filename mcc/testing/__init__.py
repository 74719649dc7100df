"""Test doubles that ship with the product: a temporary store, a clock that tests advance, a served API, a drone."""

from mcc.testing.store import FakeClock, temporary_store

__all__ = ["FakeClock", "temporary_store"]

"""The lines of those that want to write: one at a time, first come first served, and nobody waits for ever."""

import pytest

from tests.faults.simulation.lines import lines

HAPPENED = ("writers", "waited in a line", "parked", "asked in vain")


@pytest.mark.parametrize("seed", [3])
def test_in_few_workspaces_one_writes_at_a_time_in_turn_and_all_come_to_their_end(seed: int) -> None:
    told = lines(seed, orders=100)
    assert not told.problems, f"again: python -m tests.faults.simulation.lines --orders 100 --seed {seed}"
    assert all(told.counts[what] for what in HAPPENED), told.counts

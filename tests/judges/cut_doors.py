"""Each door is cut at random bytes of either side, and its service killed at such bytes; the seed is of the day."""

import time
from pathlib import Path

import pytest

from tests.faults.doors.running import DOORS, cut_door

JUDGE = "cut doors"
CUTS, KILLS = 50, 2
SEED = int(time.time()) // 86_400


@pytest.mark.family
@pytest.mark.parametrize("door", DOORS)
def test_a_door_that_is_cut_keeps_one_order_a_key_and_one_end_each(tmp_path: Path, door: str) -> None:
    tally = cut_door(door, CUTS, KILLS, SEED, tmp_path)
    print(tally.line)
    assert not tally.problems, "\n".join([tally.line, *tally.problems])
    assert tally.cut >= CUTS and tally.killed >= KILLS and tally.orders == tally.ends > 0

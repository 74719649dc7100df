from drone.worker.loop import Stall
from mcc.testing import FakeClock


def test_a_loop_that_turns_is_never_stalled() -> None:
    clock = FakeClock()
    stall = Stall(10.0, clock.uptime)
    for _ in range(50):
        clock.advance(1.0)
        assert stall.look(clock.uptime() - 0.4) == 0.0


def test_a_loop_that_does_not_turn_is_stalled_for_as_long_as_somebody_looked() -> None:
    clock = FakeClock()
    stall = Stall(10.0, clock.uptime)
    ticked = clock.uptime() + 0.5
    clock.advance(1.0)
    stall.look(ticked)
    for _ in range(31):
        clock.advance(1.0)
        stall.look(ticked)
    assert stall.seconds == 31.0
    clock.advance(1.0)
    assert stall.look(ticked + 32.0) == 0.0


def test_a_process_that_was_suspended_is_not_taken_for_one_that_hangs() -> None:
    clock = FakeClock()
    stall = Stall(10.0, clock.uptime)
    ticked = clock.uptime() + 0.5
    clock.advance(1.0)
    stall.look(ticked)
    clock.advance(3_600.0)
    assert stall.look(ticked) == 10.0
    clock.advance(1.0)
    assert stall.look(clock.uptime()) == 0.0

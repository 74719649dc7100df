"""Three services, a clock that jumps, kills: no instant of a schedule is run twice, and none by nobody."""

from pathlib import Path

from tests.conformance.store.simulated_schedules import SimulatedSchedules

CHANGES = 25


def test_services_that_are_killed_on_a_clock_that_jumps_run_each_instant_once(
    database_url: str, tmp_path: Path
) -> None:
    simulated = SimulatedSchedules(database_url, tmp_path, seed=7)
    outcomes = simulated.run(CHANGES)
    assert simulated.problems == []
    assert simulated.kills > 0
    assert set(outcomes) >= {"placed", "missed"}

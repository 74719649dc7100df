"""Which entries share a commit: a run's start is committed with its first model call, its end with the order's end."""

from tests.drone.agent.gate_bench import Bench, submit


async def test_a_run_begins_with_its_first_question_in_one_commit() -> None:
    bench = Bench([submit()])
    assert (await bench.run()).completed
    first = bench.journal.groups[0]
    assert (first[0], first[-1]) == ("agent.started", "model.started")

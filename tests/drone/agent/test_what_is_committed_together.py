"""Which entries of a run share a commit: its beginning goes with its first question, its end with what ends it all."""

from tests.drone.agent.gate_bench import Bench, submit


async def test_a_run_begins_with_its_first_question_in_one_commit() -> None:
    bench = Bench([submit()])
    assert (await bench.run()).completed
    first = bench.journal.groups[0]
    assert (first[0], first[-1]) == ("agent.started", "model.started")

"""Wherever a conversation is cut, each call has its result; `random_cuts` says how a hundred thousand are made."""

from tests.drone.agent.compaction.random_cuts import many_cuts


def test_no_random_cut_parts_a_call_from_its_result() -> None:
    cuts = many_cuts(2_000)
    assert cuts.keys() >= {"summary", "handles", "results", "arguments", "clip", "takeover", "fork", "turn"}

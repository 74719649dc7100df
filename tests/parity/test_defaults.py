"""The figures that nobody has to set: each of them, once."""

import drone
from drone import in_process
from drone.agent.gates.gate import ATTEMPTS
from drone.agent.state.progress import ALL_FAILED, REFUSED, SAME_FAILURE, SAME_OUTPUT
from drone.agent.subagents import assignments
from drone.definitions import Definitions
from mcc.contracts.limits import MAX_DEPTH, Limits
from mcc.definitions.rights import expanded
from mcc.rules import report


def test_the_limits_of_a_turn_are_as_promised() -> None:
    assert Limits().model_dump() == {
        "rounds": 50,
        "parallel_tool_calls": 16,
        "subagent_rounds": 24,
        "tool_calls": 200,
        "output_tokens": 200_000,
        "subagent_output_tokens": 20_000,
        "input_tokens": None,
        "cached_input_tokens": None,
        "reasoning_tokens": None,
        "total_tokens": None,
        "cost_usd": None,
        "wall_seconds": 3_600,
        "depth": 3,
        "subagents_per_call": 5,
        "spawns": 50,
        "concurrency": 3,
        "model_call_seconds": 180,
        "tool_seconds": 120,
        "warn_share": 0.7,
        "unknown_price": "warn",
    }
    assert MAX_DEPTH == 8


def test_a_call_of_several_agents_runs_three_side_by_side_and_collects() -> None:
    asked = assignments.assignments_of({"agents": [{"role": "scout", "task": "look"}]}, Limits().subagents_per_call)
    assert (asked.mode, asked.policy, assignments.AT_ONCE) == ("parallel", "collect", 3)
    assert (asked.item_seconds, asked.total_seconds, asked.quorum) == (None, None, None)
    assert asked.agents[0].groups is None and asked.agents[0].model is None


def test_the_caps_of_a_report_and_the_attempts_at_it_are_as_promised() -> None:
    assert (report.MAX_FINDINGS, report.MAX_EVIDENCE) == (20, 2_000)
    assert (report.MAX_ARTIFACTS, report.MAX_CONTENT) == (10, 4_000)
    assert ATTEMPTS == 5


def test_the_ladder_of_an_agent_that_goes_round_in_circles_is_as_promised() -> None:
    ladders = [(ladder.nudge, ladder.halt) for ladder in (SAME_FAILURE, REFUSED, SAME_OUTPUT, ALL_FAILED)]
    assert ladders == [(2, 3), (2, 3), (3, 4), (4, 6)]


def test_the_runner_has_four_at_once_and_a_fork_says_only_who_and_what() -> None:
    assert in_process.AT_ONCE == 4
    fork = drone.Fork("explore", "look")
    assert fork[2:] == (None, None, None, None, 0)


def test_what_the_shipped_agents_may_use_and_whom_they_may_hire() -> None:
    shipped = Definitions.load(None)
    reads = expanded(("workspace_read",))
    may = {name: expanded(one.tools or ()) - expanded(one.disallowed_tools) for name, one in shipped.agents.items()}
    assert may["explore"] == reads | {"environment_detect"}
    writes = expanded(("workspace_write", "shell_write", "memory_search", "memory_write")) - {"apply_patch"}
    assert may["general"] == may["explore"] - {"list_files", "outline"} | writes | expanded(("web_read",))
    assert may["scout"] == reads - {"list_files", "read_artifact"} | {"git_log"}
    assert may["review"] == reads - {"list_files", "outline", "read_artifact"} | expanded(("git_diff", "tasks_read"))
    assert may["security_analyst"] == reads - {"list_files", "outline", "read_artifact"} | {"git_diff"}
    assert may["verify"] == frozenset()
    assert set(shipped.spawns("master")) == {"explore", "general", "scout", "review", "security_analyst"}
    assert all(not shipped.spawns(name) for name in may if name != "master")
    assert all(one.limits == type(one.limits)() for one in shipped.agents.values())

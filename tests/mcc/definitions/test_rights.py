"""What a workspace's agent file keeps of what an operator allows."""

from hypothesis import given
from hypothesis import strategies as st

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.limits import AgentLimits
from mcc.contracts.order import Rule
from mcc.definitions.rights import TOOL_GROUPS, expanded, narrowed

NAMES = sorted({*TOOL_GROUPS, *expanded(TOOL_GROUPS)})
some_names = st.lists(st.sampled_from(NAMES), max_size=5, unique=True).map(tuple)
some_limits = st.builds(AgentLimits, rounds=st.none() | st.integers(1, 99), tool_calls=st.none() | st.integers(1, 99))
definitions = st.builds(
    AgentDefinition,
    name=st.just("a"),
    tools=st.none() | some_names,
    disallowed_tools=some_names,
    spawns=st.lists(st.sampled_from("xyz"), unique=True).map(tuple),
    limits=some_limits,
)


@given(definitions, definitions)
def test_nothing_becomes_more_than_the_operator_allowed(wanted: AgentDefinition, allowed: AgentDefinition) -> None:
    found = narrowed(wanted, allowed)
    if allowed.tools is not None:
        assert found.tools is not None
        assert expanded(found.tools) <= expanded(allowed.tools)
    assert set(allowed.disallowed_tools) <= set(found.disallowed_tools)
    assert set(found.spawns) <= set(allowed.spawns)
    for name in AgentLimits.model_fields:
        most = getattr(allowed.limits, name)
        assert most is None or getattr(found.limits, name) <= most


@given(definitions, definitions)
def test_narrowing_twice_is_narrowing_once(wanted: AgentDefinition, allowed: AgentDefinition) -> None:
    once = narrowed(wanted, allowed)
    assert narrowed(once, allowed) == once


def test_the_operators_rules_stay_in_force_beside_the_workspaces() -> None:
    own, theirs = Rule(cel="true"), Rule(cel="size(result.findings) > 0")
    found = narrowed(AgentDefinition(name="a", rules=(own, theirs)), AgentDefinition(name="a", rules=(theirs,)))
    assert found.rules == (theirs, own)

"""Narrowing of a workspace's agent to what the operator allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.limits import AgentLimits
from mcc.contracts.order import Rule
from mcc.definitions.rights import TOOL_GROUPS, expanded, is_known, narrowed

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


SERVED = {**TOOL_GROUPS, "mcp": ("tracker__*", "mail__*")}


@pytest.mark.parametrize(
    ("wanted", "allowed", "kept"),
    [
        (("tracker__list",), ("mcp",), ("tracker__list",)),
        (("tracker__l*", "mail__send"), ("tracker__*",), ("tracker__l*",)),
        (("tracker__*",), ("tracker__list",), ("tracker__list",)),
        (("mcp",), ("tracker__list",), ("tracker__list",)),
        (("mcp",), ("mcp",), ("mail__*", "mcp", "tracker__*")),
        (("mail__*",), ("tracker__*",), ()),
    ],
)
def test_tools_of_servers_are_narrowed_by_what_their_globs_stand_for(
    wanted: tuple[str, ...], allowed: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    mine, theirs = (AgentDefinition(name="a", tools=tools) for tools in (wanted, allowed))
    assert narrowed(mine, theirs, SERVED).tools == kept


@pytest.mark.parametrize(
    ("name", "known"), [("tracker__x", True), ("mail__*", True), ("gone__x", False), ("t*__x", False)]
)
def test_tools_of_a_server_may_be_named_where_it_is_registered(name: str, known: bool) -> None:
    assert is_known(name, SERVED) is known
    assert not is_known(name, TOOL_GROUPS)

"""What a program misspells in a call of the library: it is told which keyword was probably meant."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import drone
from drone.models.scripted import ScriptedModel

RECEIVED = {"DepthExceeded", "Evidence", "Report", "Tree"}
"""What a program is given, and never makes itself."""

NO_KEYWORDS = {"Joined", "SubagentRunner", "Tool"}
"""One takes tools without keywords; a Protocol and a type cannot be called."""

MADE = sorted({*drone.__all__} - RECEIVED - NO_KEYWORDS)


@pytest.mark.parametrize("name", MADE)
def test_a_keyword_with_a_letter_too_many_is_answered_with_the_one_that_is_there(name: str) -> None:
    target: Callable[..., Any] = getattr(drone, name)
    # A class of pydantic has no signature before it is first used.
    names = getattr(target, "model_fields", None) or [
        one.name for one in inspect.signature(target).parameters.values() if one.kind is not one.VAR_KEYWORD
    ]
    keyword = max(names, key=len)
    with pytest.raises((TypeError, ValueError), match=f'did you mean "{keyword}"'):
        target(**{f"{keyword}x": None})


def test_a_keyword_like_none_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"ReportGate takes no 'zzz'$"):
        drone.ReportGate(zzz=1)  # type: ignore[call-arg]


def test_an_error_of_the_call_itself_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'model'"):
        drone.Agent(drone.AgentDefinition(name="clerk", prompt="Answer."))  # type: ignore[call-arg]


def test_a_definition_where_an_agent_is_expected_is_told_and_the_other_way_round() -> None:
    definition = drone.AgentDefinition(name="poet", prompt="Rhyme.")
    agent = drone.Agent(definition, model=ScriptedModel([]))
    given: Any = definition
    with pytest.raises(TypeError, match=r"SubAgent takes an Agent, not AgentDefinition: SubAgent\(Agent\(definition"):
        drone.SubAgent(given)
    for given in (agent, "poet", {"name": "poet"}):
        with pytest.raises(TypeError, match=f"Agent takes an AgentDefinition, not {type(given).__name__}"):
            drone.Agent(given, model=ScriptedModel([]))

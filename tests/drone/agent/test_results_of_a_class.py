"""A pydantic class as the result of an agent: the model is told what is wrong, the program receives an object."""

import asyncio
import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

import drone
from drone.models.scripted import Line, ScriptedModel, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry
from mcc.rules.errors import SchemaError
from mcc.transcript.messages import ToolResults


class Leg(BaseModel):
    day: date
    km: Decimal = Field(ge=0)


class Trip(BaseModel):
    town: str = Field(alias="place")
    legs: tuple[Leg, ...] = ()

    @field_validator("town")
    @classmethod
    def is_known(cls, town: str) -> str:
        if town == "Nowhere":
            raise ValueError("there is no such town")
        return town


GOOD: dict[str, Any] = {"place": "Bern", "legs": [{"day": "2026-01-02", "km": 3}]}
BERN = Trip(place="Bern", legs=(Leg(day=date(2026, 1, 2), km=Decimal(3)),))


def planner(model: ScriptedModel, **more: Any) -> drone.Agent:
    return drone.Agent(AgentDefinition(name="planner", prompt="Plan.", result=Trip, **more), model=model)


def submits(*results: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel([Line(calls=(call("submit_result", **result),)) for result in results])


def told(model: ScriptedModel) -> list[str]:
    """What the model was told of each of its submissions."""
    messages = [ask.messages[-1] for ask in model.asks[1:]]
    return [message.results[0].content for message in messages if isinstance(message, ToolResults)]


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"legs": []}, "place: is required"),
        ({**GOOD, "legs": [{"day": "2026-01-02", "km": -1}]}, "legs[0].km"),
        ({**GOOD, "place": "Nowhere"}, "place: there is no such town"),
        ({**GOOD, "legs": [{"day": "soon", "km": 1}]}, "legs[0].day: Input should be a valid date"),
    ],
)
async def test_what_the_class_refuses_is_told_to_the_model_which_mends_it(wrong: dict[str, Any], sentence: str) -> None:
    model = submits(wrong, GOOD)
    report = await planner(model).run("To Bern.")
    assert report.completed and report.result == BERN
    assert sentence in told(model)[0]


async def test_the_schema_of_the_class_is_the_one_of_the_tool() -> None:
    model = submits(GOOD)
    await planner(model).run("To Bern.")
    spec = next(spec for spec in model.asks[0].tools if spec.name == "submit_result")
    kept = Trip.model_json_schema()
    assert (spec.parameters["required"], spec.parameters["$defs"]) == (["place"], kept["$defs"])


async def test_rules_and_functions_judge_it_as_well_and_functions_receive_the_object() -> None:
    seen: list[object] = []

    def has_legs(trip: Trip, evidence: drone.Evidence) -> bool | str:
        seen.append(trip)
        return bool(trip.legs) or "Plan a leg."

    model = submits({"place": "Bern"}, GOOD)
    gate = drone.ReportGate(Trip, functions={"has_legs": has_legs})
    report = await drone.Agent(AgentDefinition(name="planner", prompt="Plan."), model=model, gate=gate).run("To Bern.")
    assert told(model) == ["Not accepted: Plan a leg. (4 attempts left.)"]
    assert seen == [Trip(place="Bern"), BERN] and report.result == BERN
    by_rule = submits({"place": "Bern"}, GOOD)
    rules = ({"cel": "size(result.legs) > 0", "message": "Plan a leg."},)
    assert (await planner(by_rule, rules=rules).run("To Bern.")).result == BERN
    assert "Plan a leg." in told(by_rule)[0]


async def test_a_result_that_was_never_accepted_stays_the_json_it_was() -> None:
    wrong = {**GOOD, "place": "Nowhere"}
    report = await planner(submits(*[wrong] * 5)).run("To Nowhere.")
    assert not report.completed and report.result == wrong


async def test_a_run_that_had_ended_is_read_back_as_an_object() -> None:
    lines: list[str] = []
    journal = drone.MemoryJournal("order", watch=lambda entry: lines.append(entry.model_dump_json()))
    agent = planner(submits(GOOD))
    await agent.run("To Bern.", agent.turn(journal))
    entries = [Entry.model_validate_json(line) for line in lines]
    again = planner(ScriptedModel([]))
    turn = again.turn(drone.MemoryJournal("order", entries=entries), drone.Tree.of(entries))
    assert (await again.run("To Bern.", turn)).result == BERN


async def test_a_child_hands_json_to_its_parent_and_an_object_to_a_program() -> None:
    child = drone.SubAgent(planner(submits(GOOD, GOOD, GOOD)))
    model = ScriptedModel([Line(calls=(call("planner", input="To Bern."),)), "Done."])
    lead = drone.Agent(AgentDefinition(name="lead", prompt="Lead."), model=model, tools=[child])
    assert (await lead.run("A trip.")).completed
    assert '"place":"Bern"' in told(model)[0]
    assert (await child.invoke("To Bern.")).result == BERN
    assert (await drone.SubAgentSession(child).send("To Bern.")).result == BERN


def test_a_runner_brings_an_object() -> None:
    definition = AgentDefinition(name="planner", prompt="Plan.", result=Trip)
    runner = drone.InProcessRunner({"model": submits(GOOD)}, definitions=[definition])
    result = asyncio.run(runner.run_isolated("planner", "To Bern."))
    assert result.error is None and result.result == BERN


def test_a_definition_with_a_class_is_written_with_its_schema() -> None:
    definition = AgentDefinition(name="planner", prompt="Plan.", result=Trip)
    assert json.loads(definition.model_dump_json())["result"] == Trip.model_json_schema()


class Holder(BaseModel):
    call: Any
    held: Callable[[], int]


@pytest.mark.parametrize(
    "form, sentence", [(dict, "dict is no form of a result"), (Holder, "Holder is no form of a result")]
)
def test_what_is_no_form_of_a_result_is_refused_at_construction(form: object, sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        drone.Agent(AgentDefinition(name="clerk", prompt="Help.", result=form), model=ScriptedModel([]))

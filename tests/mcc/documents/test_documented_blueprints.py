"""The documented blueprint is valid, and its page covers all features."""

import re
from pathlib import Path
from typing import get_args

import pytest

from mcc.contracts.blueprints import MAX_COMPONENTS, MAX_FIELDS, BlueprintRule, FieldSpec, NodeAgent
from mcc.documents import Blueprint
from mcc.documents.field_checks import MAX_RULES
from mcc.documents.formulas import NodeContext
from tests.mcc.documents.blueprints import node, recomputed, verdicts

FIELD_TYPES = [get_args(field.model_fields["type"].annotation)[0] for field in get_args(get_args(FieldSpec)[0])]
PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "write-blueprints.md").read_text("utf-8")


def shown() -> Blueprint:
    found = re.search(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return Blueprint.parse(found[1])


def test_the_blueprint_of_the_page_can_be_used_and_its_rules_bite() -> None:
    tour = shown().root
    for stops, ok in ((6, True), (12, False)):
        unset = dict.fromkeys(tour.spec.properties)
        found = recomputed(tour, NodeContext({"minutes": 90}, {**unset, "stops_planned": stops}))
        top = node(shown(), "tour", metadata__minutes=90, **found.props)
        assert verdicts(shown(), top)["rules[0]"].ok is ok


@pytest.mark.parametrize("name", [*FIELD_TYPES, *BlueprintRule.model_fields, *NodeAgent.model_fields])
def test_every_word_is_explained(name: str) -> None:
    word = {"validates": "validate"}.get(name, name)
    assert f"`{word}`" in PAGE or f"{word}:" in PAGE


def test_the_bounds_are_those_that_there_are() -> None:
    for figure in (MAX_COMPONENTS, MAX_FIELDS, f"{MAX_RULES:,}"):
        assert str(figure) in PAGE

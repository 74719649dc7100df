"""The shipped blueprints are valid, and their rules catch violations."""

from typing import Any

import pytest

from mcc.documents import Blueprint
from mcc.documents.blueprint import blueprint_files, shipped_blueprints
from mcc.documents.component import context_of
from mcc.documents.formulas import NodeContext
from tests.mcc.documents.blueprints import node, recomputed, state, verdicts

SHIPPED = ("catalogue", "course", "design")


def test_the_shipped_blueprints_are_found_by_their_names() -> None:
    assert tuple(blueprint_files((shipped_blueprints(),))) == SHIPPED
    assert [Blueprint.load(name).name for name in SHIPPED] == list(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_each_has_metadata_hard_rules_guidelines_and_says_what_its_nodes_are(name: str) -> None:
    made = Blueprint.load(name)
    assert made.spec.description and made.root.spec.metadata
    assert len(made.components) == 3
    rules = [rule for component in made.components.values() for rule in component.rules]
    assert {"derived", "guideline"} < {rule.kind for rule in rules}
    assert sum(rule.kind in ("cel", "evidence") for rule in rules) >= 4
    assert not [rule for rule in rules if rule.kind == "function"]
    for component in made.components.values():
        assert component.spec.description and component.spec.describe and component.describe.names
        for field in component.fields.values():
            assert field.spec.description or field.computation or field.spec.type in ("boolean", "choice"), field.name


def _wrong(blueprint: str, component: str, **values: Any) -> set[str]:
    """The CEL rules broken by a node with these values, after recomputation."""
    made = Blueprint.load(blueprint)
    top = node(made, made.spec.root)
    own = component == made.spec.root
    one = node(made, component, **values) if own else node(made, component, "1", "root", **values)
    there = state(made, one) if own else state(made, top, one)
    found = verdicts(made, *there.nodes.values(), id=one.id)
    return {rule for rule, verdict in found.items() if verdict.kind == "cel" and not verdict.ok}


@pytest.mark.parametrize(
    ("blueprint", "component", "wrong", "right", "rule"),
    [
        (
            "course",
            "course",
            {"objectives": ["measure it"]},
            {"objectives": ["Measure it"]},
            "props.objectives.rules[0]",
        ),
        (
            "course",
            "course",
            {"level": "advanced", "metadata__grade": 8},
            {"level": "advanced", "metadata__grade": 9},
            "rules[0]",
        ),
        ("course", "lesson", {"minutes": 42}, {"minutes": 40}, "props.minutes.rules[0]"),
        ("course", "lesson", {"question": "Why"}, {"question": "Why?"}, "props.question.rules[0]"),
        ("course", "activity", {"text": "Do it"}, {"text": "Do it."}, "props.text.rules[0]"),
        (
            "course",
            "activity",
            {"kind": "discussion", "graded": True},
            {"kind": "quiz", "graded": True},
            "rules[0]",
        ),
        (
            "catalogue",
            "catalogue",
            {"price_from": 10, "price_to": 19},
            {"price_from": 10, "price_to": 20.0},
            "rules[0]",
        ),
        ("catalogue", "category", {"keywords": ["Lamp"]}, {"keywords": ["lamp"]}, "props.keywords.rules[0]"),
        (
            "catalogue",
            "product",
            {"description": "The best lamp"},
            {"description": "A lamp that bestows light"},
            "props.description.rules[0]",
        ),
        ("design", "module", {"metadata__path": "../x"}, {"metadata__path": "src/x"}, "metadata.path.rules[0]"),
    ],
)
def test_each_rule_refuses_what_is_wrong_and_takes_what_is_right(
    blueprint: str, component: str, wrong: dict[str, Any], right: dict[str, Any], rule: str
) -> None:
    assert rule in _wrong(blueprint, component, **wrong)
    assert rule not in _wrong(blueprint, component, **right)


def test_times_and_prices_are_held_to_what_the_parent_says() -> None:
    course = Blueprint.load("course")
    top = node(course, "course", lesson_minutes=45)
    lesson = course.component("lesson")
    for minutes, ok in ((45, True), (50, False)):
        one = node(course, "lesson", "1", "root", minutes=minutes)
        found = recomputed(lesson, context_of(state(course, top, one), one))
        made = node(course, "lesson", "1", "root", **found.props)
        assert verdicts(course, top, made, id="1")["rules[0]"].ok is ok


def test_a_margin_of_less_than_a_fifth_is_refused() -> None:
    made = Blueprint.load("catalogue")
    product = made.component("product")
    for price, cost, margin in ((20, 15, 25.0), (12.5, 10, 20.0), (10, 9, 10.0)):
        unset: dict[str, Any] = dict.fromkeys(product.spec.properties)
        found = recomputed(product, NodeContext({}, {**unset, "price": price, "cost": cost})).props
        assert found["margin_percent"] == margin
        assert ("rules[0]" in _wrong("catalogue", "product", **found)) == (margin < 20)

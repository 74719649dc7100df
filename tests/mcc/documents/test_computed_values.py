"""Formulas, bindings and templates: their results with set and unset inputs."""

import pytest

from mcc.documents.component import computed, context_of
from mcc.documents.formulas import NodeContext
from mcc.documents.templates import MAX_TEXT, Template, TemplateError, TooLong
from tests.mcc.documents.blueprints import blueprint, course, node, recomputed, state

VALUES: dict[str, object] = {"props.a": "x", "props.n": 2.0, "props.l": ["p", "q"], "props.b": True, "position": 3}


def test_a_template_is_text_with_values_in_braces() -> None:
    made = Template.parse("{{{props.a}}} is {props.n}, {props.l} and {props.b} at { position }")
    assert made.text(VALUES.get) == "{x} is 2, p, q and true at 3"
    assert made.names == ("props.a", "props.n", "props.l", "props.b", "position")


def test_one_pair_of_braces_alone_keeps_the_kind_and_a_text_with_a_gap_is_null() -> None:
    assert Template.parse("{props.l}").value(VALUES.get) == ["p", "q"]
    assert Template.parse("{props.l}!").value(VALUES.get) == "p, q!"
    assert Template.parse("{props.none}!").value(VALUES.get) is None
    assert Template.parse("{props.none}!").text(VALUES.get) == "(not set)!"
    assert Template.parse("plain").value(VALUES.get) == "plain"


@pytest.mark.parametrize(
    "text", ["{", "}", "a { b", "{props}", "{1 + 1}", "{props.a.b}", "{{props.a}", "{props.A}", "{}"]
)
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        Template.parse(text)


def test_a_template_makes_so_much_text_at_most() -> None:
    made = Template.parse("{props.a}{props.a}")
    assert len(made.text({"props.a": "x" * (MAX_TEXT // 2)}.get)) == MAX_TEXT
    with pytest.raises(TooLong):
        made.text({"props.a": "x" * (MAX_TEXT // 2 + 1)}.get)


def test_a_child_takes_what_its_parent_has_with_its_kind() -> None:
    made = course()
    top = node(made, "course", metadata__topic="Light", metadata__grade=8)
    child = node(made, "lesson", "1", "root", metadata__focus="Leaves")
    found = recomputed(made.component("lesson"), context_of(state(made, top, child), child))
    assert (found.props["grade"], found.props["headline"]) == (8, "Light: Leaves")
    assert child.props["grade"] is None


def test_a_formula_is_null_where_it_meets_a_null() -> None:
    root = course().root
    for planned, minutes, total in ((8, 45, 360), (None, 45, None), (8, None, None)):
        values = dict.fromkeys(root.spec.properties) | {"lessons_planned": planned, "lesson_minutes": minutes}
        assert recomputed(root, NodeContext({}, values)).props["total_minutes"] == total


def test_formulas_and_bindings_follow_one_another_in_the_order_that_they_need() -> None:
    made = blueprint(
        """
        metadata:
          label: {type: text, formula: props.full + "!"}
        properties:
          full: {type: text, bind: '{props.first} {props.last}'}
          last: {type: text, formula: '"of " + string(props.size)'}
          first: {type: text}
          size: {type: number, integer: true, formula: size(props.first)}
          other: {type: number, formula: 'props.first == null ? 0 : 1'}
        """
    ).root
    unset: dict[str, None] = dict.fromkeys(made.spec.properties)
    found = recomputed(made, NodeContext({"label": None}, {**unset, "first": "ab"}))
    assert found.metadata == {"label": "ab of 2!"}
    assert found.props == {"first": "ab", "size": 2, "last": "of 2", "full": "ab of 2", "other": 1}
    without = recomputed(made, NodeContext({"label": None}, unset))
    assert (without.metadata, without.props["full"], without.props["other"]) == ({"label": None}, None, 0)


def test_text_that_doubles_itself_ends_at_its_bound() -> None:
    doubling = "".join(
        f"\n  p{level}: {{type: text, bind: '{{props.p{level + 1}}}{{props.p{level + 1}}}'}}" for level in range(60)
    )
    adding = "".join(
        f"\n  q{level}: {{type: text, formula: props.q{level + 1} + props.q{level + 1}}}" for level in range(60)
    )
    made = blueprint(f"properties:{doubling}\n  p60: {{type: text}}{adding}\n  q60: {{type: text}}").root
    unset: dict[str, None] = dict.fromkeys(made.spec.properties)
    found = recomputed(made, NodeContext({}, {**unset, "p60": "ab", "q60": "ab"}))
    assert len(found.props["p50"]) == len(found.props["q50"]) == 2_048
    assert found.props["p0"] is None and found.props["q0"] is None


def test_a_formula_that_takes_too_long_has_no_value_and_says_so() -> None:
    each = "props.many.filter(a, props.many.all(b, props.many.all(c, a + b + c > 0)))"
    made = blueprint(
        f"properties:\n  many: {{type: list, items: {{type: number}}}}\n  none: {{type: number}}\n"
        f"  n: {{type: number, formula: 'props.none == 1 ? 1 : size({each})'}}"
    ).root
    found = computed(made.fields["props.n"], NodeContext({}, {"many": [1] * 2_000, "none": None, "n": None}))
    assert (found.value, found.problem) == (None, "The formula has no value: it takes too many steps.")


def test_a_formula_of_another_kind_than_its_field_makes_nothing() -> None:
    made = blueprint("properties:\n  a: {type: text}\n  n: {type: number, formula: dyn(props.a)}").root
    assert recomputed(made, NodeContext({}, {"a": "text", "n": None})).props["n"] is None


def test_a_component_that_says_nothing_is_described_by_its_name_and_required_fields() -> None:
    activity = course().component("activity").describe
    assert activity.text({"props.kind": "quiz", "props.text": "Name it."}.get) == "activity: kind quiz; text Name it."
    assert blueprint("properties: {p: {type: text}}").root.describe.text(dict[str, str]().get) == "a"

"""Section A, its rules: kinds, derived ones, what CEL sees, guidelines, bindings. One test for each row."""

from mcc.documents.component import context_of
from mcc.documents.functions import ReadOnlyNode, function
from mcc.documents.judging import judge_functions
from tests.mcc.documents.blueprints import blueprint, broken, course, node, recomputed, state, verdicts


@function("even")
def _even(found: ReadOnlyNode) -> bool | str:
    return found.props["n"] % 2 == 0 or "n is odd"


def test_rule_kinds_expression_guideline_and_function() -> None:
    made = blueprint(
        """
        properties: {n: {type: number, rules: [{cel: 10 / value > 0}, {guideline: Prefer small numbers.}]}}
        rules: [{function: even}]
        """
    )
    top = node(made, "a", n=0)
    said = judge_functions(made, state(made, top), "root", {"even": _even}, 1)
    found = verdicts(made, top, functions=said)
    assert {rule: (one.kind, one.ok) for rule, one in found.items()} == {
        "props.n.rules[0]": ("cel", False),  # an evaluation error is a failure
        "props.n.rules[1]": ("guideline", None),
        "rules[0]": ("function", True),
    }
    assert "could not be checked" in found["props.n.rules[0]"].message
    odd = node(made, "a", n=3)
    assert judge_functions(made, state(made, odd), "root", {"even": _even}, 1)["rules[0]"].message == "n is odd"


def test_rules_derived_from_a_propertys_type_text_length_number_bounds_one_of_pattern_list_size_required() -> None:
    made = blueprint(
        """
        properties:
          text: {type: text, min_length: 2, max_length: 3}
          long: {type: text, max_length: 3, pattern: "^a"}
          low: {type: number, min: 1}
          high: {type: number, max: 9, integer: true}
          one: {type: choice, options: [a, b]}
          list: {type: list, items: {type: text}, min_items: 1, max_items: 2}
          must: {type: text, required: true}
        """
    )
    unset = verdicts(made, node(made, "a"))
    assert [rule for rule, one in unset.items() if not one.ok] == ["props.must.required"]
    wrong = broken(made, text="a", long="bbbb", low=0, high=9.5, one="c", list=["a"] * 3, must="x")
    assert sorted(wrong) == [
        "props.high.integer",
        "props.high.max",
        "props.list.max_items",
        "props.long.max_length",
        "props.long.pattern",
        "props.low.min",
        "props.one.options",
        "props.text.min_length",
    ]


def test_cel_variables_are_exactly_metadata_props_and_value_for_rules_and_formulas_alike() -> None:
    made = blueprint(
        """
        metadata: {own: {type: text}}
        properties:
          unset: {type: text}
          here:
            type: text
            rules: [{cel: '"unset" in props && props.unset == null && metadata.own == "m" && value == props.here'}]
          made: {type: text, formula: metadata.own + props.here}
        """
    )
    assert not broken(made, metadata__own="m", here="h")
    top = node(made, "a", metadata__own="m", here="h")
    assert recomputed(made.root, context_of(state(made, top), top)).props["made"] == "mh"
    for text in ("parent.metadata.own == null", "value == null"):
        try:
            blueprint(f"rules: [{{cel: {text}}}]")
        except ValueError as error:
            assert "is not known here; there is: metadata, props" in str(error)
        else:
            raise AssertionError(text)


def test_guidelines_of_all_properties_stand_in_a_stable_order_beside_their_fields() -> None:
    made = course()
    assert [(rule.field, rule.guideline) for rule in made.root.guidelines] == [
        ("props.objectives", "Begin each objective with a verb that can be observed.")
    ]
    several = blueprint(
        """
        properties: {b: {type: text, rules: [{guideline: one}]}, a: {type: text, rules: [{guideline: two}]}}
        rules: [{guideline: three}]
        """
    )
    assert [rule.guideline for rule in several.root.guidelines] == ["one", "two", "three"]


def test_bindings_take_a_parents_property_or_metadata_by_a_template() -> None:
    made = course()
    top = node(made, "course", metadata__topic="Light", metadata__grade=8)
    child = node(made, "lesson", "1", "root", metadata__focus="Leaves")
    lesson = made.component("lesson")
    found = recomputed(lesson, context_of(state(made, top, child), child))
    assert (found.props["grade"], found.props["headline"]) == (8, "Light: Leaves")

"""Checks of blueprints beyond their shape: all problems are reported at once, each with its line."""

import json
import textwrap
from itertools import pairwise

import pytest

from mcc.documents import Blueprint, BlueprintError
from mcc.documents.reading import MAX_PROBLEMS
from tests.mcc.documents.blueprints import changed, problems


def wrong(component: str, more: str = "") -> dict[str, str]:
    """Messages by place within the component `a`, or of the whole blueprint."""
    body = textwrap.indent(textwrap.dedent(component), "    ")
    rest = textwrap.indent(textwrap.dedent(more), "  ")
    try:
        Blueprint.parse(f"blueprint: x\nroot: a\ncomponents:\n  a:\n{body}\n{rest}")
    except BlueprintError as error:
        assert all(one.line for one in error.problems)
        return {one.place.removeprefix("components.a."): one.message for one in error.problems}
    return {}


def field(text: str, key: str = "p") -> dict[str, str]:
    found = wrong(f"properties: {{{key}: {{{text}}}}}")
    return {place.removeprefix(f"properties.{key}").removeprefix("."): message for place, message in found.items()}


def test_all_problems_are_told_at_once_those_of_the_shape_too() -> None:
    found = problems(
        changed(
            ("min_length: 3,", "min_lenth: 3,"),
            ("{type: date}", "{type: dat}"),
            ("default: 7", "default: 77"),
            ("props.lessons_planned *", "props.lesson_planned *"),
            ("metadata.grade >= 9", "metadata.grad >= 9"),
            ("{parent.metadata.topic}", "{parent.metadata.topik}"),
            ("{metadata.focus}.'", "{metadata.fokus}.'"),
            ("to: lesson", "to: lessons"),
            ("{activity: {min: 1", "{activity: {min: 6"),
            ("[workspace_read]", "[workspace_write, read_file]"),
            ("value % 5", "value % 'five'"),
            ("[quiz, experiment, discussion]", "[quiz, quiz]"),
        )
    )
    assert found == {
        "10 components.course.metadata.topic.min_lenth": "Nothing of this name is known here;"
        " did you mean 'min_length'?",
        "11 components.course.metadata.grade.default": "At most 13 is allowed; this is 77",
        "12 components.course.metadata.starts_on.type": "'dat' is no type that a field has here; did you mean 'date'?",
        "27 components.course.properties.total_minutes.formula": "`props` has no key 'lesson_planned';"
        " did you mean 'lessons_planned'? (line 1, column 7 of the expression)",
        "29 components.course.rules[0].cel": "`metadata` has no key 'grad'; did you mean 'grade'?"
        " (line 1, column 39 of the expression)",
        "39 components.lesson.properties.headline.bind": "course has no metadata.topik; did you mean 'metadata.topic'?",
        "40 components.lesson.properties.minutes.rules[0].cel": "`value % 'five'` calculates with"
        " int or double or null_type and string, which never fits (line 1, column 18 of the expression)",
        "41 components.lesson.properties.builds_on.to": "There is no component 'lessons'; did you mean 'lesson'?",
        "46 components.lesson.children.activity.min": "min 6 is more than max 5, so that nothing ever fits",
        "47 components.lesson.describe": "There is no metadata.fokus; did you mean 'metadata.focus'?",
        "48 components.lesson.agent.tools[0]": "'workspace_write' is no group that only reads;"
        " did you mean 'workspace_read'?",
        "48 components.lesson.agent.tools[1]": "'read_file' is no group that only reads; there is: diff_read,"
        " document_read, environment_read, git_read, history_read, memory_read, plans_read, rules_skills_read,"
        " shell_read, tasks_read, web_read, workspace_read",
        "51 components.activity.properties.kind.options[1]": "The option 'quiz' stands here a second time",
    }


@pytest.mark.parametrize(
    ("said", "place", "message"),
    [
        ("type: text, min_length: 5, max_length: 4", "min_length", "min_length 5 is more than max_length 4"),
        ("type: text, pattern: '(a+'", "pattern", "The pattern uses '(a+' as a regular expression"),
        (r"type: text, pattern: '(a)\1'", "pattern", "The pattern uses"),
        ("type: text, default: 3", "default", "This must be a text, and a number was given"),
        ("type: text, default: ab, min_length: 3", "default", "At least 3 characters are needed; this has 2"),
        ("type: number, min: 3, max: 2", "min", "min 3 is more than max 2"),
        ("type: number, integer: true, min: 1.2, max: 1.8", "integer", "There is no whole number from 1.2 to 1.8"),
        ("type: number, default: true", "default", "This must be a number, and true was given"),
        ("type: boolean, default: 'no'", "default", "This must be true or false, and a text was given"),
        ("type: choice, options: []", "options", "List should have at least 1 item"),
        ("type: choice, options: [a, ' ']", "options[1]", "An option is empty"),
        ("type: choice, options: [a], default: b", "default", "'b' is none of the options: a"),
        ("type: date, after: soon", "after", "'soon' is no date; write it like 2026-01-31"),
        ("type: date, after: 2026-01-01, before: 2026-01-02", "after", "There is no day after 2026-01-01"),
        (
            "type: date, default: 2026-02-30",
            "default",
            "This must be a date, such as 2026-01-31, and '2026-02-30' is not one",
        ),
        ("type: reference, to: b", "to", "There is no component 'b'; there is: a"),
        ("type: list, items: {type: list}", "items.type", "'list' is no type that a field has here; there is: boolean"),
        ("type: list, items: {type: text, default: x}", "items.default", "An item has no default of its own"),
        ("type: list, items: {type: text, required: true}", "items.required", "An item is always present"),
        ("type: list, items: {type: text, pattern: '('}", "items.pattern", "The pattern uses"),
        ("type: list, items: {type: text}, min_items: 2, max_items: 1", "min_items", "min_items 2 is more than"),
        ("type: list, items: {type: text}, default: [a, null]", "default", "Item 2: An item of a list cannot be null"),
        ("type: text, formula: '1'", "formula", "This gives int, and the field is a text"),
        ("type: text, formula: '\"a\"', bind: b", "bind", "A field has a formula or a binding, and this has both"),
        ("type: number, formula: '1', default: 2", "default", "Nobody sets a computed value"),
        ("type: number, formula: value + 1", "formula", "'value' is not known here; there is: metadata, props"),
        ("type: text, bind: '{position'", "bind", "A single '{' stands here; write '{{' for a brace"),
        ("type: text, bind: '{a b}'", "bind", "{a b} is no name of a template; there is {metadata.x}"),
        ("type: text, bind: '{parent.props.x}'", "bind", "a is the root, which has no parent"),
        ("type: date, bind: '{position}'", "bind", "{position} is a number, and the field is a date"),
        ("type: number, bind: 'No. {position}'", "bind", "This makes a text, and the field is a number"),
        ("type: text, bind: '{props.p}'", "bind", "This is computed from itself: props.p → props.p"),
    ],
)
def test_what_a_field_says_of_itself_has_to_fit(said: str, place: str, message: str) -> None:
    found = field(said)
    assert list(found) == [place]
    assert found[place].startswith(message)


def test_a_rule_of_the_component_has_no_value_and_one_of_metadata_no_props() -> None:
    found = wrong("metadata: {m: {type: text, rules: [{cel: props.x == value}]}}\nrules: [{cel: value == 1}]")
    assert found == {
        "metadata.m.rules[0].cel": "'props' is not known here; there is: metadata, value (line 1, column 1 of the"
        " expression); a rule of a metadata field sees metadata alone",
        "rules[0].cel": "'value' is not known here; there is: metadata, props (line 1, column 1 of the expression);"
        " a rule of the component has no value, one of a field has",
    }


def test_receipts_are_for_evidence_alone() -> None:
    found = wrong("rules: [{cel: size(receipts) > 0}, {evidence: size(receipts) > 0}]")
    assert list(found) == ["rules[0].cel"]
    assert not wrong("properties: {p: {type: text, rules: [{evidence: 'quoted(\"a\", value)'}]}}")


def test_what_a_describe_names_is_there() -> None:
    assert wrong("describe: '{props.x}'") == {"describe": "There is no props.x; there is none"}
    assert "only a binding names what the parent has" in wrong("describe: '{parent.props.x}'")["describe"]


def test_loops_of_formulas_and_bindings_are_told_once_each() -> None:
    found = wrong(
        """
        metadata:
          m: {type: text, bind: '{props.a}'}
        properties:
          a: {type: text, formula: props.b + "!"}
          b: {type: text, bind: '{metadata.m}?'}
          whole: {type: number, formula: size(props)}
          fine: {type: text, formula: props.a}
        """
    )
    assert len(found) == 2
    assert "metadata.m → props.a → props.b → metadata.m" in found["metadata.m.bind"]
    assert found["properties.whole.formula"] == "This is computed from itself: props.whole → props.whole"


def test_a_binding_is_held_against_every_parent_that_there_may_be() -> None:
    several = """
        b: {children: {c: {}}, properties: {day: {type: date}}}
        c: {properties: {size: {type: number, bind: '{parent.props.SIZE}'}}}
        """
    top = "children: {b: {}, c: {}}\nproperties: {size: {type: number}}"
    assert not wrong(top, several.replace("SIZE", "size"))
    assert wrong(top, several.replace("SIZE", "sise")) == {
        "components.c.properties.size.bind": "None of a, b has a props.sise; did you mean 'props.size'?"
    }
    assert wrong(top, several.replace("SIZE", "day")) == {
        "components.c.properties.size.bind": "{parent.props.day} is a date, and the field is a number"
    }
    found = wrong(
        "children: {b: {}}\nproperties: {size: {type: number}, all: {type: list, items: {type: number}}}",
        """
        b:
          properties:
            day: {type: date, bind: '{parent.props.size}'}
            all: {type: list, items: {type: text}, bind: '{parent.props.all}'}
            size: {type: text, bind: 'Size {parent.props.size}'}
        """,
    )
    assert found == {
        "components.b.properties.day.bind": "{parent.props.size} is a number, and the field is a date",
        "components.b.properties.all.bind": "{parent.props.all} is a list of number, and the field is a list of text",
    }


def test_a_field_whose_type_nobody_knows_is_told_once_and_may_be_of_any_type() -> None:
    found = wrong(
        """
        properties:
          size: {type: nummer, min: 3}
          twice: {type: number, formula: props.size * 2}
          text: {type: text, formula: 'props.size + "!"'}
          same: {type: date, bind: '{props.size}'}
        """
    )
    assert list(found) == ["properties.size.type"]


def test_what_nobody_reaches_and_what_never_ends_is_told() -> None:
    assert wrong("{}", "b: {}") == {
        "components.b": "Nothing leads here from the root a: make it a child, or leave it out"
    }
    assert wrong("children: {b: {min: 1}}", "b: {children: {a: {min: 1}}}") == {
        "components.b.children.a.min": "Each b needs a a, which leads back to b without an end; let min be 0 somewhere"
    }
    assert not wrong("children: {a: {max: 3}}")
    assert not wrong("children: {b: {min: 1}, c: {min: 1}}", "b: {children: {c: {min: 1}}}\nc: {}")
    assert list(wrong("children: {b: {max: 0}}", "b: {}")) == ["components.b"]
    assert wrong("children: {c: {}}") == {"children.c": "There is no component 'c'; there is: a"}


def test_the_smallest_document_has_levels_and_nodes_that_a_document_may_have() -> None:
    def made(levels: int, least: int) -> str:
        names = [f"c{level}" for level in range(levels)]
        below = {name: {"children": {child: {"min": least}}} for name, child in pairwise(names)}
        return json.dumps({"blueprint": "x", "root": "c0", "components": {**below, names[-1]: {}}})

    assert not problems(made(100, 1))
    assert list(problems(made(101, 1)).values()) == ["The smallest document has 101 levels; 100 is the most"]
    assert list(problems(made(7, 10)).values()) == [
        "The smallest document has more than 100,000 nodes, the most that one has"
    ]


def test_the_root_is_one_of_the_components() -> None:
    assert problems("blueprint: x\nroot: b\ncomponents: {bb: {}}") == {
        "2 root": "There is no component 'b'; did you mean 'bb'?"
    }


def test_a_blueprint_has_so_many_rules_at_most() -> None:
    many = "".join(f"      p{n}: {{type: text, rules: [{'{cel: 1 == 1}, ' * 90}]}}\n" for n in range(23))
    text = f"blueprint: x\nroot: a\ncomponents:\n  a:\n    properties:\n{many}"
    assert list(problems(text).values()) == ["A blueprint has 2,000 rules at most; this has 2,070"]


def test_a_rule_that_never_holds_is_a_rule() -> None:
    assert not wrong("rules: [{cel: 'false'}, {cel: 1 == 2}]")


def _of(component: str) -> str:
    return f"blueprint: x\nroot: a\ncomponents:\n  a:\n    {component}\n"


def _many(number: int, field: str) -> str:
    return _of("properties: {" + ", ".join(f"p{n}: {{{field.format(n=n, next=n + 1)}}}" for n in range(number)) + "}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_many(500, "type: number, formula: size(props)"), "This is computed from itself: props.p0 → props.p0"),
        (_many(500, "type: text, formula: props.p{n}"), "This is computed from itself: props.p0 → props.p0"),
        (_many(500, "type: txt"), "'txt' is no type that a field has here; did you mean 'text'?"),
        (_many(501, "type: text"), "A component has 500 fields of one sort at most"),
        (_many(2, "type: text, " + ", ".join(f"k{n}: 1" for n in range(9_000))), "Nothing of this name is known here"),
        (_of(f"rules: [{'{cel: 1 == 1}, ' * 10_000}]"), "List should have at most 100 items, not 10000"),
        (_of(f"rules: [{{cel: '{'(' * 3_000}'}}]"), "the expression ends where more was expected"),
        (_of(f"rules: [{{cel: '{'!' * 3_000}true'}}]"), "this is nested deeper than 60 levels"),
        (_of(f"properties: {{p: {{type: text, pattern: '{'(a{99}){99}' * 30}'}}}}"), "The pattern uses"),
        (_of(f"properties: {{p: {{type: number, min: {'9' * 99}, max: 1e308}}}}"), ""),
        (_of(f"properties: {{p: {{type: number, default: {'9' * 99}, max: 3}}}}"), "At most 3 is allowed; this is 999"),
        (_of("children: {a: {min: 1}}"), "Each a needs a a, which leads back to a without an end"),
        (_of("children: {" + ", ".join(f"b{n}: {{}}" for n in range(5_000)) + "}"), "There is no component 'b0'"),
        (_of("describe: '" + "{metadata.x}" * 800 + "'"), "There is no metadata.x; there is none"),
    ],
    ids=lambda one: one[:60] if len(one) < 100 else f"{len(one)} characters",
)
def test_whatever_somebody_writes_is_answered_with_sentences(text: str, said: str) -> None:
    found = list(problems_told(text))
    assert len(found) <= MAX_PROBLEMS + 1
    assert found[0].startswith(said) if said else not found, found[:1]


def problems_told(text: str) -> list[str]:
    try:
        Blueprint.parse(text)
    except BlueprintError as error:
        return [one.message for one in error.problems]
    return []


def test_bindings_of_a_long_chain_are_made_in_their_order() -> None:
    chain = _many(499, "type: text, formula: props.p{next}").replace("}}\n", "}, p499: {type: text}}\n")
    assert [field.key for field in Blueprint.parse(chain).root.computed] == [f"p{n}" for n in reversed(range(499))]


def test_what_is_nearly_an_option_is_a_slip_and_what_is_far_from_all_is_not() -> None:
    field = "properties: {{p: {{type: choice, options: [basic, advanced], rules: [{{cel: 'value != \"{}\"'}}]}}}}"
    assert wrong(field.format("advnced")) == {
        "properties.p.rules[0].cel": "`value` is never 'advnced'; did you mean 'advanced'?"
        " (line 1, column 10 of the expression)"
    }
    assert not wrong(field.format(""))
    assert not wrong(field.format("expert"))

"""A blueprint's text: YAML or JSON, its digest, and errors of its shape with line and suggestion."""

import json
from pathlib import Path

import pytest

from mcc.definitions.yaml_text import parse
from mcc.documents import Blueprint, BlueprintError
from mcc.documents.reading import MAX_BYTES, MAX_PROBLEMS
from tests.mcc.documents.blueprints import COURSE, changed, course, problems

SMALL = "blueprint: x\nroot: a\ncomponents:\n  a:\n    properties:\n      p: {type: text}\n"


def test_the_course_of_the_reference_is_a_blueprint() -> None:
    found = course()
    assert (found.name, found.spec.version, found.root.name) == ("course", 2, "course")
    assert list(found.components) == ["course", "lesson", "activity"]
    assert found.component("lesson").settings.max_turns == 30
    assert found.component("activity").settings.max_turns == 50


def test_yaml_and_json_of_one_content_have_one_digest() -> None:
    as_json = json.dumps(parse(COURSE).value, indent="\t")
    assert Blueprint.parse(as_json).digest == course().digest
    assert Blueprint.load(parse(COURSE).value).digest == course().digest
    assert Blueprint.parse(course().text).text == course().text


def test_the_digest_knows_no_comment_and_every_word() -> None:
    assert Blueprint.parse(changed(("# in this order; min and max are rules of the parent", ""))) == course()
    assert Blueprint.parse(changed(("Use steps of five.", "Use steps of 5."))) != course()
    assert Blueprint.parse(changed(("kind: {type", "sort: {type"))).digest != course().digest
    assert course().digest.startswith("sha256:") and len(course().digest) == 71


def test_mistakes_of_the_shape_are_told_all_at_once_with_line_and_nearest_name() -> None:
    found = problems(
        changed(
            ("min_length: 5,", "min_lenght: 5,"),
            ("options: [basic", "optoins: [basic"),
            ("type: boolean", "type: boolian"),
            ("type: date", "type: 7"),
            ("activity: {min: 1", "activity: {min: -1"),
            ("temperature: 0.4", "temperature: warm"),
            ("integer: true, min: 20", "integer: 'true', min: 20"),
            ("    describe: 'Lesson", "    descripe: 'Lesson"),
        )
    )
    assert found == {
        "12 components.course.metadata.starts_on.type": "'7' is no type that a field has here;"
        " there is: boolean, choice, date, list, number, reference, text",
        "14 components.course.properties.title.min_lenght": "Nothing of this name is known here;"
        " did you mean 'min_length'?",
        "15 components.course.properties.level.options": "Nothing is given here, and it is needed; add it",
        "15 components.course.properties.level.optoins": "Nothing of this name is known here; did you mean 'options'?",
        "25 components.course.properties.lesson_minutes.integer": "Input should be true or false,"
        " without quotation marks",
        "33 components.course.agent.temperature": "Input should be a number, such as 2.5: no text, not true or false",
        "46 components.lesson.children.activity.min": "Input should be greater than or equal to 0",
        "47 components.lesson.descripe": "Nothing of this name is known here; did you mean 'describe'?",
        "53 components.activity.properties.graded.type": "'boolian' is no type that a field has here;"
        " did you mean 'boolean'?",
    }


def test_a_rule_has_one_kind_and_only_cel_and_evidence_have_a_message() -> None:
    found = problems(
        changed(
            ("{function: lesson_titles_differ}", "{function: f, cel: 'true'}"),
            ("{guideline: Begin", "{message: m, guideline: Begin"),
        )
    )
    assert found == {
        "24 components.course.properties.objectives.rules[1]": "A message belongs to cel and evidence alone",
        "30 components.course.rules[1]": "A rule has exactly one of cel, guideline, function and evidence",
    }


def test_json_has_lines_too() -> None:
    content = parse(changed(("min_length: 5,", "min_lenght: 5,"))).value
    text = json.dumps(content, indent="\t")
    line = next(number for number, one in enumerate(text.split("\n"), 1) if "min_lenght" in one)
    assert list(problems(text)) == [f"{line} components.course.properties.title.min_lenght"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "course.yaml: A blueprint is lines of `key: value`, the first `blueprint: NAME`; this is empty"),
        ("- a", "course.yaml: A blueprint is lines of `key: value`, the first `blueprint: NAME`; this is no mapping"),
        ("a: 1\na: 2", "course.yaml:2: The key 'a' stands here a second time; keep one of the two"),
        ('{"a": 1,\n"b": 2,\n"a": 3}', "course.yaml:3: The key 'a' stands twice in one object: which of its values"),
        ("a: &x 1", "course.yaml:1: &x is a YAML anchor and is refused"),
        ("[" * 200_000, "course.yaml:1: This is nested deeper than 32 levels"),
        ('{"a":' * 40_000, "course.yaml:1: This is nested deeper than 32 levels"),
        ("a: " + "9" * 100_000, "course.yaml:1: '99999"),
        ("x" * (MAX_BYTES + 1), "course.yaml: A blueprint may have 256 KB at most; this has more"),
        ("é" * (MAX_BYTES // 2 + 1), "course.yaml: A blueprint may have 256 KB at most; this has more"),
        ("a: [1, 2", "course.yaml:1: Not readable as YAML"),
    ],
)
def test_a_text_that_is_no_blueprint_is_a_sentence(text: str, said: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        Blueprint.parse(text, "course.yaml")
    assert str(caught.value).startswith(said)


def test_a_number_that_json_has_not_is_refused_wherever_it_stands() -> None:
    text = json.dumps({"blueprint": "x", "root": "a", "components": {"a": {"properties": {"p": {"type": "number"}}}}})
    with pytest.raises(BlueprintError, match="JSON does not have"):
        Blueprint.parse(text.replace('"number"', '"number", "default": 1e999'))


def test_of_very_many_problems_the_first_are_told() -> None:
    many = "".join(f"      p{number}: {{type: txt}}\n" for number in range(MAX_PROBLEMS + 50))
    with pytest.raises(BlueprintError) as caught:
        Blueprint.parse(SMALL + many)
    assert len(caught.value.problems) == MAX_PROBLEMS + 1
    assert caught.value.problems[-1].message == "There are more mistakes; they are reported once these are corrected"


def test_a_name_is_found_in_folders_and_a_path_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    assert Blueprint.load("small", (tmp_path,)) == Blueprint.load(tmp_path / "small.yaml")
    assert Blueprint.load(str(tmp_path / "small.yaml")).name == "x"
    with pytest.raises(BlueprintError, match="There is no blueprint 'smal'; did you mean 'small'"):
        Blueprint.load("smal", (tmp_path,))
    with pytest.raises(BlueprintError, match="There is no such file"):
        Blueprint.load(tmp_path / "other.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(BlueprintError, match=r"latin\.yaml:2: Byte 8 is not UTF-8"):
        Blueprint.load(tmp_path / "latin.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(BlueprintError, match="256 KB at most"):
        Blueprint.load(tmp_path / "big.yaml")


@pytest.mark.parametrize(
    ("said", "place", "message"),
    [
        ("properties: {p: {type: string}}", "properties.p.type", "'string' is no type that a field has here; did you"),
        ("properties: {p: {type: enum}}", "properties.p.type", "'enum' is no type that a field has here; did you mean"),
        ("properties: {p: text}", "properties.p", "Names with their values belong here"),
        ("properties: [p]", "properties", "Names with their values belong here"),
        ("properties: {p: {}}", "properties.p", "A field has a `type`; there is: text, number"),
        ("children: {a: 3}", "children.a", "Names with their values belong here"),
        ("props: {}", "props", "Nothing of this name is known here; did you mean 'properties'?"),
        ("rules: [{cell: 'true'}]", "rules[0].cell", "Nothing of this name is known here; did you mean 'cel'?"),
        ("agent: {turns: 3}", "agent.turns", "Nothing of this name is known here; did you mean 'max_turns'?"),
        ("agent: {thinking: hard}", "agent.thinking", "'hard' is not known here; there is: high, inherit"),
        ("agent: {validates: true}", "agent.validates", "Nothing of this name is known here; did you mean 'validate'?"),
        ("rules: [{cel: p == null}]", "rules[0].cel", "'p' is not known here; there is: metadata, props (line 1"),
        ("rules: [{cel: parent.x == 1}]", "rules[0].cel", "'parent' is not known here; there is: metadata, props"),
    ],
)
def test_what_people_write_instead_is_told_what_was_meant(said: str, place: str, message: str) -> None:
    found = problems(f"blueprint: x\nroot: a\ncomponents:\n  a:\n    {said}\n    metadata: {{p: {{type: text}}}}\n")
    assert list(found) == [f"5 components.a.{place}"]
    told = found[f"5 components.a.{place}"]
    assert told.startswith(message)
    if "'p' is" in told:
        assert told.endswith("; did you mean 'metadata.p'?")
    if "'parent'" in told:
        assert told.endswith("; what the parent has is bound to a field of its own, with bind")

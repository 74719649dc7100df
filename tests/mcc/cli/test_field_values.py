"""`key=value` of the command line as values of a component's fields."""

import pytest

from mcc.cli.field_values import metadata_in, values_in
from mcc.documents.blueprint import Blueprint

COURSE = Blueprint.parse("""
blueprint: course
root: course
components:
  course:
    metadata:
      topic: {type: text}
      grade: {type: number}
      starts_on: {type: date}
      title: {type: text}
    properties:
      title: {type: text}
      level: {type: choice, options: [basic, "7"]}
      graded: {type: boolean}
      sizes: {type: list, items: {type: number}}
      words: {type: list, items: {type: text}}
""").spec.components["course"]


def test_a_value_has_the_kind_of_its_field() -> None:
    said = ("topic=2024", "grade=7", "starts_on=2026-01-31")
    assert metadata_in(COURSE, said) == {"topic": "2024", "grade": 7, "starts_on": "2026-01-31"}
    given = values_in(COURSE, ("level=7", "graded=TRUE", "sizes=1,2.5", 'words=["a, b", "c"]', "metadata.grade=-2.5"))
    assert given["props"] == {"level": "7", "graded": True, "sizes": [1, 2.5], "words": ["a, b", "c"]}
    assert given["metadata"] == {"grade": -2.5}


def test_an_equals_sign_and_an_empty_text_belong_to_the_value_and_null_takes_it_away() -> None:
    assert metadata_in(COURSE, ("topic=a=b", "title=", "grade=null")) == {"topic": "a=b", "title": "", "grade": None}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (["topic"], "write key=value"),
        (["=x"], "write key=value"),
        (["topic=a", "topic=b"], "given twice"),
        (["topik=a"], "There is no field topik.*topic"),
        (["grade=seven"], "grade: 'seven' is no number"),
        (["graded=yes"], "graded: 'yes' is not true or false"),
        (["sizes=1,two"], "sizes: 'two' is no number"),
        (["sizes=[1"], "begins like a JSON array, but is not one"),
        (["title=x"], "both metadata and properties have it; write metadata.title or props.title"),
        (["props.topic=x"], "There is no field props.topic"),
    ],
)
def test_what_is_wrong_is_a_sentence(said: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        values_in(COURSE, said)


def test_properties_are_not_set_where_metadata_is_meant() -> None:
    with pytest.raises(ValueError, match="There is no field level; there is: topic, grade, starts_on, title"):
        metadata_in(COURSE, ["level=basic"])

"""Commands as tools: schemas exactly as in the reference, derived from the blueprint only."""

from collections.abc import Mapping
from typing import Any

from mcc.contracts.shape import to_json
from mcc.documents import Blueprint
from mcc.documents.commands import VISIBLE
from mcc.documents.tools import READING, ToolSchema, chat_tools, metadata_tools, node_tools
from mcc.rules.schema import checked_schema
from tests.mcc.documents.blueprints import blueprint, course

COURSE = course()
PATH = {"type": "string", "description": "Path of a node, such as /lesson-2, or its id."}


def by_name(tools: tuple[ToolSchema, ...]) -> dict[str, ToolSchema]:
    return {tool.name: tool for tool in tools}


def of(component: str, made: Blueprint = COURSE) -> dict[str, ToolSchema]:
    return by_name(node_tools(made, made.component(component)))


def values(tool: ToolSchema) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool.parameters["properties"]["values"]["properties"]
    return properties


def test_the_tools_of_a_lesson_are_those_of_the_reference_letter_for_letter() -> None:
    said = of("lesson")
    assert list(said) == ["set_value", "add_child", "remove_child", "move_child"]
    assert to_json(
        {"name": "set_value", "description": said["set_value"].description, "parameters": said["set_value"].parameters}
    ).decode() == (
        '{"name":"set_value","description":"Set properties of this lesson; null takes a value away.",'
        '"parameters":{"type":"object","additionalProperties":false,"required":["values"],"properties":{"values":'
        '{"type":"object","additionalProperties":false,"minProperties":1,"properties":{"minutes":{"type":["integer",'
        '"null"]},"builds_on":{"type":["string","null"],"description":"Path of a lesson."},"source":{"type":["string",'
        '"null"]}}}}}}'
    )
    assert to_json(said["add_child"].parameters).decode() == (
        '{"type":"object","additionalProperties":false,"required":["component"],"properties":'
        '{"component":{"enum":["activity"]},"position":{"type":"integer","minimum":1}}}'
    )
    assert said["add_child"].description == "Add a child to this lesson."
    below = {"type": "string", "description": "Path of a child of this lesson."}
    assert said["remove_child"].parameters["properties"] == {"node": below}
    assert said["remove_child"].parameters["required"] == ["node"]
    assert said["move_child"].parameters["properties"] == {"node": below, "position": {"type": "integer", "minimum": 1}}
    assert said["move_child"].parameters["required"] == ["node", "position"]


def test_a_child_is_made_with_what_it_is_about_and_no_values() -> None:
    said = of("course")["add_child"].parameters["properties"]
    assert list(said) == ["component", "metadata", "position"]
    assert said["metadata"]["properties"] == {"focus": {"type": ["string", "null"]}}
    assert said["metadata"]["additionalProperties"] is False


def test_of_several_kinds_of_children_each_has_its_own_metadata() -> None:
    two = blueprint(
        "children: {b: {}, c: {}, d: {}}",
        "b: {metadata: {x: {type: text}}}\nc: {metadata: {y: {type: boolean}}}\nd: {}",
    )
    metadata = of("a", two)["add_child"].parameters["properties"]["metadata"]
    assert [(one["description"], list(one["properties"])) for one in metadata["anyOf"]] == [
        ("Of a b.", ["x"]),
        ("Of a c.", ["y"]),
    ]


def test_every_kind_of_field_has_its_schema_and_what_only_breaks_a_rule_fits() -> None:
    kinds = blueprint(
        """
        properties:
          t: {type: text, min_length: 3, pattern: "^a"}
          n: {type: number, min: 1, max: 2, description: How many.}
          i: {type: number, integer: true}
          b: {type: boolean}
          c: {type: choice, options: [x, "y z"]}
          d: {type: date}
          r: {type: reference, to: a, description: What it rests on.}
          l: {type: list, items: {type: choice, options: [x]}, max_items: 2}
          m: {type: list, items: {type: reference, to: a}}
        """
    )
    assert values(of("a", kinds)["set_value"]) == {
        "t": {"type": ["string", "null"]},
        "n": {"type": ["number", "null"], "description": "How many."},
        "i": {"type": ["integer", "null"]},
        "b": {"type": ["boolean", "null"]},
        "c": {"type": ["string", "null"], "enum": ["x", "y z", None]},
        "d": {"type": ["string", "null"], "description": "A date such as 2026-01-31."},
        "r": {"type": ["string", "null"], "description": "What it rests on. Path of an a."},
        "l": {"type": ["array", "null"], "items": {"type": "string", "enum": ["x"]}},
        "m": {"type": ["array", "null"], "items": {"type": "string"}, "description": "Each item: path of an a."},
    }


def test_what_is_computed_cannot_be_set_and_what_has_nothing_to_set_has_no_tool() -> None:
    made = blueprint(
        """
        metadata: {n: {type: number, formula: "1"}}
        properties: {t: {type: number, bind: "{position}"}}
        """
    )
    assert node_tools(made, made.root) == metadata_tools(made.root) == ()
    assert list(of("activity")) == ["set_value"]


def test_the_agent_of_metadata_sets_metadata_and_nothing_else() -> None:
    (tool,) = metadata_tools(COURSE.component("course"))
    assert (tool.name, tool.description) == (
        "set_metadata",
        "Set metadata of this course; null takes a value away.",
    )
    assert list(values(tool)) == ["topic", "grade", "starts_on"]
    assert values(tool)["topic"] == {"type": ["string", "null"], "description": "What it is about."}


def test_a_chat_has_every_visible_command_with_its_node_and_two_tools_that_read() -> None:
    said = by_name(chat_tools(COURSE))
    visible = [one.model_fields["command"].default for one in VISIBLE]
    assert sorted(said) == sorted([*visible, *READING])
    for name in visible:
        assert said[name].parameters["properties"]["node"] == PATH
        assert said[name].parameters["required"][0] == "node"
    assert said["add_child"].parameters["properties"]["component"] == {"enum": ["lesson", "activity"]}
    assert list(said["add_child"].parameters["properties"]) == ["node", "component", "metadata", "values", "position"]
    assert said["move_child"].parameters["properties"]["parent"]["type"] == ["string", "null"]
    assert said["read_document"].parameters["required"] == []
    assert said["describe_component"].parameters["properties"] == {
        "component": {"enum": ["course", "lesson", "activity"]}
    }


def test_every_schema_is_closed_and_one_that_the_runtime_can_judge_by() -> None:
    said = [*chat_tools(COURSE)]
    for component in COURSE.components.values():
        said += [*node_tools(COURSE, component), *metadata_tools(component)]
    assert len(said) == 18
    for tool in said:
        assert tool.parameters["additionalProperties"] is False, tool.name
        checked_schema(tool.parameters)

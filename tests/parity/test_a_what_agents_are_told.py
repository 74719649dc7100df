"""Section A: what agents of nodes are told, and the tools that commands become. One test for each thing of the row."""

import pytest

from mcc.contracts.fence import unfenced
from mcc.documents import Blueprint
from mcc.documents.briefs import brief_of
from mcc.documents.commands import HIDDEN, VISIBLE
from mcc.documents.node import Role
from mcc.documents.tools import READING, chat_tools, metadata_tools, node_tools
from tests.mcc.documents.course import Course, add, move, set_props

RULES = """
blueprint: leaflet
root: leaflet
components:
  leaflet:
    metadata: {topic: {type: text, rules: [{guideline: Name one thing.}]}}
    properties:
      title: {type: text, rules: [{guideline: Keep it short.}, {cel: 'value != "x"', message: Not x.}]}
      points: {type: list, items: {type: text, rules: [{guideline: One sentence each.}]}, rules: [{guideline: Count.}]}
    rules: [{guideline: Write as you speak.}, {function: reads_well}]
    agent: {validate: VALIDATED}
"""


def section(system: str) -> list[str]:
    """The lines of the guidelines' section; none where there is no such section."""
    _, found, rest = system.partition("## Guidelines\n")
    return rest.partition("\n\n")[0].split("\n") if found else []


def leaflet(validated: str = "true") -> Course:
    return Course(Blueprint.parse(RULES.replace("VALIDATED", validated)), topic="Leaves")


def test_guidelines_of_all_properties_are_collected_into_a_section_of_the_system_prompt_in_a_stable_order() -> None:
    made = leaflet()
    told = section(brief_of(made.blueprint, made.state, "/", "node").system)
    assert told == [
        "- Keep it short. (props.title)",
        "- Count. (props.points)",
        "- One sentence each. (props.points)",
        "- Write as you speak.",
    ]
    made.do(set_props("/", title="Leaves", points=["A leaf is green."]))
    assert section(brief_of(made.blueprint, made.state, "/", "node").system) == told
    assert section(brief_of(made.blueprint, made.state, "/", "metadata").system) == [
        "- Name one thing. (metadata.topic)"
    ]


def test_there_is_no_section_of_guidelines_where_nothing_is_validated() -> None:
    made = leaflet("false")
    roles: tuple[Role, ...] = ("node", "metadata")
    for role in roles:
        system = brief_of(made.blueprint, made.state, "/", role).system
        assert section(system) == [] and "Keep it short." not in system and "Name one thing." not in system


def test_a_guideline_is_told_and_never_gated_and_a_function_is_gated_and_never_described() -> None:
    made = leaflet()
    guidelines = [one for one in made.state.root.verdicts if one.kind == "guideline"]
    assert len(guidelines) == 5 and {one.ok for one in guidelines} == {None}
    assert "reads_well" not in brief_of(made.blueprint, made.state, "/", "node").system
    assert [one.rule for one in made.state.root.verdicts if one.kind == "function"] == ["rules[1]"]


def chain(made: Course, path: str) -> str:
    """What the task says of the ancestors."""
    _, _, rest = brief_of(made.blueprint, made.state, path, "node").task.partition("from the whole down\n")
    return unfenced(rest.partition("\n\n")[0])


def test_each_type_describes_only_itself_and_the_texts_are_joined_from_the_root_down_to_the_node() -> None:
    made = Course(topic="Photosynthesis")
    made.do(set_props("/", title="Light and leaves"))
    made.do(*(add("lesson", metadata={"focus": focus}) for focus in ("Light", "Chlorophyll")))
    made.do(add("activity", "/lesson-2"))
    assert chain(made, "/") == ""
    assert chain(made, "/lesson-2") == 'Course "Light and leaves" on Photosynthesis, grade 7.'
    assert chain(made, "/lesson-2/activity-1") == (
        'Course "Light and leaves" on Photosynthesis, grade 7.\nLesson 2 on Chlorophyll.'
    )
    made.do(move("/lesson-2", 1))
    assert chain(made, "/lesson-2/activity-1").endswith("\nLesson 1 on Chlorophyll.")


GARDEN = """
blueprint: garden
root: garden
components:
  garden: {metadata: {topic: {type: text}}, children: {bed: {}}}
  bed: {metadata: {name: {type: text, required: true}, soil: {type: text}}, children: {plant: {}}}
  plant: {properties: {name: {type: text}}}
"""


def test_a_type_that_does_not_describe_itself_is_told_by_its_name_and_its_required_fields() -> None:
    made = Course(Blueprint.parse(GARDEN))
    made.do(add("bed", metadata={"name": "Roots", "soil": "sand"}), add("plant", "/bed-1"))
    assert chain(made, "/bed-1/plant-1") == "garden\nbed: name Roots"


def test_every_visible_command_is_a_tool_with_its_name_its_docstring_and_the_schema_of_its_fields() -> None:
    made = Course()
    tools = {tool.name: tool for tool in chat_tools(made.blueprint)}
    assert set(tools) == {command.model_fields["command"].default for command in VISIBLE} | set(READING)
    for command in VISIBLE:
        tool = tools[command.model_fields["command"].default]
        assert tool.description == (command.__doc__ or "").replace("this node", "a node")
        assert list(tool.parameters["properties"]) == [name for name in command.model_fields if name != "command"]
        needed = [name for name, field in command.model_fields.items() if field.is_required()]
        assert tool.parameters["required"] == needed


def test_hidden_commands_can_be_dispatched_and_are_shown_to_no_agent() -> None:
    made = Course()
    hidden = {command.model_fields["command"].default for command in HIDDEN}
    shown = [*chat_tools(made.blueprint)]
    for component in made.blueprint.components.values():
        shown += [*node_tools(made.blueprint, component), *metadata_tools(component)]
    assert not hidden & {tool.name for tool in shown}
    made.do(set_props("/", title="Light and leaves"))
    made.do({"command": "undo"})
    assert made.state.root.props["title"] is None


@pytest.mark.parametrize("held", [False, True])
def test_the_tools_of_a_node_are_those_of_its_component_whatever_is_held(held: bool) -> None:
    made = Course()
    made.do(add("lesson", metadata={"focus": "Light"}))
    tools = brief_of(made.blueprint, made.state, "/lesson-1", "node").tools
    if held:
        made.do(set_props("/lesson-1", minutes=45), {"command": "accept", "node": "/lesson-1"})
    assert brief_of(made.blueprint, made.state, "/lesson-1", "node").tools == tools
    assert [tool.name for tool in tools] == ["set_value", "add_child", "remove_child", "move_child"]
    (set_value,) = (tool for tool in tools if tool.name == "set_value")
    assert list(set_value.parameters["properties"]["values"]["properties"]) == ["minutes", "builds_on", "source"]

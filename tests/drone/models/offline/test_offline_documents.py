"""The offline model as the agents of document nodes: it keeps the rules, and repairs what a gate refuses."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drone.generation import generate
from drone.generation.library import GenerationReport
from drone.generation.outline import OrderParked
from drone.models.offline import OfflineModel
from drone.models.offline.fill import example_of, fitted
from drone.tools.catalog import Toolbox
from mcc.contracts.generation import Generation
from mcc.documents import Blueprint
from mcc.rules.patterns import Pattern
from tests.drone.generation.holding import Document
from tests.drone.generation.test_controls import Running
from tests.drone.generation.test_outline_first import decided
from tests.mcc.documents.blueprints import changed


async def filled(
    blueprint: Blueprint, metadata: Mapping[str, Any] | None = None, workspace: Path | None = None
) -> tuple[Document, GenerationReport]:
    document = Document(blueprint, metadata)
    tools = None if workspace is None else Toolbox.found().tools(workspace)
    return document, await generate(document, model=OfflineModel(), tools=tools)


def texts(document: Document) -> str:
    return json.dumps([[dict(node.metadata), dict(node.props)] for node in document.state.walk()], ensure_ascii=False)


@pytest.mark.parametrize("topic", ["Photosynthesis", "光合成と葉", "# To do\n- x", "Who pays " + "very " * 20 + "much"])
async def test_a_course_is_filled_whatever_it_is_about(topic: str) -> None:
    document, report = await filled(Blueprint.load("course"), {"topic": topic})
    assert report.ok, report.error
    assert set(document.statuses.values()) == {"done"}
    assert topic.split()[-1][:8] in texts(document)
    assert not broken(document), "no sentence ends in the middle"


def broken(document: Document) -> list[str]:
    """Sentences that end without their end."""
    names = ("summary", "text", "key_idea", "question")
    said = [node.props[name] for node in document.state.walk() for name in names if node.props.get(name)]
    assert said
    return [one for one in said if not one.endswith((".", "?", "…")) or ",." in one]


@pytest.mark.parametrize(("least", "most"), [(0, 12), (0, 1), (5, 5), (300, 320), (900, 1_000), (9_000, 10_000)])
def test_a_text_is_of_whole_sentences_or_says_that_it_is_cut(least: int, most: int) -> None:
    sentences = [f"This is sentence number {number} of them." for number in range(40)]
    text = fitted(sentences, least, most)
    assert least <= len(text) <= most and text.endswith((".", "…"))


async def test_lessons_and_activities_differ_and_are_about_the_topic() -> None:
    document, _ = await filled(Blueprint.load("course"), {"topic": "Volcanoes", "grade": 10})
    nodes = [node for node in document.state.walk() if node.component != "course"]
    said = [next(one for one in map(node.props.get, ("key_idea", "text")) if one) for node in nodes]
    assert len(set(said)) > len(said) // 2
    assert all("Volcanoes" in one for one in said)
    assert len({node.metadata["focus"] for node in nodes if node.component == "lesson"}) > 1


async def test_a_course_counts_its_lessons_and_keeps_to_their_time() -> None:
    topic = "How people use Photosynthesis, in fields and in glass houses of the north and the south"
    document, report = await filled(Blueprint.load("course"), {"topic": topic})
    assert report.ok, report.error
    lessons = [node for node in document.state.walk() if node.component == "lesson"]
    assert document.state.root.props["lessons_planned"] == len(lessons) > 1
    assert not broken(document)
    for lesson in lessons:
        activities = document.state.children_of(lesson)
        assert sum(one.props["minutes"] for one in activities) <= lesson.props["minutes"]


async def test_as_many_lessons_are_made_as_people_planned() -> None:
    document = Document(Blueprint.load("course"), {"topic": "Tides"})
    document.dispatch({"command": "set_value", "node": "/", "values": {"lessons_planned": 5}})
    assert (await generate(document, model=OfflineModel())).ok
    assert document.state.count(document.state.root, "lesson") == 5


async def test_prices_of_a_catalogue_lie_in_their_range_and_leave_a_margin() -> None:
    for topic in ("desk lamps", "tea", "hiking boots"):
        document, report = await filled(Blueprint.load("catalogue"), {"topic": topic})
        assert report.ok, report.error
        products = [node.props for node in document.state.walk() if node.component == "product"]
        assert products and all(one["margin_percent"] >= 20 for one in products)
        assert all(one["lowest"] <= one["price"] <= one["highest"] for one in products)


@pytest.fixture
def pond(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("# Pond\n\nPond counts the ducks of a lake, and says when one is missing.\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pond"\n')
    for name, text in {
        "pond/counting.py": '"""Counts ducks."""\n\n\ndef count(ducks: list[str]) -> int:\n    return len(ducks)\n',
        "pond/lake.py": '"""The lake."""\n\nfrom pond.counting import count\n\n\nclass Lake:\n    ducks: list[str]\n',
        "tests/test_lake.py": "def test_it() -> None:\n    assert True\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


async def test_a_design_is_of_the_files_that_were_really_read(pond: Path) -> None:
    document, report = await filled(Blueprint.load("design"), workspace=pond)
    assert report.ok, report.error
    root = document.state.root
    assert root.metadata["name"] == "Pond" and "counts the ducks" in root.props["purpose"]
    assert root.props["language"] == "Python" and "README.md" in root.props["sources"]
    modules = {node.metadata["path"] for node in document.state.walk() if node.component == "module"}
    assert modules == {"pond/counting.py", "pond/lake.py"}
    found = {
        (node.metadata["name"], node.props["source"], node.props["line"], node.props["quote"], node.props["kind"])
        for node in document.state.walk()
        if node.component == "interface"
    }
    assert found == {
        ("count", "pond/counting.py", 4, "def count(ducks: list[str]) -> int:", "function"),
        ("Lake", "pond/lake.py", 6, "class Lake:", "class"),
    }
    proved = [one for node in document.state.walk() for one in node.verdicts if one.kind == "evidence"]
    assert proved and all(one.ok for one in proved)


async def test_without_a_workspace_a_design_is_not_invented() -> None:
    document, report = await filled(Blueprint.load("design"))
    assert not report.ok
    assert document.statuses["/"] == "failed"


async def test_any_blueprint_is_filled() -> None:
    without = changed(("      - {function: lesson_titles_differ}", "      - {guideline: All titles differ.}"))
    for metadata in ({"topic": "Stomata"}, None):
        _, report = await filled(Blueprint.parse(without), metadata)
        assert report.ok, report.error


KINDS = """
blueprint: all-kinds
root: thing
components:
  thing:
    properties:
      code: {type: text, required: true, pattern: '^[a-f0-9]{8}$'}
      short: {type: text, required: true, max_length: 5}
      tiny: {type: text, required: true, min_length: 1, max_length: 1}
      long: {type: text, required: true, min_length: 900, max_length: 1000}
      day: {type: date, required: true, after: 2026-12-01, before: 2026-12-05}
      days: {type: list, items: {type: date, after: 2030-01-01}, required: true, min_items: 2, unique: true}
      numbers: {type: list, items: {type: number, min: 3, max: 9}, required: true, min_items: 2}
      options: {type: list, items: {type: choice, options: [a, b, c]}, required: true, min_items: 3, unique: true}
      so: {type: boolean, required: true, rules: [{cel: value == true, message: It has to be so.}]}
      share: {type: number, required: true, min: 0, max: 1}
      vast: {type: number, required: true, min: 1.0e+300}
      vaster: {type: number, required: true, min: 1.0e+300}
      last: {type: date, required: true, after: 9999-12-29}
      large: {type: number, integer: true, required: true, min: 1000001, max: 1000003}
      pick: {type: choice, options: [one, two, three], required: true, rules: [{cel: value == "three"}]}
    children: {thing: {max: 3}, part: {min: 3, max: 3}}
  part:
    metadata: {label: {type: text, required: true, max_length: 12}, weight: {type: number, required: true, min: 1}}
    properties:
      after: {type: reference, to: part, required: true}
      others: {type: list, items: {type: reference, to: part}, min_items: 1, required: true}
"""


async def test_every_kind_of_field_is_filled_within_its_bounds() -> None:
    document, report = await filled(Blueprint.parse(KINDS))
    assert report.ok, report.error
    assert len(document.state.nodes) == 4


@pytest.mark.parametrize("rule", ["'false'", "1 / (size(metadata) - size(metadata)) == 1"])
async def test_a_rule_that_nothing_satisfies_ends_the_work_with_a_refusal(rule: str) -> None:
    made = Blueprint.parse(
        f"blueprint: n\nroot: a\ncomponents: {{a: {{properties: {{p: {{type: number, required: true}}}},"
        f" rules: [{{cel: {rule}}}]}}}}"
    )
    document, report = await filled(made)
    assert not report.ok
    failure = document.state.root.failure
    assert failure is not None and failure.reason == "gate_failed" and "rules[0]: " in failure.message
    assert [one["rule"] for one in failure.errors] == ["rules[0]"]
    assert report.usage.model_calls < 40


async def test_values_set_by_people_stay_and_only_the_rest_is_filled() -> None:
    document = Document(Blueprint.load("course"), {"topic": "Tides"})
    document.dispatch({"command": "set_value", "node": "/", "values": {"title": "High and low water"}})
    assert (await generate(document, model=OfflineModel())).ok
    document.dispatch({"command": "set_metadata", "node": "/", "values": {"topic": "Rivers"}})
    report = await generate(document, model=OfflineModel())
    assert report.ok, report.error
    assert document.state.root.props["title"] == "High and low water"
    assert "Rivers" in document.state.root.props["summary"]


@pytest.mark.parametrize(
    "pattern",
    ["^[A-Z]{3}-[0-9]{4}$", r"^\d{2,4}\.x+$", "^#[0-9a-f]{6}$", r"^[\w.]+@[a-z]+\.com?$", "^a|b$"],
)
def test_a_simple_pattern_has_an_example(pattern: str) -> None:
    for chance in (0, 7, 123_456_789):
        assert Pattern(pattern).search(example_of(pattern, chance))


async def test_an_outline_is_made_first_and_kept_to() -> None:
    document = Document(Blueprint.load("course"), {"topic": "Tides"})
    run = Running(document, OfflineModel(), asked=Generation(outline=True))
    with pytest.raises(OrderParked):
        await run.start()
    structure = {path: dict(document.node(path).metadata) for path in document.statuses}
    assert len(structure) > 3 and document.state.root.props["title"] is None
    journal = decided(run.journal, "approve")
    generated = await Running(document, OfflineModel(), asked=Generation(outline=True), journal=journal).start()
    assert generated.succeeded, generated.why
    assert {path: dict(document.node(path).metadata) for path in document.statuses} == structure
    assert document.state.root.props["title"]

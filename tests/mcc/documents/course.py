"""A course document for tests of commands: its blueprint, authors, and commands in short form."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mcc.documents.beginning import new_state
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Step
from mcc.documents.dispatching import dispatch
from mcc.documents.node import Node
from mcc.documents.state import DocumentState
from mcc.documents.undoing import versions_needed

COURSE = """
blueprint: course
version: 2
root: course
components:
  course:
    metadata:
      topic: {type: text, required: true, min_length: 3, max_length: 120}
      grade: {type: number, integer: true, min: 1, max: 13, default: 7}
    properties:
      title: {type: text, required: true, min_length: 5, max_length: 80}
      level: {type: choice, options: [basic, advanced]}
      lesson_minutes: {type: number, integer: true, min: 20, max: 90, default: 45}
      lessons_planned: {type: number, integer: true, min: 1, max: 40, default: 8}
      total_minutes: {type: number, formula: props.lessons_planned * props.lesson_minutes}
    rules:
      - {cel: 'props.level != "advanced" || metadata.grade >= 9', message: Advanced courses begin in grade 9.}
    children: {lesson: {min: 2, max: 8}, part: {}}
    describe: 'Course "{props.title}" on {metadata.topic}, grade {metadata.grade}.'
  part:
    metadata:
      name: {type: text}
      grade: {type: number}
    children: {lesson: {}, part: {}}
  lesson:
    metadata:
      focus: {type: text, required: true, max_length: 120}
    properties:
      grade: {type: number, bind: '{parent.metadata.grade}'}
      headline: {type: text, bind: '{position}: {metadata.focus}'}
      double: {type: number, formula: props.minutes * 2}
      minutes:
        type: number
        integer: true
        required: true
        rules: [{cel: value == null || value % 5 == 0, message: Use steps of five.}]
      builds_on: {type: reference, to: lesson}
      source:
        type: text
        rules: [{evidence: 'value == null || receipts.exists(r, r.ok)', message: Name a file that you read.}]
    children: {activity: {min: 1, max: 5}}
    describe: 'Lesson {position} on {metadata.focus}.'
  activity:
    properties:
      text: {type: text, required: true}
      above: {type: number, bind: '{parent.props.grade}'}
      graded: {type: boolean, default: false}
"""

BLUEPRINT = Blueprint.parse(COURSE)
DOCUMENT = "0199a3c0-0000-7000-8000-000000000001"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ANN = Author("person", NOON, principal="ann")
BEN = Author("person", NOON, principal="ben")
AGENT = Author("agent", NOON, order_id="order", record_id="record", asked="sha256:asked")
"""Its prompt digest fits no present prompt: values that it sets are stale until the node is stamped."""

STAMPED = replace(AGENT, asked=None)
"""An agent without a prompt digest in its provenance; only stamps say what its prompt was."""
METADATA_AGENT = Author("metadata_agent", NOON, order_id="order", record_id="record")
CHAT = Author("chat", NOON, principal="ann", order_id="order", record_id="record")


class Course:
    """A document as a store keeps it: the newest state, all steps, and earlier states for removed nodes."""

    def __init__(self, blueprint: Blueprint = BLUEPRINT, **metadata: Any) -> None:
        self.blueprint = blueprint
        first = new_state(blueprint, id=DOCUMENT, metadata=metadata or {"topic": "Photosynthesis"}, author=ANN)
        self.state: DocumentState = first.state
        self.steps: list[Step] = list(first.steps)
        self.states: dict[int, DocumentState] = {1: first.state}

    def do(self, *commands: Mapping[str, Any] | Any, author: Author = ANN, **more: Any) -> Change:
        own = [step for step in self.steps if step.by == author.by and step.principal == author.principal]
        removed = {version: list(self.states[version - 1].nodes.values()) for version in versions_needed(own, 99)}
        change = dispatch(self.blueprint, self.state, list(commands), author, own=own, removed=removed, **more)
        self.state = change.state
        self.states[change.version] = change.state
        self.steps.extend(change.steps)
        return change

    def node(self, path: str) -> Node:
        return self.state.find(path)

    def failing(self, path: str) -> list[str]:
        return [one.rule for one in self.node(path).verdicts if one.ok is False]


def add(component: str, node: str = "/", **more: Any) -> dict[str, Any]:
    return {"command": "add_child", "node": node, "component": component, **more}


def set_props(node: str, **values: Any) -> dict[str, Any]:
    return {"command": "set_value", "node": node, "values": values}


def set_metadata(node: str, **values: Any) -> dict[str, Any]:
    return {"command": "set_metadata", "node": node, "values": values}


def remove(node: str) -> dict[str, Any]:
    return {"command": "remove_child", "node": node}


def move(node: str, position: int, parent: str | None = None) -> dict[str, Any]:
    return {"command": "move_child", "node": node, "position": position, "parent": parent}


UNDO, REDO = {"command": "undo"}, {"command": "redo"}

"""A small course to generate, and scripted models that play the agents of its nodes."""

from collections.abc import Callable, Mapping
from typing import Any

from drone.agent.ports.model import Ask, WantedCall
from drone.models.scripted import Line, Said, ScriptedModel, call
from mcc.documents.blueprint import Blueprint
from mcc.transcript.messages import AssistantMessage, UserMessage

COURSE = """
blueprint: course
version: 1
root: course
components:
  course:
    metadata:
      topic: {type: text, required: true, min_length: 3}
      grade: {type: number, integer: true, default: 7}
    properties:
      title: {type: text, required: true, min_length: 5, max_length: 80}
    children: {lesson: {min: 2, max: 8}}
    describe: 'Course on {metadata.topic}, grade {metadata.grade}.'
    agent: {system: You plan courses., temperature: 0.4}
  lesson:
    metadata:
      focus: {type: text, required: true, max_length: 120}
    properties:
      headline: {type: text, bind: '{parent.metadata.topic}: {metadata.focus}'}
      minutes:
        type: number
        integer: true
        required: true
        rules: [{cel: value == null || value % 5 == 0, message: Use steps of five.}]
    children: {activity: {min: 1, max: 5}}
    describe: 'Lesson {position} on {metadata.focus}.'
    agent: {max_turns: 6}
  activity:
    properties:
      text: {type: text, required: true, min_length: 10}
"""


def course(text: str = COURSE) -> Blueprint:
    return Blueprint.parse(text)


class Node:
    """A model's request in the role of a node agent: the node's `path`, the task, and the number of earlier replies."""

    def __init__(self, ask: Ask) -> None:
        told = next(message.text for message in ask.messages if isinstance(message, UserMessage))
        self.ask = ask
        self.task = told
        self.path = told.rpartition("This is the node ")[2].partition(".\n")[0].partition("\n")[0].rstrip(".")
        self.replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        self.tools = {spec.name: spec for spec in ask.tools}

    @property
    def component(self) -> str:
        return (self.path.rpartition("/")[2].rpartition("-")[0] or "course") if self.path != "/" else "course"

    @property
    def has_children(self) -> bool:
        return "# Current children" in self.task

    @property
    def is_metadata(self) -> bool:
        return "set_metadata" in self.tools


Play = Callable[[Node], Said]


def done(*calls: WantedCall, summary: str = "It is done.") -> Line:
    return Line(calls=(*calls, call("done", summary=summary)))


def diligent(node: Node, lessons: int = 2) -> Said:
    """Set valid values, add children and finish in one reply."""
    if node.is_metadata:
        values: Mapping[str, Any] = {"topic": "Light"} if node.path == "/" else {"focus": f"Focus of {node.path}"}
        return done(call("set_metadata", values=values))
    if node.component == "course":
        lessons = 0 if node.has_children else lessons
        made = [call("add_child", component="lesson", metadata={"focus": f"Part {n + 1}"}) for n in range(lessons)]
        return done(call("set_value", values={"title": "All about light"}), *made, summary="A course.")
    if node.component == "lesson":
        made = [] if node.has_children else [call("add_child", component="activity")]
        return done(call("set_value", values={"minutes": 45}), *made)
    return done(call("set_value", values={"text": f"Look at {node.path} closely."}))


def played(play: Play = diligent, **kept: Any) -> ScriptedModel:
    return ScriptedModel(lambda ask: play(Node(ask)), **kept)

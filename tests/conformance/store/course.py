"""A small blueprint, its documents, authors and generate orders, for tests of the store."""

from datetime import datetime
from typing import Any

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author
from mcc.documents.commands import Command, commands_of
from mcc.store.rows.values import Placed
from tests.conformance.store.scene import Scene

BLUEPRINT = Blueprint.parse(
    """
blueprint: course
version: 2
root: course
components:
  course:
    metadata:
      topic: {type: text, required: true}
      grade: {type: number, integer: true, default: 7}
    properties:
      title: {type: text, required: true, min_length: 5}
    children: {lesson: {min: 1, max: 20000}}
    describe: 'Course on {metadata.topic}, grade {metadata.grade}.'
  lesson:
    metadata:
      focus: {type: text}
    properties:
      grade: {type: number, bind: '{parent.metadata.grade}'}
      minutes: {type: number, integer: true, required: true, min: 5}
      builds_on: {type: reference, to: lesson}
"""
)
OTHER = Blueprint.parse(BLUEPRINT.text.replace('"version":2', '"version":3'))


SOMEONE = Actor("someone")


def commands(*given: dict[str, Any]) -> tuple[Command, ...]:
    return commands_of(given)


def person(at: datetime, principal: str = "someone") -> Author:
    return Author(by="person", at=at, principal=principal)


def begun(scene: Scene, lessons: int = 0, **metadata: Any) -> str:
    """A new document with this number of lessons; answers its id."""
    made = scene.store.documents.create(BLUEPRINT, by=Actor("someone"), metadata={"topic": "Light", **metadata})
    if lessons:
        add = [{"command": "add_child", "node": "/", "component": "lesson", "values": {"minutes": 45}}] * lessons
        scene.store.documents.dispatch(made.document.id, commands(*add), person(scene.clock.now()))
    return made.document.id


def changed(scene: Scene, document_id: str, *given: dict[str, Any], principal: str = "someone", **asked: Any) -> Any:
    author = person(scene.clock.now(), principal)
    return scene.store.documents.dispatch(document_id, commands(*given), author, **asked)


def ordered(scene: Scene, document_id: str | None = None, **fields: Any) -> WorkOrder:
    """A generate order for this document, or for a new one."""
    return placed(scene, document_id, **fields).order


def placed(
    scene: Scene, document_id: str | None = None, *, key: str | None = None, by: Actor = SOMEONE, **fields: Any
) -> Placed:
    named = {"blueprint": "course"} if document_id is None else {"document_id": document_id}
    new = NewOrder.model_validate({"kind": "generate", **named, **fields})
    blueprint = BLUEPRINT if document_id is None else None
    return scene.store.orders.place(new, by=by, idempotency_key=key, blueprint=blueprint)


def minutes(value: int, lesson: str = "/lesson-1") -> dict[str, Any]:
    return {"command": "set_value", "node": lesson, "values": {"minutes": value}}

"""What the models of the interrupted orders say: with `HELD` until the drone is killed, and without it afterwards."""

from typing import Any

HELD = 600.0
"""Seconds in which the drone of the old version waits for the reply that it never gets."""

HARBOUR = {"north/cranes.txt": "crane 1: green\ncrane 2: red\n", "south/note.txt": "nothing here\n"}
"""The files of the workspace."""

SURVEY, NORTH, SOUTH, WEST = "Survey the harbour", "Look at the north quay", "Look at the south quay", "Look west"
COUNT, PATROL, WAIT, GREET, AGAIN, LATER = (
    "Count the cranes",
    "Patrol the harbour",
    "Wait for the tide",
    "Greet the harbour master",
    "Greet the harbour master again",
    "Do it later",
)
RULE = {"cel": "result.cranes == 2", "message": "There are two cranes."}
SCHEMA = {"type": "object", "properties": {"cranes": {"type": "integer"}}, "required": ["cranes"]}


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def report(summary: str) -> dict[str, Any]:
    return call("submit_result", status="completed", summary=summary)


def script(held: float) -> dict[str, Any]:
    """A script for the scripted model in which the replies that the kill comes before take `held` seconds."""
    agents = [
        {"id": "north", "role": "explore", "task": NORTH},
        {"id": "south", "role": "scout", "task": SOUTH},
        {"id": "west", "role": "general", "task": WEST},
    ]
    rules = {
        NORTH: [
            {"text": "I list first.", "tool_calls": [call("list_files"), call("read_file", path="north/cranes.txt")]},
            {"tool_calls": [report("Two cranes stand on the north quay.")]},
            {"text": "Done."},
        ],
        SOUTH: [
            {"tool_calls": [call("read_file", path="south/note.txt")]},
            {"delay_seconds": held, "tool_calls": [report("The south quay is empty.")]},
            {"text": "Done."},
        ],
        WEST: [
            {"delay_seconds": held, "tool_calls": [call("search_text", pattern="crane")]},
            {"tool_calls": [report("Nothing lies in the west.")]},
            {"text": "Done."},
        ],
        SURVEY: [
            {"text": "Three go out.", "tool_calls": [call("subagents_run", agents=agents, mode="parallel")]},
            {"text": "North has two cranes, south and west have none."},
        ],
        COUNT: [
            {"tool_calls": [call("submit_result", cranes=1)]},
            {"delay_seconds": held, "tool_calls": [call("submit_result", cranes=2)]},
            {"text": "Two."},
        ],
        PATROL: [
            {"delay_seconds": min(held, 4.0), "tool_calls": [call("list_files")]},
            {"delay_seconds": held, "text": "The patrol is back, by the east quay."},
        ],
        WAIT: [
            {"delay_seconds": min(held, 3.0), "tool_calls": [call("list_files")]},
            {"text": "The tide is in."},
        ],
        AGAIN: [{"text": "Good day again."}],
        GREET: [{"text": "Good day."}],
        LATER: [{"text": "It is later."}],
    }
    return {"rules": [{"match": prompt, "replies": replies} for prompt, replies in rules.items()]}

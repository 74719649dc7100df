"""What the scripted model says in journeys, and for the workspace that it says it about."""

from pathlib import Path
from typing import Any

HARBOUR, LONG, REFUSED = "harbour", "long", "refused"

STRANGE = "before\x00\ud800after \U0001f6a2"
SURVEY, NORTH, SOUTH = "Survey the harbour", "Look at the north quay", "Look at the south quay"
SAY_STRANGE, SAY_SHORT, WAIT, SLOW = "Say something strange", "Say it shortly", "Wait for the tide", "Talk slowly"

NAME, MEND, DOCK = "Name the boat", "Mend the pier", "Lay the planks of the dock"

ROPES, PILOT, SEND_PILOT = "Count the ropes", "Ask for the pilot", "Send for the pilot"
TIDE = "Ask how the tide is"
PATROL, EAST, WEST, BELL = "Patrol the harbour", "Walk the east quay", "Walk the west quay", "Ring the bell"


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


SCRIPT: dict[str, Any] = {
    "rules": [
        {
            "match": "(?s)Judge the result.*It is a boat",
            "replies": [{"tool_calls": [call("submit_result", passed=False, points=["Say its name."])]}],
        },
        {
            "match": "(?s)Judge the result.*It is the Albatross",
            "replies": [{"tool_calls": [call("submit_result", passed=True, points=[])]}],
        },
        {"match": ROPES, "replies": [{"tool_calls": [call("list_files")]}, {"text": "There are ropes."}]},
        {
            "match": SEND_PILOT,
            "replies": [
                {"tool_calls": [call("subagent", agent_type="explore", prompt=ROPES)]},
                {"text": "The pilot counted."},
            ],
        },
        {
            "match": PILOT,
            "replies": [
                {"tool_calls": [call("ask_user", question="Who is the pilot?", choices=["Ann", "Bo"])]},
                {"text": "Now I know."},
            ],
        },
        {
            "match": TIDE,
            "replies": [
                {
                    "tool_calls": [
                        call("ask_user", question="How is it?", choices=["High", "Low"], default="Low", wait_seconds=2)
                    ]
                },
                {"text": "Now I know."},
            ],
        },
        {"match": NAME, "replies": [{"text": "It is a boat."}, {"text": "It is the Albatross."}]},
        {
            "match": NORTH,
            "replies": [
                {
                    "text": "I list first.",
                    "thinking": "Where to begin?",
                    "tool_calls": [call("list_files"), call("read_file", path="north/cranes.txt")],
                },
                {"tool_calls": [call("search_text", pattern="crane [0-9]+", path="north")]},
                {"text": "Two cranes stand on the north quay."},
            ],
        },
        {
            "match": SOUTH,
            "replies": [
                {"tool_calls": [call("read_file", path="../secrets.txt"), call("reed_file", path="x")]},
                {"text": "The south quay is empty."},
            ],
        },
        {
            "match": SURVEY,
            "replies": [
                {
                    "text": "Two scouts go out.",
                    "tool_calls": [
                        call("subagent", agent_type="explore", prompt=NORTH, title="North"),
                        call("environment_detect"),
                        call("subagent", agent_type="general", prompt=SOUTH),
                    ],
                },
                {"tool_calls": [call("find_files", pattern="**/*.txt")]},
                {"text": "North has two cranes, south has none."},
            ],
        },
        {"match": BELL, "replies": [{"text": "The bell rang."}]},
        *(
            {
                "match": quay,
                "replies": [
                    {"delay_seconds": 0.2, "tool_calls": [call("find_files", pattern=f"*{number}*")]}
                    for number in range(20)
                ]
                + [{"text": f"All is quiet: {quay}."}],
            }
            for quay in (EAST, WEST)
        ),
        {
            "match": PATROL,
            "replies": [
                {
                    "tool_calls": [
                        call("subagent", agent_type="explore", prompt=EAST),
                        call("subagent", agent_type="explore", prompt=WEST),
                    ]
                },
                {"text": "The patrol is back."},
            ],
        },
        {"match": SAY_STRANGE, "replies": [{"text": STRANGE, "thinking": STRANGE}]},
        {
            "match": MEND,
            "replies": [
                {"tool_calls": [call("read_file", path="plank.txt")]},
                {
                    "tool_calls": [
                        call("edit_file", path="plank.txt", old="rotten", new="sound"),
                        call("write_file", path="new/bollard.txt", content="iron\n"),
                        call("delete_file", path="rope.txt"),
                        call("write_file", path=".env", content="KEY=1\n"),
                    ]
                },
                {"text": "The pier is mended."},
            ],
        },
        {
            "match": DOCK,
            "replies": [
                {
                    "tool_calls": [
                        call("read_file", path="dock.txt"),
                        call("write_file", path="plank.txt", content="oak\n"),
                        call("run_shell", command="echo made > made.txt"),
                    ]
                },
                {"tool_calls": [call("git_add", paths=["."])]},
                {"tool_calls": [call("git_commit", message="Mend the dock")]},
                {"text": "The dock is mended."},
            ],
        },
        {"match": SAY_SHORT, "replies": [{"text": "Short."}]},
        {"match": WAIT, "replies": [{"text": "The tide is in.", "delay_seconds": 60}]},
        {
            "match": SLOW,
            "replies": [
                {
                    "text": f"Part {number}.",
                    "delay_seconds": 0.15,
                    "tool_calls": [call("find_files", pattern=f"*{number}*")],
                }
                for number in range(8)
            ]
            + [{"text": "That was all."}],
        },
    ]
}


def write_harbour(root: Path) -> Path:
    (root / "north").mkdir(parents=True)
    (root / "south").mkdir()
    (root / "north" / "cranes.txt").write_text("crane 1: green\ncrane 2: red\n")
    (root / "south" / "note.txt").write_text("nothing here\n")
    (root.parent / "secrets.txt").write_text("not for agents\n")
    return root

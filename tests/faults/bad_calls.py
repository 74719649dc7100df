"""A model that calls tools wrongly: what it asks for, and how often, stands in the order's prompt.

    prompt = bad_prompt("same")       # a name in BAD; the order must end within its limits

The model says the same bad reply again and again; unless it is one of `ENDLESS`, it gives up after `TIMES`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.faults.poison import POISON, ROUNDS
from tests.faults.script import IDEM, SUBAGENT, Step, Wanted

TIMES = 2
ENDLESS = ("same", "ping_pong")
ONE_BY_ONE = ("ping_pong", "neighbour")
GIVES_UP = "I give up calling."
DEEP = 1_000

_MARK = re.compile(r"\[\[bad (\w+)\]\]")


def _noted(mark: str) -> Wanted:
    return Wanted(IDEM, {"path": "master", "mark": mark})


BAD: Mapping[str, Sequence[Wanted]] = {
    "unknown": (Wanted("no_such_tool", {}),),
    "proto": (Wanted("__proto__", {"constructor": 1}),),
    "newline": (Wanted("read\nfile", {}),),
    "not_json": (Wanted(IDEM, "{mark: yes"),),  # type: ignore[arg-type]
    "array": (Wanted(IDEM, '["master", "x"]'),),  # type: ignore[arg-type]
    "truncated": (Wanted(IDEM, '{"path": "master", "mar'),),  # type: ignore[arg-type]
    "missing": (Wanted(IDEM, {}),),
    "deep": (Wanted(IDEM, '{"path": "m", "mark": ' + "[" * DEEP + "]" * DEEP + "}"),),  # type: ignore[arg-type]
    "hundred": tuple(_noted(f"call {number}") for number in range(100)),
    "foreign_agent": (Wanted(SUBAGENT, {"agent_type": "nobody", "prompt": "x", "title": "x"}),),
    "empty": (),
    "same": (_noted("again"),),
    "ping_pong": (_noted("ping"), _noted("pong")),
}
"""Calls by name; arguments that are text are sent as they stand."""


def bad_prompt(name: str) -> str:
    return f"Call as you like. [[bad {name}]]"


def bad_step(request: Mapping[str, Any]) -> Step | None:
    """What the model says to this request; None when its order is no bad one."""
    messages: Sequence[Mapping[str, Any]] = request.get("messages") or ()
    found = next((mark for one in messages if (mark := _MARK.search(json.dumps(one.get("content"))))), None)
    if found is None:
        return None
    name, said = found[1], sum(one.get("role") == "assistant" for one in messages)
    if said >= (ROUNDS if name == "neighbour" else TIMES) and name not in ENDLESS:
        return Step(GIVES_UP)
    calls = tuple({**BAD, **POISON}[name])
    return Step("", calls[said % len(calls) :][:1] if name in ONE_BY_ONE else calls)

"""The delegation tools as models see them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from drone.agent.background import SUBAGENT_STEER
from drone.agent.state.record import SUBAGENT_WAIT
from drone.agent.subagents.assignments import (
    GROUP,
    LONGEST_WAIT,
    MODES,
    ON_ENDS,
    POLICIES,
    PREVIOUS,
    SUBAGENT,
    SUBAGENT_CANCEL,
    SUBAGENT_SEND,
    SUBAGENT_STATUS,
    SUBAGENTS_RUN,
)
from mcc.transcript.messages import ToolSpec


def offers(offered: Mapping[str, str], most: int, models: Sequence[str] = ()) -> tuple[ToolSpec, ...]:
    """The specs of the delegation tools for these agent types (with descriptions), at most `most` agents per call.

    `models`: model names to choose from. The schema of `subagents_run` shows only a part of what it accepts: policy,
    quorum, tool groups, concurrency and custom ids are meant for programs.
    """
    return _offers(tuple(offered.items()), most, tuple(models))


@lru_cache(maxsize=64)
def _offers(offered: tuple[tuple[str, str], ...], most: int, models: tuple[str, ...]) -> tuple[ToolSpec, ...]:
    """Cached, so that equal agent types share spec objects, which cache their encoded form."""
    known, names = "\n".join(f"- {name}: {description}" for name, description in offered), [name for name, _ in offered]
    return (_subagent(names, known), _subagents_run(names, most, models), _subagent_send(), *of_background())


def _subagent(names: list[str], known: str) -> ToolSpec:
    description = (
        "Delegate one self-contained piece of work to a subagent, which sees only your prompt, and get its final "
        "answer back. Several calls in one reply run side by side.\n" + known
    )
    properties = {
        "agent_type": {"type": "string", "enum": names},
        "prompt": _string("The whole task, with all context that it needs."),
        "title": _string("A few words for people who watch."),
        "background": {"type": "boolean", "description": "Go on meanwhile; its report comes to you."},
    }
    return _spec(SUBAGENT, description, properties, ["agent_type", "prompt"], {"on_end": _ON_END})


def _subagents_run(names: list[str], most: int, models: Sequence[str]) -> ToolSpec:
    description = (
        f"Delegate up to {most} pieces of work at once and get all reports, in your order. Each subagent sees only its "
        f"own task. In mode chain they work one after the other; {PREVIOUS} in a task stands for the report before. "
        "The roles are the agent types of the tool subagent."
    )
    agent: dict[str, object] = {
        "role": {"type": "string", "enum": names},
        "task": _string("The whole task, with all context that it needs."),
        "title": _string("A few words for people who watch."),
        "success_criteria": _list(_string(), "What must be true when it is done."),
    }
    if models:
        agent["model"] = {"type": "string", "enum": list(models), "description": "Left out: that of its role."}
    agents = {**_list(_object(agent, ["role", "task"]), "The pieces of work."), "minItems": 1, "maxItems": most}
    mode = {"type": "string", "enum": list(MODES)}
    taken = {"id": _string(), "model": _string(), **agent, "allowed_tool_groups": _TEXTS}
    items = _object(taken, ["role", "task"])
    also = {"agents": {**agents, "items": items}, **_NOT_SHOWN}
    return _spec(SUBAGENTS_RUN, description, {"agents": agents, "mode": mode}, ["agents"], also)


def _subagent_send() -> ToolSpec:
    description = (
        "Go on with a subagent of yours that has finished, in this turn or an earlier one: it still knows all it was "
        "told and found. The result names its new record_id; every earlier one still works."
    )
    properties = {
        "record_id": _string("As its result names it."),
        "message": _string("What it is to do next, or what was missing."),
    }
    return _spec(SUBAGENT_SEND, description, properties, ["record_id", "message"])


def of_background() -> tuple[ToolSpec, ...]:
    """The specs of the tools for subagents in the background, which models search for."""
    record_id = _string("As the call that started it says.")
    status = "Your subagents in the background: what each is at, how long, what it has used, what it said last."
    wait = (
        "Wait for subagents in the background and get the reports of those that have ended; what has not ended in time "
        "runs on. You need not wait: a report that you did not fetch comes to you by itself, and your answer waits for "
        "all that are still at work."
    )
    cancel = (
        "Stop a subagent in the background, and get its report so far. Started with on_end cancel, it is stopped by "
        "your answer."
    )
    steer = "Tell a subagent in the background something; it reads that before its next step."
    waiting = {
        "record_ids": {"type": "array", "items": {"type": "string"}, "description": "Left out: all of them."},
        "seconds": {"type": "number", "maximum": LONGEST_WAIT},
        "first": {"type": "boolean", "description": "Only until one of them has ended."},
    }
    message = {"record_id": record_id, "message": _string("What it has to know.")}
    return (
        replace(_spec(SUBAGENT_STATUS, status, {}, []), deferred=True),
        replace(_spec(SUBAGENT_WAIT, wait, waiting, []), deferred=True),
        replace(_spec(SUBAGENT_CANCEL, cancel, {"record_id": record_id}, ["record_id"]), deferred=True),
        replace(_spec(SUBAGENT_STEER, steer, message, ["record_id", "message"]), deferred=True),
    )


_ON_END: Mapping[str, object] = {"type": "string", "enum": list(ON_ENDS)}
_TEXTS: Mapping[str, object] = {"type": "array", "items": {"type": "string"}}
_NOT_SHOWN: Mapping[str, object] = {
    "max_concurrency": {"type": "integer"},
    "policy": {"type": "string", "enum": list(POLICIES)},
    "quorum": {"type": "integer"},
    "item_seconds": {"type": "number"},
    "total_seconds": {"type": "number"},
    "background": {"type": "boolean"},
    "on_end": _ON_END,
}
"""Arguments of `subagents_run` that are meant for programs."""


def _spec(
    name: str,
    description: str,
    properties: Mapping[str, object],
    required: list[str],
    also: Mapping[str, object] | None = None,
) -> ToolSpec:
    """`also`: properties that are taken and not shown, or with more in them than is shown."""
    accepted = None if also is None else _object({**properties, **also}, required)
    return ToolSpec(name, description, _object(properties, required), group=GROUP, resumable=True, accepted=accepted)


def _object(properties: Mapping[str, object], required: list[str]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _string(description: str = "") -> dict[str, object]:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _list(items: object, description: str) -> dict[str, object]:
    return {"type": "array", "items": items, "description": description}

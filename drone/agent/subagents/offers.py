"""What a model is shown of delegation: the tools, with the agents and groups that it may name."""

from collections.abc import Mapping

from drone.agent.messages import ToolSpec
from drone.agent.subagents.assignments import AT_ONCE, ID_CHARACTERS, MODES, POLICIES, PREVIOUS
from mcc.definitions.rights import TOOL_GROUPS

SUBAGENT = "subagent"
SUBAGENTS_RUN = "subagents_run"
SUBAGENT_SEND = "subagent_send"
GROUP = "delegation"


def offers(offered: Mapping[str, str], most: int) -> tuple[ToolSpec, ...]:
    """The delegation tools for these agent types (with their descriptions), at most so many in one call."""
    known = "\n".join(f"- {name}: {description}" for name, description in offered.items())
    return (_subagent(list(offered), known), _subagents_run(list(offered), known, most), _subagent_send())


def _subagent(names: list[str], known: str) -> ToolSpec:
    description = (
        "Delegate one self-contained piece of work to a subagent and get its final answer back. The subagent sees "
        "only your prompt. Several calls in one reply run side by side.\n" + known
    )
    properties = {
        "agent_type": {"type": "string", "enum": names, "description": "Which subagent to ask."},
        "prompt": _text("The whole task, with all context that it needs."),
        "title": _text("A few words for people who watch."),
    }
    return _spec(SUBAGENT, description, properties, ["agent_type", "prompt"])


def _subagents_run(names: list[str], known: str, most: int) -> ToolSpec:
    description = (
        f"Delegate up to {most} pieces of work at once and get all their reports back, in the order in which you "
        "named them. Each subagent sees only its own task. In mode chain they work one after the other, and "
        f"{PREVIOUS} in a task stands for the report before; mode parallel is for pieces that do not need each "
        "other. What fails is named in its place; the other reports are there all the same.\n" + known
    )
    agent = {
        "id": {**_text("A name of your own for this piece."), "maxLength": ID_CHARACTERS},
        "role": {"type": "string", "enum": names, "description": "Which subagent to ask."},
        "title": _text("A few words for people who watch."),
        "task": _text("The whole task, with all context that it needs."),
        "success_criteria": _list(_text(), "What must be true when it is done."),
        "allowed_tool_groups": _list(
            {"type": "string", "enum": list(TOOL_GROUPS)}, "The tools it may use; left out: those of its role."
        ),
        "model": _text("The model to use; left out: that of its role."),
    }
    properties = {
        "agents": {
            **_list(_object(agent, ["id", "role", "task"]), "The pieces of work."),
            "minItems": 1,
            "maxItems": most,
        },
        "mode": {"type": "string", "enum": list(MODES), "description": "Side by side, or one after the other."},
        "max_concurrency": _count(f"How many work at the same time ({AT_ONCE})."),
        "policy": {
            "type": "string",
            "enum": list(POLICIES),
            "description": (
                "collect: all of them run, and one that does not complete makes the call an error. fail_fast: the "
                "first that does not complete ends the others. quorum: the others end once as many as quorum have "
                "completed. best_effort: all of them run, and the call is never an error."
            ),
        },
        "quorum": _count("How many must complete, for policy quorum."),
    }
    return _spec(SUBAGENTS_RUN, description, properties, ["agents", "mode"])


def _subagent_send() -> ToolSpec:
    description = (
        "Go on with a subagent of yours that has finished: it still knows everything that it was told and found, and "
        "takes your message as its next task. The result names its new record_id; every earlier one still works."
    )
    properties = {
        "record_id": _text("The record_id that the subagent's result names."),
        "message": _text("What it is to do next, or what was missing in its answer."),
    }
    return _spec(SUBAGENT_SEND, description, properties, ["record_id", "message"])


def _spec(name: str, description: str, properties: Mapping[str, object], required: list[str]) -> ToolSpec:
    return ToolSpec(name, description, _object(properties, required), group=GROUP, resumable=True)


def _object(properties: Mapping[str, object], required: list[str]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(description: str = "") -> dict[str, object]:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _list(items: object, description: str) -> dict[str, object]:
    return {"type": "array", "items": items, "description": description}


def _count(description: str) -> dict[str, object]:
    return {"type": "integer", "minimum": 1, "description": description}

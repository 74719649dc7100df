"""The delegation tools as models see them, and the parsing of their arguments; each mistake gets a clear message."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

from drone.agent.ports.messages import ToolSpec
from drone.agent.turns.turn import title_of

SUBAGENT = "subagent"
SUBAGENTS_RUN = "subagents_run"
SUBAGENT_SEND = "subagent_send"
GROUP = "delegation"

Mode = Literal["parallel", "chain"]
Policy = Literal["collect", "fail_fast", "quorum", "best_effort"]

MODES: tuple[Mode, ...] = ("parallel", "chain")
POLICIES: tuple[Policy, ...] = ("collect", "fail_fast", "quorum", "best_effort")
PREVIOUS = "{previous}"
"""Placeholder in a chain's task for the previous report."""

MOST_PREVIOUS = 3
"""Most placeholders in one task, since a report may be long."""

AT_ONCE = 3
"""Agents of one call that run concurrently by default."""

ID_CHARACTERS = 64

_AGENT = ("id", "role", "title", "task", "success_criteria", "allowed_tool_groups", "model")
_CALL = ("agents", "mode", "max_concurrency", "policy", "quorum", "item_seconds", "total_seconds")

LONGEST_SECONDS = 30 * 86_400.0

T = TypeVar("T")


class BadAssignment(Exception):
    """The arguments are wrong; the message says what to do."""


class UnknownAgentType(BadAssignment):
    """No agent type is named, or one that is not offered; the message lists those offered."""

    def __init__(self, named: object, offered: Collection[str]) -> None:
        said = "is missing" if named is None else f"names no agent here: {str(named)[:100]!r}"
        super().__init__(f"agent_type {said}. There are {', '.join(offered)}.")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task for one subagent; `id` names it in the answer. `groups`: tool groups, None = the role's."""

    id: str
    role: str
    task: str
    title: str = ""
    success_criteria: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    model: str | None = None

    @property
    def display_name(self) -> str:
        return self.title or title_of(self.task)

    def prompt(self, previous: str | None = None) -> str:
        """The subagent's prompt. `previous`: the report before it in a chain; None outside of one, or for the first."""
        task = self.task if previous is None else self.task.replace(PREVIOUS, previous)
        if not self.success_criteria:
            return task
        return task + "\n\nYou are done when:" + "".join(f"\n- {criterion}" for criterion in self.success_criteria)


@dataclass(frozen=True, slots=True)
class Assignments:
    """The parsed arguments of `subagents_run`. `quorum` is set exactly for the policy of that name.

    `max_concurrency` None: not given. `item_seconds`: wall clock of each agent. `total_seconds`: that of all together,
    from the start of the first; results that exist by then are kept. None = only the turn's limits apply.
    """

    agents: tuple[Assignment, ...]
    mode: Mode = "parallel"
    max_concurrency: int | None = None
    policy: Policy = "collect"
    quorum: int | None = None
    item_seconds: float | None = None
    total_seconds: float | None = None


def assignment_of(arguments: Mapping[str, object], offered: Collection[str]) -> Assignment:
    """Parse the arguments of `subagent`. Raises `UnknownAgentType`, `BadAssignment`."""
    _refuse_unknown(arguments, ("agent_type", "prompt", "title"), "subagent")
    kind = arguments.get("agent_type")
    if not isinstance(kind, str) or kind not in offered:
        raise UnknownAgentType(kind, offered)
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadAssignment("prompt must be a text that tells the subagent all it needs: it sees nothing else.")
    return Assignment("", kind, prompt, _optional(arguments, "title", _text, "a short text") or "")


def assignments_of(arguments: Mapping[str, object], most: int) -> Assignments:
    """Parse the arguments of `subagents_run`, for at most `most` agents. Raises `BadAssignment`."""
    _refuse_unknown(arguments, _CALL, "subagents_run")
    agents = _agents(arguments.get("agents"), most)
    mode = _one_of(arguments, "mode", MODES)
    if mode == "chain" and PREVIOUS in agents[0].task:
        raise BadAssignment(f"The first agent of a chain has nothing before it: leave {PREVIOUS} out of its task.")
    if mode == "chain" and any(agent.task.count(PREVIOUS) > MOST_PREVIOUS for agent in agents):
        raise BadAssignment(f"A task may hold {PREVIOUS} {MOST_PREVIOUS} times at most: once is enough to read it.")
    policy = _one_of(arguments, "policy", POLICIES)
    return Assignments(
        agents,
        mode,
        _optional(arguments, "max_concurrency", _positive, "a whole number from 1 on"),
        policy,
        _quorum(arguments, policy, len(agents)),
        _optional(arguments, "item_seconds", _seconds, "a number of seconds above 0"),
        _optional(arguments, "total_seconds", _seconds, "a number of seconds above 0"),
    )


def message_of(arguments: Mapping[str, object]) -> tuple[str, str]:
    """Parse the arguments of `subagent_send`: record id and message. Raises `BadAssignment`."""
    _refuse_unknown(arguments, ("record_id", "message"), "subagent_send")
    record_id, message = arguments.get("record_id"), arguments.get("message")
    if not isinstance(record_id, str) or not record_id:
        raise BadAssignment("record_id must be one that the result of a subagent of yours names.")
    if not isinstance(message, str) or not message.strip():
        raise BadAssignment("message must be a text: what the subagent is to do next.")
    return record_id, message


def _agents(given: object, most: int) -> tuple[Assignment, ...]:
    if not isinstance(given, list | tuple) or not given:
        raise BadAssignment(f"agents must be a list of 1 to {most} objects, each with role and task.")
    if len(given) > most:
        raise BadAssignment(
            f"One call starts at most {most} agents, and this one asks for {len(given)}; none was started. "
            f"Ask for {most} now and for the others in a further call."
        )
    agents = tuple(_agent(item, position) for position, item in enumerate(given, 1))
    names = [agent.id for agent in agents]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadAssignment(f"Each agent needs an id of its own; {', '.join(twice)} is used twice.")
    return agents


def _agent(given: object, position: int) -> Assignment:
    where = f"Agent {position}: "
    try:
        if not isinstance(given, Mapping):
            raise BadAssignment("each agent is an object with role and task.")
        _refuse_unknown(given, _AGENT, "an agent")
        return Assignment(
            _id(given, position),
            _required(given, "role", "the name of a subagent"),
            _required(given, "task", "a text that tells the subagent all it needs"),
            _optional(given, "title", _text, "a short text") or "",
            _optional(given, "success_criteria", _texts, "a list of texts") or (),
            _optional(given, "allowed_tool_groups", _texts, "a list of tool groups") or None,
            _optional(given, "model", _text, "the name of a model") or None,
        )
    except BadAssignment as error:
        raise BadAssignment(f"{where}{error}") from None


def _id(given: Mapping[str, object], position: int) -> str:
    """The id of a task in the answer; by its position when none is given."""
    if given.get("id") is None:
        return f"agent_{position}"
    return _required(given, "id", f"a name of your own, up to {ID_CHARACTERS} characters", ID_CHARACTERS)


def _quorum(arguments: Mapping[str, object], policy: Policy, agents: int) -> int | None:
    quorum = _optional(arguments, "quorum", _positive, "a whole number from 1 on")
    if policy != "quorum":
        if quorum is not None:
            raise BadAssignment("quorum goes with policy quorum: set that policy too, or leave quorum out.")
        return None
    if quorum is None or quorum > agents:
        raise BadAssignment(f"policy quorum needs quorum: how many of the {agents} agents must complete.")
    return quorum


def _refuse_unknown(given: Mapping[str, object], known: tuple[str, ...], what: str) -> None:
    if unknown := sorted(str(key)[:100] for key in set(given) - set(known)):
        raise BadAssignment(f"{what} takes {', '.join(known)}; it does not know {', '.join(unknown)}.")


def _required(given: Mapping[str, object], key: str, kind: str, longest: int | None = None) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip() or (longest is not None and len(value) > longest):
        raise BadAssignment(f"{key} must be {kind}.")
    return value


def _optional(given: Mapping[str, object], key: str, read: Callable[[object], T | None], kind: str) -> T | None:
    """The value read by `read`; None when it is left out or null."""
    value = given.get(key)
    if value is None:
        return None
    if (found := read(value)) is None:
        raise BadAssignment(f"{key} must be {kind}.")
    return found


def _one_of(given: Mapping[str, object], key: str, known: tuple[T, ...]) -> T:
    """The value, one of `known`; the first of them when it is left out or null."""
    value = given.get(key)
    if value is None:
        return known[0]
    for choice in known:
        if choice == value:
            return choice
    raise BadAssignment(f"{key} must be one of {', '.join(map(str, known))}; {str(value)[:100]!r} is none of them.")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...] | None:
    """The texts of a list; a single text counts as a list of one."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return tuple(value)
    return None


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def _seconds(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value <= LONGEST_SECONDS else None  # type: ignore[operator,arg-type]


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
    return (_subagent(names, known), _subagents_run(names, most, models), _subagent_send())


def _subagent(names: list[str], known: str) -> ToolSpec:
    description = (
        "Delegate one self-contained piece of work to a subagent, which sees only your prompt, and get its final "
        "answer back. Several calls in one reply run side by side.\n" + known
    )
    properties = {
        "agent_type": {"type": "string", "enum": names},
        "prompt": _string("The whole task, with all context that it needs."),
        "title": _string("A few words for people who watch."),
    }
    return _spec(SUBAGENT, description, properties, ["agent_type", "prompt"])


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
        "Go on with a subagent of yours that has finished: it still knows all it was told and found. The result names "
        "its new record_id; every earlier one still works."
    )
    properties = {
        "record_id": _string("As its result names it."),
        "message": _string("What it is to do next, or what was missing."),
    }
    return _spec(SUBAGENT_SEND, description, properties, ["record_id", "message"])


_TEXTS: Mapping[str, object] = {"type": "array", "items": {"type": "string"}}
_NOT_SHOWN: Mapping[str, object] = {
    "max_concurrency": {"type": "integer"},
    "policy": {"type": "string", "enum": list(POLICIES)},
    "quorum": {"type": "integer"},
    "item_seconds": {"type": "number"},
    "total_seconds": {"type": "number"},
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

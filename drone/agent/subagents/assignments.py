"""The arguments of the delegation tools and how they are parsed; each mistake gets a clear message."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from drone.agent.background import SUBAGENT_STEER
from drone.agent.state.record import SUBAGENT_WAIT
from drone.agent.turns.background import OnEnd
from drone.agent.turns.turn import title_of

SUBAGENT = "subagent"
SUBAGENTS_RUN = "subagents_run"
SUBAGENT_SEND = "subagent_send"
SUBAGENT_STATUS = "subagent_status"
SUBAGENT_CANCEL = "subagent_cancel"
OF_BACKGROUND = (SUBAGENT_STATUS, SUBAGENT_WAIT, SUBAGENT_CANCEL, SUBAGENT_STEER)
"""Tools for subagents in the background; models see them once they have such a subagent."""
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
_CALL = (
    "agents",
    "mode",
    "max_concurrency",
    "policy",
    "quorum",
    "item_seconds",
    "total_seconds",
    "background",
    "on_end",
)
ON_ENDS: tuple[OnEnd, ...] = ("wait", "cancel")

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
    background: OnEnd | None = None
    """It runs in the background, and this is what becomes of it at its parent's end; None: its parent waits for it."""

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
    `background`: as in `Assignment`.
    """

    agents: tuple[Assignment, ...]
    mode: Mode = "parallel"
    max_concurrency: int | None = None
    policy: Policy = "collect"
    quorum: int | None = None
    item_seconds: float | None = None
    total_seconds: float | None = None
    background: OnEnd | None = None


def assignment_of(arguments: Mapping[str, object], offered: Collection[str]) -> Assignment:
    """Parse the arguments of `subagent`. Raises `UnknownAgentType`, `BadAssignment`."""
    _refuse_unknown(arguments, ("agent_type", "prompt", "title", "background", "on_end"), "subagent")
    kind = arguments.get("agent_type")
    if not isinstance(kind, str) or kind not in offered:
        raise UnknownAgentType(kind, offered)
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadAssignment("prompt must be a text that tells the subagent all it needs: it sees nothing else.")
    title = _optional(arguments, "title", _text, "a short text") or ""
    return Assignment("", kind, prompt, title, background=_background(arguments))


def assignments_of(arguments: Mapping[str, object], most: int) -> Assignments:
    """Parse the arguments of `subagents_run`, for at most `most` agents. Raises `BadAssignment`."""
    _refuse_unknown(arguments, _CALL, "subagents_run")
    agents = _agents(arguments.get("agents"), most)
    mode = _one_of(arguments, "mode", MODES)
    if mode == "chain" and PREVIOUS in agents[0].task:
        raise BadAssignment(f"The first agent of a chain has nothing before it: leave {PREVIOUS} out of its task.")
    if mode == "chain" and any(agent.task.count(PREVIOUS) > MOST_PREVIOUS for agent in agents):
        raise BadAssignment(f"A task may hold {PREVIOUS} {MOST_PREVIOUS} times at most: once is enough to read it.")
    policy, background = _one_of(arguments, "policy", POLICIES), _background(arguments)
    if background is not None and (mode == "chain" or policy not in ("collect", "best_effort")):
        raise BadAssignment("In the background agents run in parallel, with policy collect or best_effort alone.")
    return Assignments(
        agents,
        mode,
        _optional(arguments, "max_concurrency", _positive, "a whole number from 1 on"),
        policy,
        _quorum(arguments, policy, len(agents)),
        _optional(arguments, "item_seconds", _seconds, "a number of seconds above 0"),
        _optional(arguments, "total_seconds", _seconds, "a number of seconds above 0"),
        background,
    )


def _background(arguments: Mapping[str, object]) -> OnEnd | None:
    """What becomes of the agents at their parent's end if they run in the background; None if they do not."""
    in_background, on_end = arguments.get("background"), arguments.get("on_end")
    if in_background not in (None, True, False):
        raise BadAssignment("background must be true or false.")
    if not in_background and on_end is not None:
        raise BadAssignment("on_end goes with background: set that too, or leave on_end out.")
    return _one_of(arguments, "on_end", ON_ENDS) if in_background else None


@dataclass(frozen=True, slots=True)
class WaitRequest:
    """The parsed arguments of `subagent_wait`. `record_ids` None: all. `first`: only until one of them has ended."""

    record_ids: tuple[str, ...] | None
    seconds: float
    first: bool


def waiting_of(arguments: Mapping[str, object]) -> WaitRequest:
    """Parse the arguments of `subagent_wait`. Raises `BadAssignment`."""
    _refuse_unknown(arguments, ("record_ids", "seconds", "first"), SUBAGENT_WAIT)
    first = arguments.get("first")
    if first not in (None, True, False):
        raise BadAssignment("first must be true or false.")
    seconds = _optional(arguments, "seconds", _seconds, f"a number of seconds above 0, {LONGEST_WAIT} at most")
    if (seconds or 0) > LONGEST_WAIT:
        raise BadAssignment(f"seconds must be {LONGEST_WAIT} at most: wait again if that is not enough.")
    named = _optional(arguments, "record_ids", _texts, "a list of record ids")
    return WaitRequest(named and tuple(dict.fromkeys(named)), seconds or USUAL_WAIT, bool(first))


USUAL_WAIT, LONGEST_WAIT = 60, 600
"""Seconds that `subagent_wait` waits when its call does not say, and at most."""


def record_of(arguments: Mapping[str, object], tool: str) -> str:
    """Parse arguments that are a record id alone. Raises `BadAssignment`."""
    _refuse_unknown(arguments, ("record_id",), tool)
    return _required(arguments, "record_id", _A_RECORD)


_A_RECORD = "one that the result of a call of yours names"


def message_of(arguments: Mapping[str, object], tool: str = SUBAGENT_SEND) -> tuple[str, str]:
    """Parse the arguments of `subagent_send` or `subagent_steer`: record id and message. Raises `BadAssignment`."""
    _refuse_unknown(arguments, ("record_id", "message"), tool)
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

"""What the offline model knows: the request, the tools, and the results of their calls so far."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drone.agent.ports.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from drone.agent.ports.model import Ask, WantedCall
from drone.agent.ports.transcript import WOULD_BE_ACCEPTED, request_in
from mcc.contracts.fence import unfenced
from mcc.rules.patterns import Pattern

FINISH = ("submit_result", "done")
CHECK_ONLY = "check_only"
_READ_ARTIFACT = "read_artifact"

_STOPPED = Pattern(r"\bthe limit \w+.{0,40} is reached\b|\bno tool runs any more\b", ignore_case=True)
_WRAP_UP = Pattern(r"\b(?:wrap up|finish now|answer now|stop here|with what you have)\b", ignore_case=True)
_NEW_TASK = Pattern(r"\byour task has changed\b.*?:\s+", ignore_case=True, across=True)
_REFERS_BACK = Pattern(
    r"\byour (?:\w+ )?(?:result|answer|report|findings?)\b|\byou (?:found|read|said)\b|\bthe same again\b",
    ignore_case=True,
)
_NOT_SUBMITTED = Pattern(r"\bhand the result in with\b", ignore_case=True)
_LEFT_OUT = Pattern(r"\bof ([\d,]{1,20}) characters\b[^\n]{0,60}\bread_artifact\b[^\n]{0,40}?\bid\W{1,4}([\w-]{8,100})")
_PAGE = 60_000
_MOST_PAGES = 8


@dataclass(frozen=True, slots=True)
class CallResult:
    """A tool call with its result."""

    name: str
    arguments: Mapping[str, Any]
    content: str
    is_error: bool

    @property
    def left_out(self) -> tuple[str, int] | None:
        """Handle and length in characters of the whole text, if `content` is only a part of it."""
        found = _LEFT_OUT.search(self.content)
        return (found[2], int(found[1].replace(",", ""))) if found else None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One turn as the model sees it: `request` is the latest request, `steers` are messages sent after the work began.

    `before` are the requests of earlier turns, oldest first; `earlier` are the tool results of those turns.
    """

    system: str
    request: str
    before: tuple[str, ...]
    steers: tuple[str, ...]
    done: tuple[CallResult, ...]
    earlier: tuple[CallResult, ...]
    rounds: int
    tools: Mapping[str, ToolSpec]

    def results(self, name: str) -> tuple[CallResult, ...]:
        """Successful results of the tool called `name`, in the order of the calls."""
        return tuple(done for done in self.done if done.name == name and not done.is_error)

    def with_earlier_turns(self) -> "Conversation":
        """The same conversation including results of earlier turns. A request that refers to earlier turns is replaced
        by the first request."""
        request = self.before[0] if self.before and _REFERS_BACK.search(self.request) else self.request
        return replace(self, request=request, before=(), done=self.earlier + self.done, earlier=())

    @property
    def must_finish(self) -> bool:
        """Whether a limit was reached or a user asked to finish."""
        stopped = any(done.is_error and _STOPPED.search(done.content[:300]) for done in self.done)
        return stopped or any(_WRAP_UP.search(steer) for steer in self.steers)

    @property
    def finish(self) -> ToolSpec | None:
        """The tool that submits the result; None without one."""
        return next((self.tools[name] for name in FINISH if name in self.tools), None)

    @property
    def agent_types(self) -> tuple[str, ...]:
        """The agent types that the tool `subagent` accepts according to its schema; empty without the tool."""
        return _options(_properties(self.tools.get("subagent")).get("agent_type"))

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that the tool `subagents_run` accepts."""
        return _options(self.agent_fields.get("role"))

    @property
    def helpers(self) -> tuple[str, ...]:
        """The available subagents, from either tool."""
        return self.agent_types or self.roles

    @property
    def agent_fields(self) -> Mapping[str, Any]:
        """The schemas of one agent's fields in `subagents_run`, by name."""
        agents = _properties(self.tools.get("subagents_run")).get("agents")
        each = agents.get("items") if isinstance(agents, Mapping) else None
        properties = each.get("properties") if isinstance(each, Mapping) else None
        return properties if isinstance(properties, Mapping) else {}

    def calls_for_the_rest(self) -> list[WantedCall]:
        """Calls that fetch the whole of every result that was cut."""
        cut = dict.fromkeys(done.left_out for done in self.done if done.name != _READ_ARTIFACT)
        calls = (
            self.call(_READ_ARTIFACT, id=found[0], start=start, length=_PAGE)
            for found in cut
            if found
            for start in range(0, found[1], _PAGE)[:_MOST_PAGES]
        )
        return [call for call in calls if call is not None]

    def call(self, name: str, **arguments: object) -> WantedCall | None:
        """A call of an available tool with those `arguments` that its schema has; None if the tool is missing or the
        same call was made before."""
        if name not in self.tools:
            return None
        known = _properties(self.tools[name])
        sent = {key: value for key, value in arguments.items() if key in known and value is not None}
        if any(done.name == name and dict(done.arguments) == sent for done in self.done):
            return None
        return WantedCall(name, sent)


def _properties(spec: ToolSpec | None) -> Mapping[str, Any]:
    properties = spec.parameters.get("properties") if spec else None
    return properties if isinstance(properties, Mapping) else {}


def _options(schema: object) -> tuple[str, ...]:
    listed = schema.get("enum") if isinstance(schema, Mapping) else None
    return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list | tuple) else ()


def read(ask: Ask) -> Conversation:
    """The current turn of `ask`. Requests of earlier turns count as answered."""
    start = _start_of_turn(ask.messages)
    turn = ask.messages[start:]
    opening = _opening_length(turn)
    steers = tuple(text for message in turn[opening:] for text in _outside_texts(message))
    asked = "\n".join(request_in(message.text) for message in turn[:opening] if isinstance(message, UserMessage))
    done = _with_whole_contents(tuple(_call_results(ask.messages)))
    now = sum(len(message.results) for message in turn if isinstance(message, ToolResults))
    return Conversation(
        system=ask.system,
        request=_NEW_TASK.sub("", asked, 1),
        before=tuple(request_in(message.text) for message in ask.messages[:start] if isinstance(message, UserMessage)),
        steers=steers,
        done=done[len(done) - now :],
        earlier=done[: len(done) - now],
        rounds=sum(isinstance(message, AssistantMessage) for message in turn),
        tools={spec.name: spec for spec in ask.tools},
    )


def _outside_texts(message: Message) -> tuple[str, ...]:
    """The texts in a message that come from neither the model nor a tool."""
    match message:
        case UserMessage(text):
            return (text,)
        case ToolResults(notices=notices):
            return notices
    return ()


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Index of the current turn's first message: after a reply that ended a turn, or at a user message that replaces
    the task."""
    for index in range(len(messages) - 1, 0, -1):
        before, message = messages[index - 1 : index + 1]
        if isinstance(message, UserMessage) and (_NEW_TASK.match(message.text) or _ends_turn(before, message)):
            return index
    return 0


def _ends_turn(last: Message, following: UserMessage) -> bool:
    """Whether a turn ended with `last`: by a reply without tool calls, or by an accepted result."""
    if isinstance(last, AssistantMessage):
        return not _NOT_SUBMITTED.search(following.text)
    if isinstance(last, ToolResults):
        return any(
            result.name in FINISH and not result.is_error and WOULD_BE_ACCEPTED not in result.content
            for result in last.results
        )
    return False


def _opening_length(turn: Sequence[Message]) -> int:
    """The number of messages in the turn before its first reply."""
    return next((index for index, message in enumerate(turn) if not isinstance(message, UserMessage)), len(turn))


def _call_results(messages: Sequence[Message]) -> Iterator[CallResult]:
    arguments: dict[str, Mapping[str, Any]] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                arguments[call.call_id] = call.arguments if isinstance(call.arguments, Mapping) else {}
        elif isinstance(message, ToolResults):
            for result in message.results:
                content = unfenced(result.content)
                yield CallResult(result.name, arguments.get(result.call_id, {}), content, result.is_error)


def _with_whole_contents(done: tuple[CallResult, ...]) -> tuple[CallResult, ...]:
    """Replace the content of cut results by what `read_artifact` returned for them."""
    whole: dict[str, str] = {}
    for one in done:
        if one.name == _READ_ARTIFACT and not one.is_error:
            handle = str(one.arguments.get("id"))
            whole[handle] = whole.get(handle, "") + one.content.split("\n", 1)[-1]
    return tuple(
        replace(one, content=whole.get(one.left_out[0], one.content))
        if one.left_out and one.name != _READ_ARTIFACT
        else one
        for one in done
    )

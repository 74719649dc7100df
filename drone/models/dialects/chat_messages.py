"""Messages and tools as chat completions send them, each encoded once for a server's differences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from drone.agent.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from drone.models.body import encoded
from drone.models.dialects.differences import Differences
from drone.models.json_text import write
from drone.models.tool_specs import legal, sendable
from mcc.contracts.blocks import AnyBlock, TextBlock, ThinkingBlock, ToolCallBlock, refusal_in

_TOOL = "chat"
_UNREADABLE = "arguments_that_were_not_a_json_object"
_END_OF_PARTS = b"}]}"
_MARKED_END = b',"cache_control":{"type":"ephemeral"}}]}'
_MARKED_TURNS = 2


class ChatMessages:
    """Messages for one model: `name` is what people call it, `model` what its server does."""

    def __init__(self, name: str, model: str, differences: Differences) -> None:
        self._name = name
        self._differences = differences
        self._caches = differences.caches(model)
        self._not_its_own = differences.unsigned_call(model)

    def __call__(self, system: str, messages: Sequence[Message], without: frozenset[str]) -> Iterator[bytes]:
        """All of them in order. Thinking does not go back in a field that is `without`, which the server refused."""
        if system:
            told = write({"role": "system", "content": self._content(system)})
            yield _marked(told) if self._caches else told
        if not self._differences.user_after_tool:
            messages = list(_with_notices(messages))
        marked = set(_last_turns(messages)) if self._caches else ()
        field = self._differences.thinking_back
        field = "" if field in without else field
        for number, message in enumerate(messages):
            if told := self._encoded(message, field):
                yield _marked(told) if number in marked else told

    def _encoded(self, message: Message, field: str) -> bytes:
        form = self._differences.name
        if isinstance(message, AssistantMessage):
            # What a provider wants back it wants from the model that it is of: bytes of a reply are kept by model.
            form = f"{form} {field} {self._name}"
        return encoded(message, form, lambda one: b",".join(map(write, self._fresh(one, field))))

    def _fresh(self, message: Message, field: str) -> Iterator[Mapping[str, object]]:
        match message:
            case UserMessage():
                yield {"role": "user", "content": self._content(message.text)}
            case AssistantMessage():
                yield self._assistant(message, field)
            case ToolResults():
                for result in message.results:
                    call_id, content = self._differences.call_id(result.call_id), self._content(result.content)
                    yield {"role": "tool", "tool_call_id": call_id, "content": content}
            case _:
                assert_never(message)

    def _content(self, text: str) -> object:
        """Marks for the cache stand at parts; the shape is the same with and without a mark, so that beginnings are."""
        return [{"type": "text", "text": text}] if self._caches else text

    def _assistant(self, message: AssistantMessage, field: str) -> Mapping[str, object]:
        own = message.model == self._name
        words = message.text or refusal_in(message.blocks)
        told: dict[str, object] = {"role": "assistant", "content": words}
        calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
        if calls:
            told["content"] = words or None
            told["tool_calls"] = list(self._calls(calls, own=own))
            if field and (thinking := _unsigned(message.blocks)):
                told[field] = thinking
        return {**_kept(message.blocks), **told} if own else told

    def _calls(self, calls: Sequence[ToolCallBlock], *, own: bool) -> Iterator[Mapping[str, object]]:
        signed = own and any(call.extra for call in calls)
        for number, call in enumerate(calls):
            # Servers parse the arguments of earlier calls: what was no JSON object goes back as the text inside one.
            given = call.arguments if not isinstance(call.arguments, str) else {_UNREADABLE: call.arguments}
            extra = call.extra if signed else self._not_its_own if number == 0 else None
            yield {
                **(extra or {}),
                # Made of ours, which differ where a provider's repeat: docs/decisions/06-own-call-ids.md
                "id": self._differences.call_id(call.call_id),
                "type": "function",
                "function": {"name": legal(call.name), "arguments": write(given).decode()},
            }


def tool(spec: ToolSpec) -> bytes:
    known = spec.encoded.get(_TOOL)
    if known is None:
        function = {"name": legal(spec.name), "description": spec.description, "parameters": sendable(spec.parameters)}
        known = spec.encoded[_TOOL] = write({"type": "function", "function": function})
    return known


def _with_notices(messages: Iterable[Message]) -> Iterator[Message]:
    """What a user says after results stands at the end of the last result instead; a reply that said nothing, which
    such servers refuse as well, is left out."""
    results: ToolResults | None = None
    for message in messages:
        if isinstance(message, AssistantMessage) and not (message.text or message.tool_calls):
            continue
        if results is not None and isinstance(message, UserMessage):
            results = results.noting(message.text)
            continue
        if results is not None:
            yield results
        results = message if isinstance(message, ToolResults) else None
        if results is None:
            yield message
    if results is not None:
        yield results


def _last_turns(messages: Sequence[Message]) -> list[int]:
    """Where the last turns that are not the model's end."""
    ends = [
        number
        for number, message in enumerate(messages)
        if not isinstance(message, AssistantMessage)
        and (number + 1 == len(messages) or isinstance(messages[number + 1], AssistantMessage))
    ]
    return ends[-_MARKED_TURNS:]


def _marked(told: bytes) -> bytes:
    return told.removesuffix(_END_OF_PARTS) + _MARKED_END


def _unsigned(blocks: Iterable[AnyBlock]) -> str:
    return "".join([block.text for block in blocks if isinstance(block, ThinkingBlock) and block.signature is None])


def _kept(blocks: Iterable[AnyBlock]) -> Mapping[str, object]:
    """Fields of the message that its server wants back unchanged."""
    kept: dict[str, object] = {}
    for block in blocks:
        if isinstance(block, TextBlock | ThinkingBlock) and block.extra:
            kept.update(block.extra)
    return kept

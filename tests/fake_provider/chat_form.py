"""A server that speaks OpenAI's chat completions, as strict as OpenAI's; families of servers differ by a subclass."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fake_provider.play import Heard, Json, Memory, Refused, Say

PARAMETERS = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "reasoning_effort",
        "parallel_tool_calls",
        "service_tier",
        "prompt_cache_key",
        "store",
        "seed",
        "stop",
        "n",
        "metadata",
    ]
)
FINISH = {"refusal": "stop", "pause": "stop"}


class ChatForm:
    """Strict about order, ids and parameters. `thinking` is the field that carries reasoning, empty: none is told."""

    path = re.compile(r"/v1/chat/completions")
    prefix = "/v1"
    parameters = PARAMETERS
    message_fields = frozenset(["role", "content", "tool_calls", "tool_call_id", "name", "refusal"])
    thinking = "reasoning_content"
    keyed = True

    def authorize(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        if self.keyed and not headers.get("authorization", "").startswith("Bearer "):
            raise Refused(401, "You didn't provide an API key.", "invalid_request_error", "invalid_api_key")

    def check(self, body: Json, memory: Memory) -> None:
        for name in body.keys() - self.parameters:
            raise Refused(400, f"Unrecognized request argument supplied: {name}")
        if "stream_options" in body and not body.get("stream"):
            raise Refused(400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        for number, tool in enumerate(body.get("tools", ())):
            function = tool.get("function", {})
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function.get("name", "")):
                raise Refused(400, f"Invalid 'tools[{number}].function.name': string does not match pattern.")
            if function.get("parameters", {}).get("type") != "object":
                raise Refused(400, f"Invalid schema for function '{function['name']}': schema must be an object.")
        if not body.get("messages"):
            raise Refused(400, "Invalid 'messages': empty array. Expected an array with minimum length 1.")
        self._check_order(body["messages"])
        for number, message in enumerate(body["messages"]):
            self.check_message(number, message, body["messages"], memory)

    def check_message(self, number: int, message: Json, messages: list[Json], memory: Memory) -> None:
        """What this server takes in one message. Raises `Refused`."""
        for name in message.keys() - self.message_fields:
            raise Refused(400, f"Unrecognized request argument supplied: messages[{number}].{name}")

    def _check_order(self, messages: list[Json]) -> None:
        open_ids: list[str] = []
        for number, message in enumerate(messages):
            role = message.get("role")
            if role not in ("system", "developer", "user", "assistant", "tool"):
                raise Refused(400, f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user'.")
            if role == "tool":
                if message.get("tool_call_id") not in open_ids:
                    raise Refused(
                        400,
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                        "'tool_calls'.",
                    )
                open_ids.remove(message["tool_call_id"])
            elif open_ids:
                raise Refused(
                    400,
                    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                    f"'tool_call_id'. The following tool_call_ids did not have response messages: {open_ids[0]}",
                )
            if role == "assistant":
                open_ids = self._ids_of(number, message)
            elif not isinstance(message.get("content"), str | list):
                raise Refused(400, f"Invalid value for 'content': expected a string, got null in messages[{number}].")
        if open_ids:
            raise Refused(400, "An assistant message with 'tool_calls' must be followed by tool messages.")

    def _ids_of(self, number: int, message: Json) -> list[str]:
        calls = message.get("tool_calls") or []
        if not calls and message.get("content") is None:
            raise Refused(400, f"Invalid value for 'content': expected a string, got null in messages[{number}].")
        for call in calls:
            arguments = call.get("function", {}).get("arguments")
            if not isinstance(arguments, str) or not _is_json(arguments):
                raise Refused(400, f"Invalid 'messages[{number}].tool_calls': arguments must be valid JSON.")
        return [str(call.get("id")) for call in calls]

    def hear(self, body: Json) -> Heard:
        messages = body["messages"]
        return Heard(
            tools={tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", ())},
            replies=sum(message["role"] == "assistant" for message in messages),
            results=sum(message["role"] == "tool" for message in messages),
            tokens=len(json.dumps(body)) // 4,
        )

    def call_id(self, turn: int, index: int) -> str:
        return f"call_{turn:04d}{index:04d}"

    def arguments(self, arguments: Json) -> Any:
        return json.dumps(arguments)

    def finish(self, say: Say) -> str:
        return "tool_calls" if say.calls else FINISH.get(say.finish, say.finish)

    def before(self, say: Say, memory: Memory) -> Iterator[Json]:
        """Deltas of thinking, before those of text."""
        if self.thinking and say.thinking:
            yield from ({self.thinking: f"{word} "} for word in say.thinking.split())

    def call(self, index: int, say: Say, memory: Memory) -> dict[str, Any]:
        call = say.calls[index]
        function = {"name": call.name, "arguments": self.arguments(call.arguments)}
        return {"index": index, "id": self.call_id(memory.turns, index), "type": "function", "function": function}

    def usage(self, heard: Heard, say: Say, cached: int) -> Json | None:
        return {
            "prompt_tokens": heard.tokens,
            "completion_tokens": 60,
            "total_tokens": heard.tokens + 60,
            "prompt_tokens_details": {"cached_tokens": min(cached, heard.tokens)},
            "completion_tokens_details": {"reasoning_tokens": 40},
        }

    def deltas(self, say: Say, memory: Memory) -> Iterator[Json]:
        yield {"role": "assistant", "content": ""}
        yield from self.before(say, memory)
        if say.finish == "refusal":
            yield {"refusal": say.text}
        elif say.text:
            yield from ({"content": f"{word} "} for word in say.text.split())
        for index in range(len(say.calls)):
            whole = self.call(index, say, memory)
            arguments = whole["function"]["arguments"]
            if not isinstance(arguments, str):
                yield {"tool_calls": [whole]}
                continue
            yield {"tool_calls": [{**whole, "function": {**whole["function"], "arguments": arguments[:5]}}]}
            yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[5:]}}]}

    def stream(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[bytes]:
        def chunk(delta: Json, finish: str | None = None) -> bytes:
            told = {"id": f"chatcmpl-{memory.turns}", "object": "chat.completion.chunk"}
            return _event({**told, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield from (chunk(delta) for delta in self.deltas(say, memory))
        yield chunk({}, self.finish(say))
        if (usage := self.usage(heard, say, cached)) is not None:
            yield _event({"object": "chat.completion.chunk", "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    def whole(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Json:
        message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
        if say.calls:
            message["tool_calls"] = [self.call(index, say, memory) for index in range(len(say.calls))]
        choice = {"index": 0, "message": message, "finish_reason": self.finish(say)}
        return {"id": "chatcmpl-0", "choices": [choice], "usage": self.usage(heard, say, cached)}

    def error(self, refused: Refused) -> Json:
        told = {"message": str(refused), "type": refused.kind, "param": None, "code": refused.code or None}
        return {"error": told}

    def error_in_stream(self, refused: Refused) -> bytes:
        return _event(self.error(refused))


def _event(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False

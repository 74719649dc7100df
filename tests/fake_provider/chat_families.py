"""Servers that speak chat completions in ways of their own: what each wants, refuses and adds."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fake_provider.chat_form import PARAMETERS, ChatForm
from tests.fake_provider.play import Heard, Json, Memory, Refused, Say


class OpenAI56(ChatForm):
    """Refuses tools beside reasoning, old names of the cap, and temperatures; tells no reasoning."""

    thinking = ""

    def check(self, body: Json, memory: Memory) -> None:
        if "max_tokens" in body:
            raise Refused(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.",
                code="unsupported_parameter",
            )
        if body.get("temperature", 1) != 1:
            raise Refused(400, "Unsupported value: 'temperature' does not support this value with this model.")
        if body.get("tools") and body.get("reasoning_effort") != "none":
            raise Refused(
                400,
                "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. Please "
                "use /v1/responses instead, or set reasoning_effort to 'none'.",
            )
        super().check(body, memory)


class Mistral(ChatForm):
    """Ids of nine letters and digits; after a tool's result comes the assistant; nothing unknown is taken."""

    thinking = ""
    parameters = PARAMETERS - {"stream_options", "max_completion_tokens", "prompt_cache_key", "service_tier", "store"}

    def check_message(self, number: int, message: Json, messages: list[Json], memory: Memory) -> None:
        before = messages[number - 1]["role"] if number else ""
        if message["role"] == "user" and before == "tool":
            raise Refused(400, "Unexpected role 'user' after role 'tool'", "invalid_request_message_order", "3230")
        for name in message.keys() - self.message_fields:
            detail = f"Extra inputs are not permitted: body.messages.{number}.assistant.{name}"
            raise Refused(422, detail, "invalid_request_error")
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        for one in [*ids, *([message["tool_call_id"]] if "tool_call_id" in message else [])]:
            if not re.fullmatch(r"[a-zA-Z0-9]{9}", one):
                words = f"Tool call id was {one} but must be a-z, A-Z, 0-9, with a length of 9."
                raise Refused(400, words, "invalid_function_call", "3280")

    def call_id(self, turn: int, index: int) -> str:
        return f"m{turn % 10_000:04d}{index:04d}"


class Groq(ChatForm):
    """Tells thinking as `reasoning` and refuses it back as `reasoning_content`."""

    thinking = "reasoning"
    message_fields = ChatForm.message_fields | {"reasoning"}
    parameters = PARAMETERS | {"reasoning_format", "include_reasoning"}

    def check_message(self, number: int, message: Json, messages: list[Json], memory: Memory) -> None:
        for name in message.keys() - self.message_fields:
            raise Refused(400, f"'messages.{number}' : for 'role:assistant' property '{name}' is unsupported")


class DeepSeek(ChatForm):
    """Wants the thinking of a tool call back with it."""

    message_fields = ChatForm.message_fields | {"reasoning_content", "prefix"}
    parameters = PARAMETERS | {"thinking"}

    def check_message(self, number: int, message: Json, messages: list[Json], memory: Memory) -> None:
        super().check_message(number, message, messages, memory)
        if message.get("tool_calls") and "reasoning_content" not in message:
            raise Refused(400, f"Missing `reasoning_content` field in the assistant message at message index {number}.")


class GoogleChat(ChatForm):
    """Gemini 3 in OpenAI's form: the first call of a reply is signed, and must come back so."""

    path = re.compile(r"/v1beta/openai/chat/completions")
    prefix = "/v1beta/openai"
    thinking = ""
    parameters = (PARAMETERS | {"extra_body"}) - {"prompt_cache_key", "store"}

    def check_message(self, number: int, message: Json, messages: list[Json], memory: Memory) -> None:
        calls: list[Json] = message.get("tool_calls") or []
        signature = _google(calls[0]).get("thought_signature", "") if calls else "none"
        if not signature:
            raise Refused(
                400,
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                f"work correctly. Additional data, function call `{calls[0]['function']['name']}` , position {number}.",
                "INVALID_ARGUMENT",
            )
        if calls and signature not in memory.signed and not signature.startswith(("skip_thought_", "context_engin")):
            raise Refused(400, "Corrupted thought signature.", "INVALID_ARGUMENT")

    def call(self, index: int, say: Say, memory: Memory) -> dict[str, Any]:
        told = super().call(index, say, memory)
        if index == 0:
            signature = f"sign-{memory.turns}"
            memory.signed[signature] = True
            told["extra_content"] = {"google": {"thought_signature": signature}}
        return told


def _google(call: Json) -> Mapping[str, Any]:
    said = call.get("extra_content")
    google = said.get("google") if isinstance(said, dict) else None
    return google if isinstance(google, dict) else {}


def _said(function: Json) -> str:
    """What tells one call of a conversation from all others."""
    return f"{function['name']} {json.dumps(json.loads(function['arguments']), sort_keys=True)}"


class OpenRouter(ChatForm):
    """Comments while one waits, reasoning in details that must come back as they were, and what a call cost."""

    path = re.compile(r"/api/v1/chat/completions")
    prefix = "/api/v1"
    thinking = "reasoning"
    parameters = PARAMETERS | {"reasoning", "usage", "provider", "transforms", "models", "include_reasoning"}
    message_fields = ChatForm.message_fields | {"reasoning", "reasoning_details"}

    def check_message(self, number: int, message: Json, messages: list[Json], memory: Memory) -> None:
        super().check_message(number, message, messages, memory)
        calls: list[Json] = message.get("tool_calls") or []
        signatures = memory.signed.get(_said(calls[0]["function"]), []) if calls else []
        back = [one["signature"] for one in message.get("reasoning_details") or () if one.get("signature")]
        if (signatures or back) and (len(back) != 1 or back[0] not in signatures):
            raise Refused(400, f"messages.{number}.content.0: `thinking` blocks of a reply cannot be modified.")

    def call(self, index: int, say: Say, memory: Memory) -> dict[str, Any]:
        told = super().call(index, say, memory)
        memory.signed.setdefault(_said(told["function"]), []).append(f"details-{memory.turns}")
        return told

    def before(self, say: Say, memory: Memory) -> Iterator[Json]:
        signature = f"details-{memory.turns}"
        common = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
        for word in say.thinking.split():
            yield {"reasoning": f"{word} ", "reasoning_details": [{**common, "text": f"{word} "}]}
        yield {"reasoning_details": [{**common, "signature": signature}]}

    def usage(self, heard: Heard, say: Say, cached: int) -> Json | None:
        return {**(super().usage(heard, say, cached) or {}), "cost": 0.00123, "is_byok": False}

    def stream(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[bytes]:
        yield b": OPENROUTER PROCESSING\n\n"
        yield from super().stream(say, heard, memory, cached)


class Azure(ChatForm):
    """An address per deployment, which ends in an api-version; the key in a header of its own."""

    path = re.compile(r"/openai/deployments/[^/]+/chat/completions")
    prefix = "/openai/deployments/fake"
    thinking = ""

    def authorize(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        if "api-version" not in query:
            raise Refused(404, "Resource not found", code="404")
        if "api-key" not in headers and not headers.get("authorization", "").startswith("Bearer eyJ"):
            raise Refused(401, "Access denied due to invalid subscription key or wrong API endpoint.", code="401")

    def stream(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[bytes]:
        filters = {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
        yield b"data: " + json.dumps({"choices": [], "model": "", **filters}).encode() + b"\n\n"
        yield from super().stream(say, heard, memory, cached)


class Local(ChatForm):
    """Ollama, vLLM, llama.cpp: takes any parameter and field, wants no key."""

    keyed = False

    def check(self, body: Json, memory: Memory) -> None:
        super().check({name: value for name, value in body.items() if name in self.parameters}, memory)

    def check_message(self, number: int, message: Json, messages: list[Json], memory: Memory) -> None:
        return None


class Ollama(Local):
    """Whole calls with an object as arguments and without ids, `stop` beside calls, no usage."""

    thinking = "reasoning"

    def call_id(self, turn: int, index: int) -> str:
        return ""

    def arguments(self, arguments: Json) -> Any:
        return dict(arguments)

    def finish(self, say: Say) -> str:
        return "stop"

    def usage(self, heard: Heard, say: Say, cached: int) -> Json | None:
        return None


class Leaking(Local):
    """A server started without parsers: thinking and calls stand in the text, as the model's template writes them."""

    def deltas(self, say: Say, memory: Memory) -> Iterator[Json]:
        yield {"role": "assistant", "content": ""}
        text = f"<think>\n{say.thinking}\n</think>\n\n{say.text}"
        for call in say.calls:
            told = json.dumps({"name": call.name, "arguments": call.arguments})
            text += f"\n<tool_call>\n{told}\n</tool_call>"
        yield from ({"content": text[at : at + 7]} for at in range(0, len(text), 7))

    def finish(self, say: Say) -> str:
        return "stop"

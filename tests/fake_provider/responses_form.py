"""A server that speaks OpenAI's Responses and keeps nothing: reasoning comes sealed and goes back with its call."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fake_provider.play import Heard, Json, Memory, Refused, Say

PARAMETERS = frozenset(
    [
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "stream",
        "store",
        "include",
        "reasoning",
        "text",
        "max_output_tokens",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "metadata",
        "truncation",
        "stream_options",
        "safety_identifier",
        "max_tool_calls",
    ]
)


class ResponsesForm:
    path = re.compile(r"/v1/responses")
    prefix = "/v1"

    def authorize(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        if not headers.get("authorization", "").startswith("Bearer "):
            raise Refused(401, "You didn't provide an API key.", code="invalid_api_key")

    def check(self, body: Json, memory: Memory) -> None:
        for name in body.keys() - PARAMETERS:
            raise Refused(400, f"Unknown parameter: '{name}'.", code="unknown_parameter")
        if "temperature" in body:
            words = "Unsupported parameter: 'temperature' is not supported with this model."
            raise Refused(400, words, code="unsupported_parameter")
        for number, tool in enumerate(body.get("tools", ())):
            if tool.get("type") == "function" and "name" not in tool:
                words = f"Missing required parameter: 'tools[{number}].name'."
                raise Refused(400, words, code="missing_required_parameter")
        items = body.get("input")
        if isinstance(items, list):
            self._check_pairs(items)
            for number in range(len(items)):
                self._check_item(number, items, body, memory)

    def _check_pairs(self, items: list[Json]) -> None:
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        if missing := [one for one in called if one not in answered]:
            raise Refused(400, f"No tool output found for function call {missing[0]}.")
        if strange := [one for one in answered if one not in called]:
            raise Refused(400, f"No tool call found for function call output with call_id {strange[0]}.")

    def _check_item(self, number: int, items: list[Json], body: Json, memory: Memory) -> None:
        item = items[number]
        after = items[number + 1] if number + 1 < len(items) else {}
        if item.get("type") == "reasoning":
            sealed = item.get("encrypted_content")
            if sealed is None:
                words = (
                    f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
                )
                raise Refused(404, words)
            if sealed not in memory.signed:
                words = f"The encrypted content for item {item.get('id')} could not be verified."
                raise Refused(400, words, code="invalid_encrypted_content")
            if after.get("type") not in ("function_call", "message", "reasoning") or after.get("role") == "user":
                words = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
                raise Refused(400, words)
        if item.get("type") == "function_call":
            if not isinstance(item.get("arguments"), str):
                raise Refused(400, f"Invalid type for 'input[{number}].arguments': expected a string.")
            wanted = memory.signed.get(f"item {item.get('id')}")
            before = [one.get("encrypted_content") for one in items[:number]]
            if wanted is not None and wanted not in before:
                words = (
                    f"Item '{item['id']}' of type 'function_call' was provided without its required 'reasoning' item."
                )
                raise Refused(400, words)

    def hear(self, body: Json) -> Heard:
        items = body["input"] if isinstance(body["input"], list) else []
        offered = body.get("tools", ()) if body.get("tool_choice") != "none" else ()
        return Heard(
            tools={tool["name"]: tool.get("parameters", {}) for tool in offered},
            replies=_replies(items),
            results=sum(item.get("type") == "function_call_output" for item in items),
            tokens=len(json.dumps(body)) // 4,
        )

    def _items(self, say: Say, memory: Memory) -> list[dict[str, Any]]:
        turn = memory.turns
        sealed = f"gAAAA-{turn}"
        memory.signed[sealed] = True
        summary = [{"type": "summary_text", "text": say.thinking}]
        items: list[dict[str, Any]] = [
            {"type": "reasoning", "id": f"rs_{turn}", "summary": summary, "encrypted_content": sealed}
        ]
        if say.text:
            kind = "refusal" if say.finish == "refusal" else "output_text"
            content: dict[str, Any] = {"type": kind, "refusal" if kind == "refusal" else "text": say.text}
            content |= {} if kind == "refusal" else {"annotations": []}
            message = {"type": "message", "id": f"msg_{turn}", "role": "assistant", "status": "completed"}
            items.append({**message, "content": [content]})
        for number, call in enumerate(say.calls):
            memory.signed[f"item fc_{turn}_{number}"] = sealed
            told = {"type": "function_call", "id": f"fc_{turn}_{number}", "call_id": f"call_{turn}_{number}"}
            items.append({**told, "name": call.name, "arguments": json.dumps(call.arguments), "status": "completed"})
        return items

    def _response(self, say: Say, heard: Heard, items: list[dict[str, Any]], cached: int) -> dict[str, Any]:
        usage = {
            "input_tokens": heard.tokens,
            "input_tokens_details": {"cached_tokens": min(cached, heard.tokens)},
            "output_tokens": 60,
            "output_tokens_details": {"reasoning_tokens": 40},
            "total_tokens": heard.tokens + 60,
        }
        told: dict[str, Any] = {"id": "resp_0", "object": "response", "status": "completed", "error": None}
        told["incomplete_details"] = None
        if say.finish in ("length", "content_filter"):
            reason = "max_output_tokens" if say.finish == "length" else "content_filter"
            told |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
        return {**told, "output": items, "usage": usage}

    def stream(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[bytes]:
        items = self._items(say, memory)
        response = self._response(say, heard, items, cached)
        numbers = iter(range(100_000))

        def event(kind: str, **told: object) -> bytes:
            data = json.dumps({"type": kind, "sequence_number": next(numbers), **told})
            return f"event: {kind}\ndata: {data}\n\n".encode()

        begun = {**response, "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        for index, item in enumerate(items):
            place = {"output_index": index, "item_id": item["id"]}
            empty = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
            added = {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}
            yield event("response.output_item.added", output_index=index, item=added)
            match item["type"]:
                case "reasoning":
                    part = {**place, "summary_index": 0}
                    yield event(
                        "response.reasoning_summary_part.added", **part, part={"type": "summary_text", "text": ""}
                    )
                    yield event("response.reasoning_summary_text.delta", **part, delta=say.thinking)
                    yield event("response.reasoning_summary_text.done", **part, text=say.thinking)
                case "message":
                    kind = item["content"][0]["type"]
                    part = {**place, "content_index": 0}
                    yield event(
                        "response.content_part.added",
                        **part,
                        part={**item["content"][0], kind.removeprefix("output_"): ""},
                    )
                    for piece in re.findall(r"\S+\s*", say.text):
                        yield event(f"response.{kind}.delta", **part, delta=piece)
                    yield event(f"response.{kind}.done", **part, **{kind.removeprefix("output_"): say.text})
                    yield event("response.content_part.done", **part, part=item["content"][0])
                case _:
                    text = item["arguments"]
                    for piece in (text[:7], text[7:]):
                        yield event("response.function_call_arguments.delta", **place, delta=piece)
                    yield event("response.function_call_arguments.done", **place, arguments=text)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event(f"response.{response['status']}", response=response)

    def whole(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Json:
        return self._response(say, heard, self._items(say, memory), cached)

    def error(self, refused: Refused) -> Json:
        return {"error": {"message": str(refused), "type": refused.kind, "param": None, "code": refused.code or None}}

    def error_in_stream(self, refused: Refused) -> bytes:
        told = {"type": "error", "code": refused.code or refused.kind, "message": str(refused), "param": None}
        return f"event: error\ndata: {json.dumps(told)}\n\n".encode()


def _replies(items: list[Json]) -> int:
    """Items of one reply stand side by side."""
    ours = [item.get("type") in ("reasoning", "function_call") or item.get("role") == "assistant" for item in items]
    return sum(own and not before for own, before in zip(ours, [False, *ours[:-1]], strict=True))

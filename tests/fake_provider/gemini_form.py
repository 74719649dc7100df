"""A server that speaks Gemini's own form, as strict as generation 3 about signatures and the order of turns."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fake_provider.play import Heard, Json, Memory, Refused, Say

PARAMETERS = frozenset(
    [
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "safetySettings",
        "cachedContent",
        "serviceTier",
    ]
)
CONFIG = frozenset(
    ["maxOutputTokens", "temperature", "topP", "topK", "stopSequences", "thinkingConfig", "candidateCount", "seed"]
)
PARTS = frozenset(["text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData"])
LEVELS = ("LOW", "MEDIUM", "HIGH")
STAND_INS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
FINISH = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}
INVALID = "INVALID_ARGUMENT"


class GeminiForm:
    path = re.compile(r"/v1beta/models/[\w.-]+:(?:streamGenerateContent|generateContent)")
    prefix = "/v1beta"

    def authorize(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        if "x-goog-api-key" not in headers and "key" not in query:
            words = "Method doesn't allow unregistered callers (callers without established identity)."
            raise Refused(403, words, "PERMISSION_DENIED")

    def check(self, body: Json, memory: Memory) -> None:
        _known(body, PARAMETERS, "")
        config = body.get("generationConfig", {})
        _known(config, CONFIG, " at 'generation_config'")
        thinking = config.get("thinkingConfig", {})
        if "thinkingLevel" in thinking and "thinkingBudget" in thinking:
            raise Refused(400, "You can only set only one of thinking budget and thinking level.", INVALID)
        if thinking.get("thinkingLevel", "LOW") not in LEVELS:
            words = f"Thinking level {thinking['thinkingLevel']} is not supported for this model."
            raise Refused(400, words, INVALID)
        for tool in body.get("tools", ()):
            for declared in tool.get("functionDeclarations", ()):
                if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", declared.get("name", "")):
                    words = (
                        f"Invalid function name {declared.get('name')!r}. Must start with a letter or an underscore."
                    )
                    raise Refused(400, words, INVALID)
        if "functionCallingConfig" in body.get("toolConfig", {}) and not body.get("tools"):
            raise Refused(400, "Function calling config is set without function_declarations.", INVALID)
        self._check_contents(body.get("contents", []), memory)

    def _check_contents(self, contents: list[Json], memory: Memory) -> None:
        if not contents:
            raise Refused(400, "* GenerateContentRequest.contents: contents is not specified", INVALID)
        open_calls: list[Json] = []
        begun = max((at for at, one in enumerate(contents) if _speaks(one)), default=0)
        for number, content in enumerate(contents):
            parts = content.get("parts")
            if content.get("role") not in ("user", "model"):
                raise Refused(400, "Please use a valid role: user, model.", INVALID)
            if not parts:
                words = f"* GenerateContentRequest.contents[{number}].parts: contents.parts must not be empty."
                raise Refused(400, words, INVALID)
            for part in parts:
                _known(part, PARTS, f" at 'contents[{number}].parts'")
            answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
            if len(answers) != len(open_calls):
                words = (
                    "Please ensure that the number of function response parts is equal to the number of function call "
                    "parts of the function call turn."
                )
                raise Refused(400, words, INVALID)
            for call, answer in zip(open_calls, answers, strict=True):
                if call["name"] != answer["name"] or call.get("id", "") != answer.get("id", ""):
                    raise Refused(400, f"No function call matches the function response {answer['name']}.", INVALID)
                if not isinstance(answer.get("response"), dict):
                    raise Refused(400, "Invalid value at 'function_response.response': must be a struct.", INVALID)
            calls = [part for part in parts if "functionCall" in part]
            if calls and (number == 0 or contents[number - 1]["role"] != "user"):
                words = (
                    "Please ensure that function call turn comes immediately after a user turn or after a function "
                    "response turn."
                )
                raise Refused(400, words, INVALID)
            self._check_signed(number, calls, parts, memory, required=number > begun)
            open_calls = [part["functionCall"] for part in calls]
        if open_calls:
            raise Refused(400, "Please ensure that function response turn comes after a function call turn.", INVALID)

    def _check_signed(
        self, number: int, calls: list[Json], parts: list[Json], memory: Memory, *, required: bool
    ) -> None:
        if calls and required and "thoughtSignature" not in calls[0]:
            raise Refused(
                400,
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. "
                "Additional data, "
                f"function call `{calls[0]['functionCall']['name']}` , position {number}.",
                INVALID,
            )
        for part in parts:
            signature = part.get("thoughtSignature")
            if signature is None or signature in STAND_INS:
                continue
            if memory.signed.get(signature) != part:
                raise Refused(400, "Corrupted thought signature.", INVALID)

    def hear(self, body: Json) -> Heard:
        parts = [part for content in body["contents"] for part in content["parts"]]
        calling = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode") != "NONE"
        declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]] if calling else []
        return Heard(
            tools={one["name"]: one.get("parametersJsonSchema", {}) for one in declared},
            replies=sum(content["role"] == "model" for content in body["contents"]),
            results=sum("functionResponse" in part for part in parts),
            tokens=len(json.dumps(body)) // 4,
        )

    def _parts(self, say: Say, memory: Memory) -> Iterator[dict[str, Any]]:
        yield {"text": say.thinking, "thought": True}
        yield from ({"text": piece} for piece in re.findall(r"\S+\s*", say.text))
        for number, call in enumerate(say.calls):
            told = {"id": f"fc-{memory.turns}-{number}", "name": call.name, "args": dict(call.arguments)}
            yield {"functionCall": told, **({} if number else {"thoughtSignature": f"c2ln{memory.turns:04d}"})}
        if not say.calls:
            yield {"text": "", "thoughtSignature": f"dGV4{memory.turns:04d}"}

    def _chunks(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[Json]:
        usage = {"promptTokenCount": heard.tokens, "candidatesTokenCount": 20, "thoughtsTokenCount": 40}
        usage |= {"cachedContentTokenCount": min(cached, heard.tokens), "totalTokenCount": heard.tokens + 60}
        named = {"modelVersion": "gemini-fake", "responseId": f"resp-{memory.turns}"}
        for part in self._parts(say, memory):
            if "thoughtSignature" in part:
                memory.signed[part["thoughtSignature"]] = part
            candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
            yield {"candidates": [candidate], "usageMetadata": {"promptTokenCount": heard.tokens}, **named}
        ended = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": FINISH.get(say.finish, "STOP")}
        yield {"candidates": [{**ended, "index": 0}], "usageMetadata": usage, **named}

    def stream(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Iterator[bytes]:
        yield from (_event(chunk) for chunk in self._chunks(say, heard, memory, cached))

    def whole(self, say: Say, heard: Heard, memory: Memory, cached: int) -> Json:
        chunks = list(self._chunks(say, heard, memory, cached))
        parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
        last = chunks[-1]
        candidate = {**last["candidates"][0], "content": {"role": "model", "parts": parts}}
        return {**last, "candidates": [candidate]}

    def error(self, refused: Refused) -> Json:
        return {"error": {"code": refused.status, "message": str(refused), "status": refused.kind}}

    def error_in_stream(self, refused: Refused) -> bytes:
        return _event(self.error(refused))


def _speaks(content: Json) -> bool:
    return content.get("role") == "user" and any("text" in part for part in content.get("parts", ()))


def _known(value: Json, names: frozenset[str], place: str) -> None:
    for name in value.keys() - names:
        raise Refused(
            400, f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.', "INVALID_ARGUMENT"
        )


def _event(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"

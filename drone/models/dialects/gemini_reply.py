"""Parses replies of Google's Gemini, whole or in chunks."""

from drone.agent.ports.model import ModelError
from drone.models.collected import BlockKind, Collected, PartialBlock, PartialCall, as_text
from drone.models.failures import error_inside, parsed
from drone.models.json_text import Json, object_in, text_in
from drone.models.prices import count
from drone.models.tool_specs import legal
from mcc.contracts.blocks import OpaqueBlock

SIGNATURE = "thoughtSignature"

_FINISH = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_FILTERED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "ESCALATION",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
_UNREADABLE = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
_PREFIX = "default_api."
"""Gemini's prefix for offered tools when it writes a call as a line of program code."""


def callable_name(name: str) -> str:
    """`name` as Google accepts it: not beginning with a digit or a dash."""
    legal_name = legal(name)
    return legal_name if legal_name[0].isalpha() or legal_name[0] == "_" else f"_{legal_name}"


class GeminiReply:
    """Parses chunks, or one whole body, into `collected`. Text pieces form one block, except that a signed piece
    stays a part of its own with its signature."""

    def __init__(self, name: str) -> None:
        self.collected = Collected(name)
        self._open: PartialBlock | None = None

    def event(self, name: bytes, data: bytes) -> None:
        """Take one event of the stream. Raises `ModelError` if it reports an error or is not JSON."""
        value = parsed(self.collected.name, data)
        if isinstance(value, dict):
            self._chunk(value)

    def body(self, value: object) -> None:
        """Take a whole, unstreamed reply."""
        if not isinstance(value, dict) or not value.keys() & {"candidates", "promptFeedback"}:
            raise error_inside(self.collected.name, value)
        self._chunk(value)
        self.collected.complete = True

    def end(self) -> None:
        """The answer has ended."""

    def _chunk(self, value: Json) -> None:
        collected = self.collected
        if value.get("error"):
            raise error_inside(collected.name, value)
        collected.request_id = text_in(value.get("responseId")) or collected.request_id
        self._usage(object_in(value.get("usageMetadata")))
        blocked = object_in(value.get("promptFeedback"))
        if reason := text_in(blocked.get("blockReason")):
            self._refuse(text_in(blocked.get("blockReasonMessage")) or f"The request was blocked: {reason}.")
            collected.finish_reason, collected.complete = "refusal", True
        candidates = value.get("candidates")
        if isinstance(candidates, list):
            candidate = next(
                (listed for listed in candidates if isinstance(listed, dict) and not listed.get("index")), None
            )
            if candidate is not None:
                self._candidate(candidate)

    def _candidate(self, candidate: Json) -> None:
        parts = object_in(candidate.get("content")).get("parts")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(part)
        if reason := text_in(candidate.get("finishReason")):
            self._finish(reason, text_in(candidate.get("finishMessage")))

    def _part(self, part: Json) -> None:
        if isinstance(call := part.get("functionCall"), dict):
            self._call(call, part)
        elif isinstance(text := part.get("text"), str):
            self._add("thinking" if part.get("thought") is True else "text", text, _extra(part))
        elif part:
            self._open = None
            self.collected.add_characters(as_text(part))
            self.collected.parts.append(OpaqueBlock(data=dict(part)))

    def _add(self, kind: BlockKind, text: str, extra: Json | None) -> None:
        if not text and extra is None:
            return
        block = self._open
        if block is None or block.kind != kind or extra is not None:
            block = self.collected.open(kind)
            block.extra = extra
        self._open = block if extra is None else None
        if text:
            self.collected.add(block, text)

    def _call(self, fields: Json, part: Json) -> None:
        self._open = None
        name = text_in(fields.get("name"))
        ours = name[1:] if name.startswith("_") and callable_name(name[1:] or "_") == name else name
        call = self.collected.call(PartialCall(text_in(fields.get("id")), ours))
        call.extra = _extra(part)
        arguments = fields.get("args")
        if isinstance(arguments, dict):
            call.whole = arguments
        elif arguments is not None:
            call.pieces.append(arguments if isinstance(arguments, str) else as_text(arguments))
        if arguments is not None:
            self.collected.add_characters(as_text(arguments))

    def _refuse(self, words: str) -> None:
        self.collected.add(self.collected.open("refusal"), words)

    def _finish(self, reason: str, words: str) -> None:
        """Set the finish reason. Raises `ModelError` if the provider could not parse what its model wrote and no call
        can be recovered."""
        collected = self.collected
        if reason in _UNREADABLE and not collected.calls:
            self._unreadable(reason, words)
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ModelError(f"{collected.name} refuses the conversation: {words or reason}", status=400)
        if reason in _FILTERED:
            collected.finish_reason = "content_filter"
            if words:
                self._refuse(words)
        else:
            collected.finish_reason = "tool_calls" if reason in _UNREADABLE else _FINISH.get(reason, "other")
        collected.complete = True

    def _unreadable(self, reason: str, words: str) -> None:
        """Keep a call written as program code as a call whose arguments are no JSON: the model is told so and calls
        again."""
        _, prefix, line = words.partition(_PREFIX)
        name, opened, rest = line.partition("(")
        if not prefix or not opened or legal(name.strip()) != name.strip():
            raise ModelError(
                f"{self.collected.name} wrote a tool call that its provider could not read ({reason}).", retryable=True
            )
        call = self.collected.call(PartialCall("", name.strip()))
        call.pieces.append(rest)
        self.collected.add_characters(rest)

    def _usage(self, usage: Json) -> None:
        """Google counts thoughts beside the output; ours includes them. Later figures replace earlier ones."""
        spent = self.collected.spent
        taken = count(usage.get("promptTokenCount"))
        if taken is not None:
            spent.input = taken + (count(usage.get("toolUsePromptTokenCount")) or 0)
            spent.cached = count(usage.get("cachedContentTokenCount")) or 0
        spoken, thought = count(usage.get("candidatesTokenCount")), count(usage.get("thoughtsTokenCount"))
        if spoken is not None or thought is not None:
            spent.reasoning = spent.reasoning if thought is None else thought
            spent.output = (spoken or 0) + spent.reasoning


def _extra(part: Json) -> Json | None:
    signature = part.get(SIGNATURE)
    return {SIGNATURE: signature} if isinstance(signature, str) and signature else None

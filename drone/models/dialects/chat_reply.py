"""Replies in the format of OpenAI's chat completions, whole or in chunks, from any server."""

from collections.abc import Iterable, Mapping
from typing import cast

from drone.models.collected import Collected, Growing, Passage, PassageKind, as_text
from drone.models.failures import parsed, told_inside
from drone.models.prices import count

Json = Mapping[str, object]

_FINISH = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_BROKEN_OFF = frozenset({"error", "insufficient_system_resource"})
_NOTHING: Json = {}


class ChatReply:
    """Takes chunks, or one whole body, into `collected`."""

    def __init__(self, name: str) -> None:
        self.collected = Collected(name)
        self._passages: dict[PassageKind, Passage] = {}
        self._by_index: dict[int, Growing] = {}
        self._by_id: dict[str, Growing] = {}

    def event(self, name: bytes, data: bytes) -> None:
        """One event of the stream. Raises `ModelError` when it tells of an error, or is no JSON."""
        if data == b"[DONE]":
            self.collected.complete = self.collected.closed = True
            return
        value = parsed(self.collected.name, data)
        if name == b"error":
            raise told_inside(self.collected.name, value)
        if isinstance(value, dict):
            self._chunk(value, "delta")

    def body(self, value: object) -> None:
        """A whole, unstreamed reply."""
        collected = self.collected
        if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
            raise told_inside(collected.name, value)
        self._chunk(value, "message")
        collected.complete = bool(value["choices"])

    def end(self) -> None:
        """Nothing more will come."""

    def _say(self, kind: PassageKind, text: str) -> None:
        """Chunks of this form bring pieces of several kinds by turns: all of one kind are one passage."""
        passage = self._passages.get(kind)
        if passage is None:
            passage = self._passages[kind] = self.collected.open(kind)
        self.collected.add(passage, text)

    def _chunk(self, value: Json, part: str) -> None:
        choices = value.get("choices")
        if value.get("error") or (choices is None and value.get("object") == "error"):
            raise told_inside(self.collected.name, value)
        if choices and isinstance(choices, list):
            choice = next((one for one in choices if isinstance(one, dict) and not one.get("index")), None)
            if choice is not None:
                self._choice(choice, value, part)
        usage = value.get("usage")
        if usage:
            self._usage(usage)

    def _choice(self, choice: Json, value: Json, part: str) -> None:
        delta = choice.get(part) or choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta, whole=part == "message")
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            if finish in _BROKEN_OFF:
                raise told_inside(self.collected.name, choice)
            self.collected.finish_reason = _FINISH.get(finish, "other")
            self.collected.complete = True

    def _delta(self, delta: Json, *, whole: bool) -> None:
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                self._say("text", content)
            elif isinstance(content, list):
                self._parts(content)
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking and isinstance(thinking, str):
            self._say("thinking", thinking)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._say("refusal", refusal)
        former = delta.get("function_call")
        if isinstance(former, dict):
            self._fragment({"index": 0, "function": former}, whole=whole)
        calls = delta.get("tool_calls")
        if calls and isinstance(calls, list):
            for fragment in calls:
                if isinstance(fragment, dict):
                    self._fragment(fragment, whole=whole)

    def _parts(self, parts: Iterable[object]) -> None:
        """Content as a list: texts, and for some servers the thinking."""
        for part in parts:
            if isinstance(part, str):
                self._say("text", part)
            elif isinstance(part, dict):
                text, refusal, inner = part.get("text"), part.get("refusal"), part.get("thinking")
                if isinstance(text, str):
                    self._say("text", text)
                elif isinstance(refusal, str):
                    self._say("refusal", refusal)
                elif isinstance(inner, str):
                    self._say("thinking", inner)
                elif isinstance(inner, list):
                    self._say("thinking", "".join(_texts(inner)))

    def _fragment(self, fragment: Json, *, whole: bool) -> None:
        function = fragment.get("function")
        told = cast(Json, function) if isinstance(function, dict) else fragment
        name, provider_id = _text(told.get("name")), _text(fragment.get("id"))
        call = self._new(fragment, provider_id) if whole else self._belongs_to(fragment, name, provider_id)
        if name and name != call.name:
            call.name += name
        call.provider_id = call.provider_id or provider_id
        given = told.get("arguments")
        if isinstance(given, dict):
            call.whole = given
            self.collected.grow(as_text(given))
        elif given is not None:
            text = given if isinstance(given, str) else as_text(given)
            call.pieces.append(text)
            self.collected.grow(text)

    def _belongs_to(self, fragment: Json, name: str, provider_id: str) -> Growing:
        """The call that a fragment continues: by index, else by id, else the last one; or a new one.

        Some servers number all calls 0, some give every fragment an id of its own, some repeat the name: a fragment
        with a name begins a new call when its id is another's, or when the call so far has whole arguments.
        """
        index = fragment.get("index")
        if isinstance(index, int):
            known = self._by_index.get(index)
        elif provider_id:
            known = self._by_id.get(provider_id)
            if known is None and not name and self.collected.calls:
                known = self.collected.calls[-1]
        else:
            known = self.collected.calls[-1] if self.collected.calls else None
        if known is None or (name and self._is_another(known, name, provider_id)):
            return self._new(fragment, provider_id)
        return known

    def _is_another(self, known: Growing, name: str, provider_id: str) -> bool:
        if provider_id and known.provider_id:
            return provider_id != known.provider_id
        return known.is_whole() or (bool(known.pieces) and any(known.pieces) and name != known.name)

    def _new(self, fragment: Json, provider_id: str) -> Growing:
        call = self.collected.call(Growing(provider_id))
        index = fragment.get("index")
        if isinstance(index, int):
            self._by_index[index] = call
        if provider_id:
            self._by_id[provider_id] = call
        return call

    def _usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        spent = self.collected.spent
        taken, given = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
        spent.input = spent.input if taken is None else taken
        cached = _within(usage, "prompt_tokens_details", "cached_tokens")
        spent.cached = cached or count(usage.get("prompt_cache_hit_tokens")) or spent.cached
        spent.reasoning = _within(usage, "completion_tokens_details", "reasoning_tokens") or spent.reasoning
        if given is not None:
            spent.output = given
            if taken is not None and usage.get("total_tokens") == taken + given + spent.reasoning:
                spent.output += spent.reasoning


def _within(usage: Json, group: str, name: str) -> int:
    details = usage.get(group)
    return (count(details.get(name)) or 0) if isinstance(details, dict) else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(parts: Iterable[object]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            yield _text(part.get("text"))

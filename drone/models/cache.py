"""A model wrapper that caches replies in memory and answers identical questions from the cache."""

import hashlib
from collections import OrderedDict
from dataclasses import replace

from drone.agent.ports.model import Ask, Listener, Model, ModelWrapper, Reply
from mcc.contracts.shape import to_json
from mcc.contracts.similar import hints_keywords
from mcc.contracts.usage import Usage

MOST_REPLIES = 1_000
MOST_CHARACTERS = 20_000_000
"""Characters of all cached replies together; the least recently used are dropped first."""

CACHED_REASONS = frozenset({"stop", "tool_calls"})
"""Finish reasons of replies worth caching. Other replies were cut off, filtered or refused; asking again may do
better."""

CACHED = "cached:"
"""Prefix of `Reply.request_id` for a reply from the cache: no provider was asked and nothing was spent."""


@hints_keywords
class CachedModel(ModelWrapper):
    """Caches by model, system prompt, messages, tools and settings. Errors are never cached. The cache lives in this
    process only.

    Tool results stand in fences whose marks differ from order to order. So the questions after a tool call are found
    again by a run that repeats or resumes, but rarely by another order.
    """

    def __init__(
        self, model: Model, *, most_replies: int = MOST_REPLIES, most_characters: int = MOST_CHARACTERS
    ) -> None:
        super().__init__(model)
        self._most_replies = most_replies
        self._most_characters = most_characters
        self._cached: OrderedDict[str, tuple[Reply, int]] = OrderedDict()
        self._characters = 0

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        question = question_hash(self._model.name, ask)
        if (cached := self._cached.get(question)) is not None:
            self._cached.move_to_end(question)
            return _replayed(cached[0], question, listener)
        reply = await self._model.ask(ask, listener)
        if reply.finish_reason in CACHED_REASONS:
            self._store(question, reply)
        return reply

    def _store(self, question: str, reply: Reply) -> None:
        size = len(repr(reply.blocks))
        self._forget(question)
        if size > self._most_characters:
            return
        self._cached[question] = reply, size
        self._characters += size
        while len(self._cached) > self._most_replies or self._characters > self._most_characters:
            self._forget(next(iter(self._cached)))

    def _forget(self, question: str) -> None:
        cached = self._cached.pop(question, None)
        self._characters -= cached[1] if cached else 0


def question_hash(model: str, ask: Ask) -> str:
    """SHA-256 (hex) of everything a reply may depend on. Time and the identity of the asking agent are left out."""
    tools = [(tool.name, tool.description, tool.parameters) for tool in ask.tools]
    settings = (ask.tool_choice, ask.max_output_tokens, ask.temperature, ask.thinking, ask.service_tier)
    asked = hashlib.sha256(to_json((model, ask.system, tools, settings)))
    for message in ask.messages:
        asked.update(repr(message).encode("utf-8", "surrogatepass"))
    return asked.hexdigest()


def _replayed(reply: Reply, question: str, listener: Listener) -> Reply:
    if reply.thinking:
        listener.delta("thinking.delta", reply.thinking)
    if reply.text:
        listener.delta("model.delta", reply.text)
    return replace(reply, usage=Usage(), first_token_ms=0.0, request_id=f"{CACHED}{question[:16]}", streamed=False)

"""A cache of replies: a model around a model that gives the reply of before to exactly the same question."""

import hashlib
from collections import OrderedDict
from dataclasses import replace

from drone.agent.model import AroundModel, Ask, Listener, Model, Reply
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage

MOST_REPLIES = 1_000
MOST_CHARACTERS = 20_000_000
"""Of all replies that are kept; the oldest go first."""

WHOLE = frozenset({"stop", "tool_calls"})
"""Replies that ended so are kept; others were cut off, filtered or refused, and another one may be better."""

CACHED = "cached:"
"""`Reply.request_id` of a reply from the cache begins so: no provider was asked, and nothing was spent."""


class CachedModel(AroundModel):
    """Same model, system prompt, messages, tools and settings: same reply. Errors are never kept.

    Results of tools stand in their fences, whose marks differ from order to order: so what comes after a tool call is
    found again by a run that is repeated or goes on, less by another order. In the memory of this process only.
    """

    def __init__(
        self, model: Model, *, most_replies: int = MOST_REPLIES, most_characters: int = MOST_CHARACTERS
    ) -> None:
        super().__init__(model)
        self._most_replies = most_replies
        self._most_characters = most_characters
        self._kept: OrderedDict[str, tuple[Reply, int]] = OrderedDict()
        self._characters = 0

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        question = question_of(self._model.name, ask)
        if (known := self._kept.get(question)) is not None:
            self._kept.move_to_end(question)
            return _replayed(known[0], question, listener)
        reply = await self._model.ask(ask, listener)
        if reply.finish_reason in WHOLE:
            self._keep(question, reply)
        return reply

    def _keep(self, question: str, reply: Reply) -> None:
        size = len(repr(reply.blocks))
        self._forget(question)
        if size > self._most_characters:
            return
        self._kept[question] = reply, size
        self._characters += size
        while len(self._kept) > self._most_replies or self._characters > self._most_characters:
            self._forget(next(iter(self._kept)))

    def _forget(self, question: str) -> None:
        known = self._kept.pop(question, None)
        self._characters -= known[1] if known else 0


def question_of(model: str, ask: Ask) -> str:
    """The SHA-256 (hex) of all that a reply may depend on: neither times nor whose question it is."""
    tools = [(tool.name, tool.description, tool.parameters) for tool in ask.tools]
    settings = (ask.max_output_tokens, ask.temperature, ask.thinking, ask.service_tier)
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

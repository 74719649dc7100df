"""Paused replies: a model around a model that sends a reply which its provider paused back as it is, and goes on."""

from dataclasses import replace

from drone.agent.messages import AssistantMessage
from drone.agent.model import Ask, Listener, Model, Reply, WantedCall, context_tokens

PAUSED = "paused"
"""Finish reason of a reply that is to be sent back unchanged for its rest."""

MOST_PAUSES = 8
"""Of one reply. What is longer counts as cut off, and whoever asked decides."""


class Unpaused:
    """A provider pauses long replies in which its own tools work; what follows belongs to the same reply."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_tokens(self) -> int | None:
        return context_tokens(self._model)

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        reply = await self._model.ask(ask, listener)
        for _ in range(MOST_PAUSES):
            if reply.finish_reason != PAUSED or reply.tool_calls:
                return reply
            said = AssistantMessage(tuple(one for one in reply.blocks if not isinstance(one, WantedCall)), self.name)
            more = await self._model.ask(replace(ask, messages=(*ask.messages, said)), listener)
            reply = replace(
                more,
                blocks=(*reply.blocks, *more.blocks),
                usage=reply.usage.plus(more.usage),
                first_token_ms=reply.first_token_ms,
            )
        return replace(reply, finish_reason="length") if reply.finish_reason == PAUSED else reply

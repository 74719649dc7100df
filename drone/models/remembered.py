"""This room is for a model that remembers: the same question again is answered from memory, without paying twice."""

from collections import OrderedDict
from dataclasses import replace

from drone.agent.messages import AssistantMessage, Message, ToolResults
from drone.agent.ports import Ask, Listener, Model, Reply
from mcc.contracts.fence import unfenced
from mcc.contracts.shape import digest
from mcc.contracts.usage import Usage


class Remembering:
    """Keeps the last `most` replies of a model. A remembered reply is streamed as one piece and costs nothing."""

    def __init__(self, model: Model, *, most: int = 1_000) -> None:
        self._model = model
        self._most = most
        self._replies: OrderedDict[str, Reply] = OrderedDict()

    @property
    def name(self) -> str:
        return self._model.name

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        question = _digest(ask)
        known = self._replies.get(question)
        if known is None:
            known = self._replies[question] = await self._model.ask(ask, listener)
            if len(self._replies) > self._most:
                self._replies.popitem(last=False)
            return known
        self._replies.move_to_end(question)
        if known.text:
            listener.delta("model.delta", known.text)
        return replace(known, usage=Usage(), first_token_ms=0.0)


def _digest(ask: Ask) -> str:
    tools = [(spec.name, spec.description, spec.parameters) for spec in ask.tools]
    asked = (ask.system, [_told(message) for message in ask.messages], tools, ask.max_output_tokens, ask.temperature)
    return digest([*asked, ask.thinking])


def _told(message: Message) -> object:
    """What a message says, without the ids of calls, which differ from run to run."""
    match message:
        case AssistantMessage():
            return ["assistant", message.text, [(call.name, call.arguments) for call in message.tool_calls]]
        case ToolResults():
            return ["tools", [(result.name, unfenced(result.content)) for result in message.results]]
        case _:
            return ["user", message.text]

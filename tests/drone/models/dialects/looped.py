"""An agent with one tool whose model is a server of prepared streams, one per request; records the requests."""

import json
from itertools import pairwise
from typing import Any

import httpx

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.report import Report
from drone.models.dialects.chat import ChatCompletions
from drone.models.remote import ModelEndpoint, Remote
from drone.tools.frame.tool import FunctionTools, tool
from mcc.configuration.providers import provider
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import fresh_id
from mcc.contracts.model_facts import ModelReplied
from tests.drone.models.conftest import Provider, streamed
from tests.drone.models.loopback import Loopback


@tool(idempotent=True)
async def double(number: int, why: str = "") -> str:
    """Twice a number.

    Args:
        number: what to double.
        why: for whom.
    """
    return str(number * 2)


def called(*calls: tuple[str, str], **delta: object) -> dict[str, object]:
    """A chunk with whole calls of `double`: (id, arguments)."""
    told = [
        {"index": number, "id": one, "type": "function", "function": {"name": "double", "arguments": arguments}}
        for number, (one, arguments) in enumerate(calls)
    ]
    return {"choices": [{"index": 0, "delta": {**delta, "tool_calls": told}, "finish_reason": None}]}


class StreamedAgent:
    """`name` is a provider's name. The first stream makes a call, the last one answers."""

    def __init__(self, name: str, *streams: bytes | httpx.Response, model: str = "m", **endpoint: Any) -> None:
        row = provider(name)
        assert row is not None
        answers = (one if isinstance(one, httpx.Response) else streamed(one) for one in streams)
        self.server = Provider(*answers)
        self.journal = MemoryJournal(fresh_id())
        own = row.base_url or f"https://mine.{row.other_hosts[0].replace('*', 'eu-west-1')}/openai/v1"
        known = {"base_url": own, "key": "sk-key-0123456789"}
        asked = ModelEndpoint(**{"name": f"{name}/{model}", "provider": name, "model": model, **known, **endpoint})
        self._model = Remote(asked, ChatCompletions(asked), Loopback(self.server))

    async def run(self, prompt: str = "Double 21.", **definition: Any) -> Report:
        told = AgentDefinition(name="worker", prompt="You double numbers.", **definition)
        agent = AgentRuntime(told, model=self._model, tools=FunctionTools([double]))
        return await agent.run(prompt, agent.turn(self.journal))

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.server.requests]

    @property
    def replies(self) -> list[ModelReplied]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, ModelReplied)]

    def sent_back(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """From the last request: the reply with the calls, and the messages after it."""
        messages = self.bodies[-1]["messages"]
        number = max(number for number, message in enumerate(messages) if message.get("tool_calls"))
        return messages[number], messages[number + 1 :]

    def keeps_its_beginning(self) -> bool:
        """Whether each request begins with the messages of the previous one, in the same bytes except for cache
        marks."""
        requests = [request.content.replace(b',"cache_control":{"type":"ephemeral"}', b"") for request in self.requests]
        return all(later.startswith(_messages(earlier)) for earlier, later in pairwise(requests))

    @property
    def requests(self) -> list[httpx.Request]:
        return self.server.requests


def _messages(body: bytes) -> bytes:
    return body[: body.index(b'],"tools":')]

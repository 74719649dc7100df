"""Network doubles: a provider that answers with given bytes, and a listener that records."""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import Ask, Bill, Model, ModelError, Reply
from drone.models.dialects.anthropic import anthropic_model
from drone.models.dialects.chat import openai_model
from drone.models.dialects.gemini import gemini_model
from drone.models.dialects.responses import responses_model
from drone.models.remote import ModelEndpoint
from mcc.contracts.usage import Usage
from mcc.transcript.messages import Message, ToolSpec, UserMessage
from tests.drone.models.loopback import Loopback

KEY = "sk-very-secret-key-0123456789"


@dataclass
class RecordingListener:
    """Records everything a listener is told."""

    deltas: list[tuple[str, str]] = field(default_factory=list)
    calls: list[tuple[object, str]] = field(default_factory=list)
    retries: list[tuple[str, float]] = field(default_factory=list)
    fallbacks: list[tuple[str, str, str]] = field(default_factory=list)
    not_told: list[str] = field(default_factory=list)
    bill: Bill = field(default_factory=Bill)

    def delta(self, kind: str, text: str, call: object = None) -> None:
        if kind == "tool_call.delta":
            self.calls.append((call, text))
        else:
            self.deltas.append((kind, text))

    async def retried(self, error: str, wait_seconds: float) -> None:
        self.retries.append((error, wait_seconds))

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self.fallbacks.append((source, target, error))

    async def not_sent(self, what: str) -> None:
        self.not_told.append(what)

    def billed(self, usage: Usage) -> None:
        self.bill.add(usage)

    async def go_ahead(self) -> None:
        pass

    def heard(self, kind: str = "model.delta") -> str:
        return "".join(text for told, text in self.deltas if told == kind)


class Pieces(httpx.AsyncByteStream):
    """A body in pieces that may end in an error. Records whether it was closed."""

    def __init__(self, pieces: Iterable[bytes], error: Exception | None = None) -> None:
        self._pieces = pieces
        self._error = error
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        self.closed = True


Answering = Callable[[httpx.Request], httpx.Response]


class Provider(httpx.AsyncBaseTransport):
    """Gives its answers in order, repeating the last one; records the requests."""

    def __init__(self, *answers: httpx.Response | Exception | Answering) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(404)
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    @property
    def body(self) -> Any:
        """The JSON of the last request."""
        return json.loads(self.requests[-1].content)


def streamed(
    *pieces: bytes, error: Exception | None = None, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    kind = {"content-type": "text/event-stream; charset=utf-8"}
    return httpx.Response(200, headers={**kind, **(headers or {})}, stream=Pieces(pieces, error))


def sse(*events: object) -> bytes:
    """Server-sent events in the format of chat completions; a string is sent as it is."""
    lines = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def named_sse(*events: Mapping[str, object]) -> bytes:
    """Server-sent events in the format of the Messages API, with names."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def chunk(finish: str | None = None, **delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def asking(*messages: Message, tools: Sequence[ToolSpec] = (), system: str = "Be brief.", **more: Any) -> Ask:
    return Ask(system, messages or (UserMessage("Hello"),), tuple(tools), **more)


@dataclass
class Bench:
    """Everything that a test of a wire format needs."""

    listener: RecordingListener = field(default_factory=RecordingListener)

    def openai(self, provider: Provider, /, **endpoint: Any) -> Model:
        known = {"name": "openai/m", "model": "m", "base_url": "https://models.test/v1", "key": KEY}
        return openai_model(ModelEndpoint(**{**known, "key_name": "MY_KEY", **endpoint}), Loopback(provider))

    def responses(self, provider: Provider, /, **endpoint: Any) -> Model:
        known = {"name": "openai/m", "model": "m", "base_url": "https://models.test/v1", "key": KEY}
        return responses_model(ModelEndpoint(**{**known, "key_name": "MY_KEY", **endpoint}), Loopback(provider))

    def anthropic(self, provider: Provider, /, **endpoint: Any) -> Model:
        known = {"name": "anthropic/m", "model": "claude-sonnet-4-5", "base_url": "https://models.test", "key": KEY}
        return anthropic_model(ModelEndpoint(**{**known, "key_name": "MY_KEY", **endpoint}), Loopback(provider))

    def gemini(self, provider: Provider, **endpoint: Any) -> Model:
        known = {"name": "gemini/m", "model": "gemini-3.1-pro", "base_url": "https://models.test/v1beta", "key": KEY}
        return gemini_model(ModelEndpoint(**{**known, "key_name": "MY_KEY", **endpoint}), Loopback(provider))

    async def chat(self, *pieces: bytes, ask: Ask | None = None, **endpoint: Any) -> Reply:
        """The reply to a stream of chat completions made of these pieces."""
        return await self.openai(Provider(streamed(*pieces)), **endpoint).ask(ask or asking(), self.listener)

    async def message(self, *pieces: bytes, ask: Ask | None = None, **endpoint: Any) -> Reply:
        """The reply to a stream of Messages made of these pieces."""
        return await self.anthropic(Provider(streamed(*pieces)), **endpoint).ask(ask or asking(), self.listener)

    async def refused(self, model: Model, ask: Ask | None = None) -> ModelError:
        with pytest.raises(ModelError) as caught:
            await model.ask(ask or asking(), self.listener)
        return caught.value

    Provider = Provider
    Pieces = Pieces
    RecordingListener = RecordingListener
    streamed = staticmethod(streamed)
    sse = staticmethod(sse)
    named_sse = staticmethod(named_sse)
    chunk = staticmethod(chunk)
    asking = staticmethod(asking)
    key = KEY


@pytest.fixture
def bench() -> Bench:
    return Bench()

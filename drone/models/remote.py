"""Models over the network: one request, its answer read while it arrives, one deadline."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Literal, Protocol

from pydantic import SecretStr

from drone.agent.ports.model import Ask, ContextOverflow, Listener, ModelError, Reply
from drone.models.body import (
    AT_FAULT,
    MAX_EVENT_BYTES,
    Event,
    EventStreamParser,
    TooLarge,
    body_of,
    is_page,
    unreadable_thinking,
    with_readable_pictures,
)
from drone.models.collected import Collected
from drone.models.failures import UsedKey, parsed, refused
from drone.models.prices import UNKNOWN, KnownModel, TokenPrices
from drone.models.providers import KeyCommand, address_problem
from drone.models.refused_pictures import judged
from drone.models.server_window import ServerWindow
from drone.models.transport import Answer, ModelWire, ProviderUnreachable, Target
from drone.models.window_questions import ELSEWHERE, QUESTIONS, WindowQuestion
from mcc.configuration.providers import OPENAI
from mcc.contracts.order import Thinking
from mcc.transcript.pictures import NO_LIMITS, NO_PICTURES, PictureLimits

FIRST_TOKEN_SECONDS = 300.0
STALL_SECONDS = 120.0

LAST_BYTES_SECONDS = 1.0
"""Time for the rest of an answer once the reply is complete; a connection that takes longer is cut."""

KEY_REFUSED = (401, 403)
"""Statuses of a rejected key; Amazon answers an expired one with 403."""

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_ERROR_BYTES = 8 * 1024
"""Bytes read of an error answer; the rest is not waited for."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Longest silences of a streaming provider in seconds: before the first token, and between pieces after it.
    `call_seconds`: limit for a whole call, None = the time that the asking agent has."""

    first_token_seconds: float = FIRST_TOKEN_SECONDS
    stall_seconds: float = STALL_SECONDS
    call_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model at a provider. Raises ValueError for a `base_url` that no key may be sent to."""

    name: str
    """`provider/model`, as people know it."""
    model: str
    """The provider's own name for it."""
    base_url: str
    key: str = field(default="", repr=False)
    """May be empty."""
    key_name: str = ""
    """The environment variable that holds the key, for sentences; `withheld` holds one that is for other addresses."""
    withheld: str = ""
    key_command: KeyCommand | None = field(default=None, repr=False)
    """Prints the key if no other is configured."""
    provider: str = ""
    """Its entry in `mcc.configuration.providers`, which selects the differences from its wire form."""
    alias: str = ""
    """Its name in the configuration, for sentences."""
    stream: bool = True
    max_output_tokens: int | None = None
    """The user's figure, like `context_tokens`."""
    context_tokens: int | None = None
    known: KnownModel = UNKNOWN
    """The figures of the table of models."""
    pictures: PictureLimits = NO_LIMITS
    thinking: Thinking = "inherit"
    """Applies if an ask sets none, like `temperature`."""
    temperature: float | None = None
    allow_http: bool = False
    """`base_url` may be http on another machine."""
    proxy: str | None = None
    """Empty for none, None = that of the wire."""
    price: TokenPrices | None = None
    extra_body: Mapping[str, object] = field(default_factory=dict)
    """Added last to every request, like `extra_headers`, replacing what has the same name."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache_ttl: Literal["5m", "1h"] = "5m"
    """How long prompts stay cached at a provider that offers a choice."""
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        if problem := address_problem(self.base_url, allow_http=self.allow_http):
            raise ValueError(f"The model {self.name} cannot be used: {problem}.")

    @property
    def has_key(self) -> bool:
        return bool(self.key) or self.key_command is not None

    def completed(self, ask: Ask) -> Ask:
        """The ask, completed with this model's own settings where it leaves them open."""
        thinking = self.thinking if ask.thinking == "inherit" else ask.thinking
        temperature = self.temperature if ask.temperature is None else ask.temperature
        same = (thinking, temperature) == (ask.thinking, ask.temperature)
        return ask if same else replace(ask, thinking=thinking, temperature=temperature)


class Watchdog:
    """Ends a call whose provider is silent for too long before the first token or between two later pieces.

    A reply that is not streamed is bounded by its own time limit alone.
    """

    def __init__(self, name: str, endpoint: ModelEndpoint) -> None:
        self._name = name
        self._timeouts = endpoint.timeouts
        self._first = endpoint.timeouts.first_token_seconds if endpoint.stream else math.inf
        self._begun = False
        self._scope = asyncio.timeout(self._first if endpoint.stream else None)

    def extend(self) -> None:
        """Report a piece of the reply, at or after the first token; restarts the timer."""
        self._begun = True
        self._scope.reschedule(asyncio.get_running_loop().time() + self._timeouts.stall_seconds)

    async def __aenter__(self) -> "Watchdog":
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError as late:
            raise ProviderUnreachable(f"{self._name} {self._said()}.", retryable=True) from late

    def _said(self) -> str:
        if self._begun:
            return f"fell silent for {self._timeouts.stall_seconds:g} seconds in the middle of its reply"
        return f"said nothing for {self._first:g} seconds"


class ReplyParser(Protocol):
    """Parses a reply in one provider's format into `collected`."""

    @property
    def collected(self) -> Collected: ...

    def event(self, name: bytes, data: bytes) -> None:
        """Take one event of a stream. Raises `ModelError`."""

    def body(self, value: object) -> None:
        """Take the JSON of a whole answer. Raises `ModelError`."""

    def end(self) -> None:
        """The answer has ended."""


class WireFormat(Protocol):
    """What differs between wire formats."""

    def target(self, key: str) -> Target:
        """Where requests go; `key` is empty if none is needed."""

    def not_sent(self, ask: Ask, without: frozenset[str]) -> Iterable[str]:
        """Sentences for people: settings of this ask that the request omits or approximates."""

    def body(self, ask: Ask, without: frozenset[str]) -> Iterator[bytes]:
        """The request in pieces, without the optional parameters in `without`."""

    def refused_parameter(self, ask: Ask, without: frozenset[str], words: str) -> str | None:
        """The optional parameter of this request that the provider's words complain about; None for none."""

    def parser(self, ask: Ask) -> ReplyParser:
        """The parser for the reply to this request."""


class Remote:
    """A model over the network. Parameters that its provider refused once are not sent again.

    `asks_window`: a self-hosted server is asked for its context size during its first call.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        form: WireFormat,
        wire: ModelWire,
        *,
        asks_window: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._endpoint = endpoint
        self.cache_seconds = 3_600 if endpoint.cache_ttl == "1h" else endpoint.known.cache_seconds
        self._format = form
        self._wire = wire
        self._clock, self._wall = clock, wall
        self._use_key(endpoint.key)
        self._without: frozenset[str] = frozenset()
        self._stated_window: int | None = None
        questions = _questions(endpoint) if asks_window else ()
        self._server = ServerWindow(questions, endpoint.base_url, endpoint.model, wire)

    def _use_key(self, key: str) -> None:
        """Use this key from now on."""
        endpoint, self._key = self._endpoint, SecretStr(key)
        target = self._format.target(key).with_headers(endpoint.extra_headers).with_proxy(endpoint.proxy)
        self._target = target.with_alias(endpoint.alias)

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def endpoint(self) -> ModelEndpoint:
        """The model's configuration and known facts."""
        return self._endpoint

    @property
    def context_tokens(self) -> int | None:
        """The size that the server stated when a request was too large; else the user's figure; else the smaller of the
        table's and the server's."""
        listed = min(filter(None, (self._endpoint.known.context_tokens, self._server.tokens)), default=None)
        return self._stated_window or self._endpoint.context_tokens or listed

    @property
    def picture_limits(self) -> PictureLimits:
        return self._endpoint.pictures if self._endpoint.known.images else NO_PICTURES

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        ask = self._endpoint.completed(ask)
        seconds = ask.seconds if self._endpoint.stream else min(ask.seconds, ask.call_seconds)
        seconds = min(seconds, self._endpoint.timeouts.call_seconds or math.inf)
        try:
            async with asyncio.timeout(seconds):
                return await self._asked(ask, listener)
        except TimeoutError as late:
            said = f"{self.name} did not finish within {seconds:g} seconds."
            raise ModelError(said, retryable=True) from late

    async def _asked(self, ask: Ask, listener: Listener) -> Reply:
        """Ask again where that helps: once with a new key, and without each parameter that the server refuses."""
        for omission in unreadable_thinking(ask.messages, self.name):
            await listener.not_sent(omission)
        keys, may_renew = self._endpoint.key_command, True
        while True:
            if keys is not None and (key := await keys.key()) != self._key.get_secret_value():
                self._use_key(key)
            # Read once: other calls of this model leave more out meanwhile.
            without = self._without
            sendable = await self._sendable(ask, without, listener)
            try:
                return await self._attempt(sendable, listener, without)
            except ModelError as error:
                if keys is not None and error.status in KEY_REFUSED and may_renew:
                    keys.refused(key)
                    may_renew = False
                    await listener.retried(f"{error} Asking again with a new key.", 0.0)
                    continue
                refused = self._format.refused_parameter
                parameter = refused(sendable, without, str(error)) if error.status in AT_FAULT else None
                if parameter is None:
                    if isinstance(error, ContextOverflow):
                        self._stated_window = error.window or self._stated_window
                    raise judged(sendable, self.name, error, self._format.body(sendable, without)) from error.__cause__
                # From now on for every call of this model: the server would refuse it each time.
                self._without |= {parameter}
                await listener.retried(f"{error} Asking again without {parameter}.", 0.0)

    async def _sendable(self, ask: Ask, without: frozenset[str], listener: Listener) -> Ask:
        """The request without the pictures that the model cannot take; tells the listener what is not sent. Raises
        `TooManyPictures`."""
        sendable, unseen = with_readable_pictures(ask, self._endpoint.name, self.picture_limits)
        for omission in (*([unseen] if unseen else []), *self._format.not_sent(sendable, without)):
            await listener.not_sent(omission)
        return sendable

    async def _attempt(self, ask: Ask, listener: Listener, without: frozenset[str]) -> Reply:
        body, parser = body_of(partial(self._format.body, ask, without)), self._format.parser(ask)
        size, asked_at = len(body), self._clock()
        try:
            async with self._server.during_call(self._target) as query, Watchdog(self.name, self._endpoint) as timer:
                posting = self._wire.post(self._target, body)
                del body  # The wire frees it as soon as it is sent; an answer may take minutes.
                answer = await posting
                try:
                    if answer.status != 200:
                        raise await self._refusal(answer)
                    parser.collected.request_id = answer.request_id
                    query.answer_begun()
                    first_at = await self._read(answer, parser, listener, timer)
                finally:
                    await answer.close()
            parser.end()
            parser.collected.pass_on(listener)
            return self._reply(parser, ask, size, None if first_at is None else first_at - asked_at)
        except BaseException:  # cancelled calls too: the provider bills what it has streamed
            if (usage := parser.collected.usage_if_interrupted(self._endpoint.price, size)) is not None:
                listener.billed(usage)
            raise

    def _reply(self, parser: ReplyParser, ask: Ask, request_bytes: int, first_seconds: float | None) -> Reply:
        collected = parser.collected
        if not collected.complete:
            raise ModelError(f"{self.name} ended its reply in the middle.", retryable=True)
        first_ms = None if first_seconds is None else round(first_seconds * 1000, 3)
        tools = [tool.name for tool in ask.tools] if collected.calls else ()
        usage = collected.spent.usage(self._endpoint.price, request_bytes, collected.characters)
        return collected.reply(tools, usage, first_ms, self.context_tokens)

    async def _read(self, answer: Answer, parser: ReplyParser, listener: Listener, timer: Watchdog) -> float | None:
        """Read the whole answer. Returns when the first token arrived, by the clock."""
        kind = answer.headers.get("content-type", "")
        if "html" in kind:
            raise self._page(answer, await answer.at_most(MAX_ERROR_BYTES))
        if "event-stream" in kind or (self._endpoint.stream and "json" not in kind):
            return await self._events(answer, parser, listener, timer)
        body = await answer.at_most(MAX_BODY_BYTES)
        if len(body) > MAX_BODY_BYTES:
            raise ModelError(f"{self.name} sent an answer of more than {MAX_BODY_BYTES >> 10} KB; it was cut off.")
        if is_page(body):
            raise self._page(answer, body)
        parser.body(parsed(self.name, body))
        parser.collected.pass_on(listener)
        return self._clock()

    async def _events(self, answer: Answer, parser: ReplyParser, listener: Listener, timer: Watchdog) -> float | None:
        stream, collected = EventStreamParser(), parser.collected
        collected.streamed = True
        first_token_at: float | None = None
        only_blanks = True
        try:
            async for piece in answer:
                if only_blanks and is_page(piece):
                    raise self._page(answer, piece)
                only_blanks = only_blanks and piece.isspace()
                self._parse(stream.feed(piece), parser)
                collected.pass_on(listener)
                if collected.begun:
                    first_token_at = first_token_at or self._clock()
                    timer.extend()
                if collected.complete:
                    await self._drain(answer, stream, parser)
                    collected.pass_on(listener)
                    break
        except TooLarge as error:
            limit = MAX_EVENT_BYTES >> 20
            raise ModelError(f"{self.name} sent a single event of more than {limit} MB; it was cut off.") from error
        return first_token_at

    def _page(self, answer: Answer, page: bytes) -> ModelError:
        return refused(self._target.name, answer.status, answer.headers, page[:MAX_ERROR_BYTES], now=self._wall())

    def _parse(self, events: list[Event], parser: ReplyParser) -> None:
        for name, data in events:
            if parser.collected.closed:
                return
            parser.event(name, data)

    async def _drain(self, answer: Answer, stream: EventStreamParser, parser: ReplyParser) -> None:
        """Read the rest of a complete reply's answer: usage may follow, and the connection becomes reusable."""
        try:
            async with asyncio.timeout(min(LAST_BYTES_SECONDS, self._endpoint.timeouts.stall_seconds)):
                async for piece in answer:
                    self._parse(stream.feed(piece), parser)
        except (TimeoutError, ProviderUnreachable):
            return

    async def _refusal(self, answer: Answer) -> ModelError:
        body = b""
        with suppress(ModelError):
            body = (await answer.at_most(MAX_ERROR_BYTES))[:MAX_ERROR_BYTES]
        key = UsedKey(self._key.get_secret_value(), self._endpoint.key_name, self._endpoint.withheld)
        return refused(self._target.name, answer.status, answer.headers, body, now=self._wall(), key=key)


def _questions(endpoint: ModelEndpoint) -> tuple[WindowQuestion, ...]:
    """The questions about the context size; none if the user states it, or if a hosted service is known to have it."""
    if endpoint.context_tokens is not None:
        return ()
    if (questions := QUESTIONS.get(endpoint.provider)) is not None:
        return questions
    elsewhere = endpoint.provider == OPENAI.name and not OPENAI.is_at(endpoint.base_url)
    return ELSEWHERE if elsewhere and endpoint.known.context_tokens is None else ()

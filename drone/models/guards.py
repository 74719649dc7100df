"""Model wrappers that keep known secrets out of replies and stop replies that repeat themselves endlessly."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from drone.agent.ports.journal import DeltaKind, GrowingCall
from drone.agent.ports.model import (
    Ask,
    BadReply,
    Listener,
    Model,
    ModelError,
    ModelWrapper,
    Reply,
    ReplyBlock,
    UnknownPrice,
    WantedCall,
)
from drone.agent.ports.report import describe_or_raise
from mcc.contracts.blocks import OpaqueBlock, RedactedBlock, ThinkingBlock
from mcc.contracts.similar import hints_keywords
from mcc.contracts.usage import Usage
from mcc.redaction import Redactor, Stream


@hints_keywords
class RedactedModel(ModelWrapper):
    """Redacts replies before they are journaled, shown or sent back: the model never sees again what was redacted.

    Tools are called with the redacted arguments as well, because a resumed run has only those.
    """

    def __init__(self, model: Model, redactor: Redactor) -> None:
        super().__init__(model)
        self._redactor = redactor

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        redacting = _RedactingListener(listener, self._redactor)
        try:
            reply = await self._model.ask(ask, redacting)
        except ModelError as error:
            # Changed in place: the error keeps its class and attributes, by which callers decide whether to retry.
            error.args = tuple(map(self._redactor.value, error.args))
            raise
        except Exception as error:
            sentence = describe_or_raise(error)
            if (clean := self._redactor.text(sentence)) == sentence:
                raise
            raise ModelError(f"The model {self.name} broke: {clean}") from error
        redacting.end()
        return replace(reply, blocks=tuple(filter(None, map(self._block, reply.blocks))))

    def _block(self, block: ReplyBlock) -> ReplyBlock | None:
        """Redact one block. A signed or sealed block that contains a secret is not sent back, as its provider would
        refuse it changed."""
        match block:
            case WantedCall():
                return self._call(block)
            case RedactedBlock() | OpaqueBlock():
                return block if self._redactor.model(block) is block else None
            case ThinkingBlock():
                clean = self._redactor.model(block)
                return block if clean is block else ThinkingBlock(text=clean.text)
            case _:
                return self._redactor.model(block)

    def _call(self, wanted: WantedCall) -> WantedCall:
        clean = self._redactor.value
        arguments: Mapping[str, object] | str = clean(wanted.arguments)
        extra = wanted.extra if clean(wanted.extra) == wanted.extra else None
        return WantedCall(clean(wanted.name), arguments, clean(wanted.provider_id), extra)


class _RedactingListener:
    """Forwards everything to the listener; text is held back until it cannot be part of a secret."""

    def __init__(self, listener: Listener, redactor: Redactor) -> None:
        self._listener = listener
        self._redactor = redactor
        self._streams: dict[tuple[DeltaKind, int | None], tuple[Stream, GrowingCall | None]] = {}

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        """`call` is remembered as last named; a name that contains a secret is redacted like any text."""
        clean = call and replace(call, name=self._redactor.text(call.name))
        place = (kind, None if call is None else call.index)
        stream, _ = self._streams.get(place, (None, None))
        if stream is None:
            stream = self._redactor.stream()
        self._streams[place] = (stream, clean)
        self._pass_on(kind, stream.feed(text), clean)

    async def retried(self, error: str, wait_seconds: float) -> None:
        self._streams.clear()
        await self._listener.retried(self._redactor.text(error), wait_seconds)

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self._streams.clear()
        await self._listener.fell_back(source, target, self._redactor.text(error))

    async def not_sent(self, what: str) -> None:
        await self._listener.not_sent(self._redactor.text(what))

    def billed(self, usage: Usage) -> None:
        self._listener.billed(usage)

    async def go_ahead(self) -> None:
        await self._listener.go_ahead()

    def end(self) -> None:
        """Flush the held-back text of every kind."""
        for (kind, _), (stream, call) in self._streams.items():
            self._pass_on(kind, stream.end(), call)

    def _pass_on(self, kind: DeltaKind, text: str, call: GrowingCall | None) -> None:
        if text:
            self._listener.delta(kind, text, call)


class UnknownModel(LookupError):
    """No model of this name is configured; the message suggests the nearest name."""


class ModelSource(Protocol):
    """Models by name. Raises `UnknownModel`."""

    @property
    def default(self) -> Model: ...

    def get(self, name: str) -> Model: ...


class NamedModels:
    """The `ModelSource` of a mapping by name; the first model is the default."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)

    @property
    def default(self) -> Model:
        if not self._models:
            raise UnknownModel("There is no model here: give one.")
        return next(iter(self._models.values()))

    def get(self, name: str) -> Model:
        if name not in self._models:
            raise UnknownModel(f"There is no model {name!r}. There are {', '.join(self._models)}.")
        return self._models[name]


@dataclass(frozen=True, slots=True)
class RedactedModels:
    """Wraps each model of a source in `RedactedModel`."""

    models: ModelSource
    redactor: Redactor

    @property
    def default(self) -> Model:
        return RedactedModel(self.models.default, self.redactor)

    def get(self, name: str) -> Model:
        return RedactedModel(self.models.get(name), self.redactor)


LONGEST_UNIT = 200
"""Longest repeated unit that is recognized, in characters."""

FEWEST_TIMES = 50
SHORTEST_STRETCH = 4_000
"""Characters of pure repetition that count as a loop; ruled lines and tables of zeros are shorter."""

CHECK_EVERY = 2_000
"""Characters between two checks."""

_KEPT = LONGEST_UNIT * FEWEST_TIMES + LONGEST_UNIT


class LoopGuard(ModelWrapper):
    """Raises `BadReply` as soon as streamed text or thinking repeats itself in a loop.

    A loop is the same unit of at most `LONGEST_UNIT` characters at least `FEWEST_TIMES` in a row, `SHORTEST_STRETCH`
    characters in all.
    """

    @property
    def model(self) -> Model:
        """The guarded model."""
        return self._model

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        return await self._model.ask(ask, _LoopListener(self.name, listener))


class UnpricedModel(LoopGuard):
    """A guarded model whose price nobody knows: it is not asked where only priced ones may be. `setting`: the table of
    mcc.toml that can say the price."""

    def __init__(self, model: Model, setting: str) -> None:
        super().__init__(model)
        self._setting = setting

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        if ask.priced_only:
            raise UnknownPrice(
                f"The price of {self.name} is unknown, so it was not asked: say in the drone's mcc.toml what a million "
                f"tokens cost, price = {{input = 0.5, output = 1.5}} in {self._setting}, or 0 for both if nothing."
            )
        return await super().ask(ask, listener)


class PaidModel(LoopGuard):
    """A guarded model that costs something: it is not asked where only free ones may be."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        if ask.free_only:
            raise UnknownPrice(
                f"{self.name} costs money, of which this order may spend none, so it was not asked: name a model that "
                "costs nothing, or have the budget or the order's cost_usd raised."
            )
        return await super().ask(ask, listener)


class _LoopListener:
    """Forwards everything to the listener and checks the text for loops."""

    def __init__(self, name: str, listener: Listener) -> None:
        self._name = name
        self._listener = listener
        self._tails: dict[tuple[DeltaKind, int | None], _Tail] = {}

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        self._listener.delta(kind, text, call)
        tail = self._tails.setdefault((kind, None if call is None else call.index), _Tail())
        if tail.append(text) and (unit := repeated(tail.text())):
            raise BadReply(f"{self._name} said the same {unit} characters over and over; it was cut off.")

    async def retried(self, error: str, wait_seconds: float) -> None:
        self._tails.clear()
        await self._listener.retried(error, wait_seconds)

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self._tails.clear()
        await self._listener.fell_back(source, target, error)

    async def not_sent(self, what: str) -> None:
        await self._listener.not_sent(what)

    def billed(self, usage: Usage) -> None:
        self._listener.billed(usage)

    async def go_ahead(self) -> None:
        await self._listener.go_ahead()


class _Tail:
    """The end of the text so far."""

    __slots__ = ("_pieces", "_unseen")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._unseen = CHECK_EVERY - SHORTEST_STRETCH

    def append(self, text: str) -> bool:
        """Append the next piece. Returns whether a check is due."""
        self._pieces.append(text)
        self._unseen += len(text)
        return self._unseen >= CHECK_EVERY

    def text(self) -> str:
        self._unseen = 0
        text = "".join(self._pieces)[-_KEPT:]
        self._pieces = [text]
        return text


def repeated(text: str) -> int:
    """Length of the unit that the end of this text repeats; 0 when it does not repeat."""
    end = text[-LONGEST_UNIT:]
    at = text.rfind(end, max(0, len(text) - 2 * LONGEST_UNIT), len(text) - 1)
    if at < 0 or len(end) < LONGEST_UNIT:
        return 0
    unit = len(text) - LONGEST_UNIT - at
    stretch = max(SHORTEST_STRETCH, FEWEST_TIMES * unit)
    tail = text[-stretch:]
    return unit if len(tail) == stretch and tail[unit:] == tail[:-unit] else 0

"""The loop guard: a model around a model that ends a reply which repeats itself without end."""

from drone.agent.journal import DeltaKind, GrowingCall
from drone.agent.model import (
    Ask,
    BadReply,
    Listener,
    Model,
    Reply,
    context_tokens,
)

LONGEST_UNIT = 200
"""Characters of what is repeated."""

FEWEST_TIMES = 50
SHORTEST_STRETCH = 4_000
"""Characters that are nothing but repetition: a ruled line or a table of zeros is shorter."""

EVERY = 2_000
"""Characters between two looks."""

_KEPT = LONGEST_UNIT * FEWEST_TIMES + LONGEST_UNIT


class LoopGuard:
    """Raises a `BadReply` as soon as the text or thinking on its way goes round in circles.

    Circles are at least `FEWEST_TIMES` the same unit of at most `LONGEST_UNIT` characters, `SHORTEST_STRETCH` in all.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def model(self) -> Model:
        """The guarded model."""
        return self._model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_tokens(self) -> int | None:
        return context_tokens(self._model)

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        return await self._model.ask(ask, _Watching(self.name, listener))


class _Watching:
    """Passes everything on and looks at what it passes on."""

    def __init__(self, name: str, listener: Listener) -> None:
        self._name = name
        self._listener = listener
        self._tails: dict[tuple[DeltaKind, int | None], _Tail] = {}

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        self._listener.delta(kind, text, call)
        tail = self._tails.setdefault((kind, None if call is None else call.index), _Tail())
        if tail.grown(text) and (unit := repeated(tail.text())):
            raise BadReply(f"{self._name} said the same {unit} characters over and over; it was cut off.")

    async def retried(self, error: str, wait_seconds: float) -> None:
        self._tails.clear()
        await self._listener.retried(error, wait_seconds)

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self._tails.clear()
        await self._listener.fell_back(source, target, error)

    async def not_sent(self, what: str) -> None:
        await self._listener.not_sent(what)

    async def go_ahead(self) -> None:
        await self._listener.go_ahead()


class _Tail:
    """The end of what was said so far."""

    __slots__ = ("_pieces", "_unseen")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._unseen = EVERY - SHORTEST_STRETCH

    def grown(self, text: str) -> bool:
        """Take the next piece; whether it is time to look."""
        self._pieces.append(text)
        self._unseen += len(text)
        return self._unseen >= EVERY

    def text(self) -> str:
        self._unseen = 0
        text = "".join(self._pieces)[-_KEPT:]
        self._pieces = [text]
        return text


def repeated(text: str) -> int:
    """The length of the unit that the end of this text is nothing but repetitions of; 0 when there is none."""
    end = text[-LONGEST_UNIT:]
    at = text.rfind(end, max(0, len(text) - 2 * LONGEST_UNIT), len(text) - 1)
    if at < 0 or len(end) < LONGEST_UNIT:
        return 0
    unit = len(text) - LONGEST_UNIT - at
    stretch = max(SHORTEST_STRETCH, FEWEST_TIMES * unit)
    tail = text[-stretch:]
    return unit if len(tail) == stretch and tail[unit:] == tail[:-unit] else 0

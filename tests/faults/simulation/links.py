"""The way from a simulated process to its store: it may be cut, or lose an answer after the commit."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Store
from tests.faults.simulation.loop import Process

SAFE = frozenset(
    {
        ("claims", "claim_together"),
        ("claims", "finish_together"),
        ("claims", "park"),
        ("journal", "append"),
        ("workspaces", "acquire"),
    }
)
"""Calls that recognise what they did before, so that an answer may be lost after their commit."""

Seen = Callable[[str, str, tuple[Any, ...], dict[str, Any], Any], None]


class Gone(RuntimeError):
    """The process has ended: nothing of it reaches the store any more."""


@dataclass(slots=True)
class Weather:
    """How well the database can be reached, the same for everybody. `away_until` is in the loop's seconds."""

    dice: Random
    now: Callable[[], float]
    lost_before: float = 0.0
    lost_after: float = 0.0
    away_until: float = 0.0


class Link:
    """One process' store; `seen` is told of each call that came through, before its answer can get lost."""

    def __init__(self, store: Store, process: Process, weather: Weather, seen: Seen) -> None:
        self._store = store
        self._process = process
        self._weather = weather
        self._seen = seen
        self.cut = False

    def __getattr__(self, part: str) -> Any:
        inner = getattr(self._store, part)
        return inner if callable(inner) else _Part(self, part, inner)

    def call(self, part: str, method: str, act: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        weather = self._weather
        if self.cut:
            raise Gone(self._process.name)
        if weather.now() < weather.away_until or weather.dice.random() < weather.lost_before:
            raise StoreUnavailable("simulated: the database cannot be reached")
        answer = act(*args, **named)
        self._seen(part, method, args, named, answer)
        if (part, method) in SAFE and weather.dice.random() < weather.lost_after:
            raise StoreUnavailable("simulated: the answer was lost")
        return answer


class _Part:
    def __init__(self, link: Link, part: str, inner: Any) -> None:
        self._link = link
        self._part = part
        self._inner = inner

    def __getattr__(self, method: str) -> Any:
        act = getattr(self._inner, method)

        def call(*args: Any, **named: Any) -> Any:
            return self._link.call(self._part, method, act, args, named)

        return call

"""A cache of function results by the identity of the arguments, for data that all orders of a drone share."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST = 256


class IdentityCache(Generic[P, T]):
    """A pure function of immutable positional arguments, cached by their identity instead of their equality.

    Like `functools.lru_cache`, but for unhashable arguments; beyond `most` results the oldest is dropped. Thread-safe.
    """

    def __init__(self, function: Callable[P, T], most: int = MOST) -> None:
        self._function = function
        self._most = most
        # The arguments are stored with the result, so that no other object can get the id of one of them.
        self._answers: dict[tuple[int, ...], tuple[tuple[object, ...], T]] = {}
        self._lock = Lock()

    def __call__(self, *objects: P.args, **none: P.kwargs) -> T:
        key = tuple(map(id, objects))
        # Without the lock: at worst two threads compute the same answer.
        known = self._answers.get(key)
        if known is None:
            known = (objects, self._function(*objects, **none))
            with self._lock:
                self._answers[key] = known
                if len(self._answers) > self._most:
                    del self._answers[next(iter(self._answers))]
        return known[1]

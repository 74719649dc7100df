"""What was made of objects is not made again of the same objects: for what all orders of a drone have in common."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST = 256


class Remembered(Generic[P, T]):
    """A pure function of positional arguments that never change, told apart by what they are, not by what they say.

    As `functools.lru_cache`, for arguments that cannot be hashed; the oldest of `most` answers is forgotten. Safe for
    several threads.
    """

    def __init__(self, function: Callable[P, T], most: int = MOST) -> None:
        self._function = function
        self._most = most
        # The objects are kept with the answer: no other one can come to have the address of one of them.
        self._answers: dict[tuple[int, ...], tuple[tuple[object, ...], T]] = {}
        self._lock = Lock()

    def __call__(self, *objects: P.args, **none: P.kwargs) -> T:
        key = tuple(map(id, objects))
        known = self._answers.get(key)
        if known is None:
            known = (objects, self._function(*objects, **none))
            with self._lock:
                self._answers[key] = known
                if len(self._answers) > self._most:
                    del self._answers[next(iter(self._answers))]
        return known[1]

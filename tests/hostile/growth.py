"""How the time of a piece of work grows with its input, in the processor time of this thread: others do not count."""

import time
from collections.abc import Callable

UNSEEN_SECONDS = 0.006
"""What takes less is not told from noise."""


def seconds(work: Callable[[], object], tries: int = 3) -> float:
    """The least of a few tries; one that took long is not tried again."""
    best = float("inf")
    for _ in range(tries):
        begun = time.thread_time()
        work()
        best = min(best, time.thread_time() - begun)
        if best > 0.5:
            break
    return best


def grows_faster_than_its_input(work: Callable[[int], object], size: int) -> bool:
    """Whether four times the size takes much more than four times the time; work that is square in it takes sixteen.

    Most work is seen to be plain at a quarter of the size already: what is five times there is not nine times here.
    Noise there costs a second look and hides nothing, so that less is enough to be told from it.
    """
    quarter = seconds(lambda: work(size), tries=1)
    if quarter > UNSEEN_SECONDS / 4 and quarter < 5 * seconds(lambda: work(size // 4), tries=1):
        return False
    once = seconds(lambda: work(4 * size), tries=1)
    if once <= UNSEEN_SECONDS or once < 5 * seconds(lambda: work(size), tries=1):
        return False
    for _ in range(3):  # a machine that is busy at one moment makes nothing square
        small, large = seconds(lambda: work(size)), seconds(lambda: work(4 * size))
        if large <= UNSEEN_SECONDS or large <= 9 * small:
            return False
    return True

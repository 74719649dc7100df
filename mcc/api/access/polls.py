"""How often command lines ask whether they were let in: those that ask too often are told to slow down."""

import time
from collections import OrderedDict
from collections.abc import Callable

INTERVAL_SECONDS = 5
SLACK_SECONDS = 1.0
"""A question may be this early, as the one before it may have been late on its way."""

KEPT = 10_000


class Polls:
    """When each command line has asked this process, by the digest of its code. Told from memory: who asks too often
    costs no question to the database. `monotonic` answers seconds."""

    def __init__(
        self, interval_seconds: int = INTERVAL_SECONDS, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.interval_seconds = interval_seconds
        self._monotonic = monotonic
        self._asked: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def begin(self, digest: str) -> None:
        """A command line has got its code, and asks after `interval_seconds` for the first time."""
        self._keep(digest, self.interval_seconds)

    def knows(self, digest: str) -> bool:
        return digest in self._asked

    def is_too_soon(self, digest: str) -> bool:
        """Count a question. Where it comes too soon, all later ones have to be so much further apart (RFC 8628, 3.5).
        The first one of a command line that began in another process never does."""
        if digest not in self._asked:
            self._keep(digest, self.interval_seconds)
            return False
        at, interval = self._asked[digest]
        too_soon = self._monotonic() - at < interval - SLACK_SECONDS
        self._keep(digest, interval + self.interval_seconds if too_soon else interval)
        return too_soon

    def end(self, digest: str) -> None:
        self._asked.pop(digest, None)

    def _keep(self, digest: str, interval: int) -> None:
        self._asked[digest] = (self._monotonic(), interval)
        self._asked.move_to_end(digest)
        if len(self._asked) > KEPT:
            self._asked.popitem(last=False)

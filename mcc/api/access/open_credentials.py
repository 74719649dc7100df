"""The sign-ins and tokens by which event streams are open, so that a stream ends soon after its right does."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

from mcc.store.database.errors import StoreError

LOOK_SECONDS = 2.0

Ended = asyncio.Future[str]
"""Why the right to a stream has ended, once it has."""

log = logging.getLogger(__name__)


class OpenCredentials:
    """`which_ended` answers which of some credentials count no longer, and why; one question for all streams of the
    process."""

    def __init__(
        self,
        which_ended: Callable[[Collection[str]], Awaitable[Mapping[str, str]]],
        forget: Callable[[Collection[str]], None],
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`forget` is told which have ended."""
        self._which_ended = which_ended
        self._forget = forget
        self._look_seconds = look_seconds
        self._ended: dict[str, Ended] = {}
        self._streams: Counter[str] = Counter()

    @property
    def streams(self) -> int:
        """How many streams are open by a sign-in."""
        return self._streams.total()

    @contextlib.contextmanager
    def watched(self, credential_id: str) -> Iterator[Ended]:
        """A future for the time of a stream, which is done when the credential has ended."""
        ended = self._ended.setdefault(credential_id, asyncio.get_running_loop().create_future())
        self._streams[credential_id] += 1
        try:
            yield ended
        finally:
            self._streams[credential_id] -= 1
            if not self._streams[credential_id]:
                del self._streams[credential_id]
                self._ended.pop(credential_id, None)

    def end(self, credential_ids: Collection[str], why: str) -> None:
        """These have ended: their streams end now, and their next requests are looked up."""
        self._forget(credential_ids)
        for credential_id in credential_ids:
            ended = self._ended.get(credential_id)
            if ended is not None and not ended.done():
                ended.set_result(why)

    async def run(self) -> None:
        """Ask every `look_seconds`, until cancelled: another process may have ended a right."""
        while True:
            await asyncio.sleep(self._look_seconds)
            await self.look()

    async def look(self) -> None:
        """End the streams of credentials that count no longer."""
        if not (watched := set(self._ended)):
            return
        try:
            ended = await self._which_ended(watched)
        except StoreError as error:
            log.warning("the database cannot say whose right has ended: %s", error)
            return
        for credential_id, why in ended.items():
            self.end([credential_id], why)

"""The courier of a service: makes deliveries of what happened, claims those that are due, and tries them."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from mcc.addresses import AddressRule, look_up, services_in
from mcc.configuration.network import endpoints_of
from mcc.contracts.ids import fresh_id
from mcc.contracts.replies import is_reply
from mcc.redaction import Redactor, WatchedSecrets
from mcc.settings import ServiceSettings
from mcc.store.database.errors import StoreError
from mcc.store.doors.deliveries import ClaimedDelivery, TryResult
from mcc.store.doors.fanning_out import EVENTS_AT_ONCE
from mcc.store.doors.messages import OutgoingReply
from mcc.store.store import BoundedOffload, Offload, Store
from mcc.webhooks.body import body_of
from mcc.webhooks.replying import ReplySender, ReplyTables
from mcc.webhooks.sending import WebhookAnswer, WebhookForm, WebhookSender
from mcc.webhooks.signing import headers_of
from mcc.webhooks.slots import QUICK_SECONDS, TrySlots

LOOK_SECONDS = 0.5
GAPS_SECONDS = (5, 60, 300, 1_800, *(hours * 3_600 for hours in (2, 5, 10, 14, 18, 22)))
"""Between one try and the next; after the last of them a delivery is dead, 71.6 hours after its first try."""

JITTER = 0.1

log = structlog.get_logger("mcc.webhooks.courier")


class Senders(NamedTuple):
    """What messages to endpoints are sent by, and replies. `webhooks` None: they are left to other services."""

    webhooks: WebhookSender | None
    replies: ReplySender


class Courier:
    """Runs in the event loop of a service; what blocks runs in threads of `offload`.

    `public_url`: where links lead to. `redactor` removes the secrets that the service knows.
    """

    def __init__(
        self,
        store: Store,
        senders: Senders,
        offload: Offload,
        *,
        public_url: str,
        redactor: Callable[[], Redactor] = Redactor,
        chance: random.Random | None = None,
    ) -> None:
        self._store = store
        self._senders = senders
        self._offload = offload
        self._public_url = public_url
        self._redactor = redactor
        self._chance = chance or random.Random()
        self._who = fresh_id()
        self._slots = TrySlots()
        self._held: dict[str, ClaimedDelivery] = {}
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled. What is being tried then is given back, as it is not known what became of it."""
        trouble = ""
        try:
            async with asyncio.TaskGroup() as tries:
                while True:
                    self._ended.clear()
                    try:
                        more = await self._begin(tries)
                        trouble = ""
                    except StoreError as problem:
                        # Once per outage, not twice a second.
                        if str(problem) != trouble:
                            log.warning("webhooks wait for the database", problem=str(problem))
                        more, trouble = False, str(problem)
                    except Exception as problem:
                        if repr(problem) != trouble:
                            log.exception("webhooks cannot be told of what happened")
                        more, trouble = False, repr(problem)
                    if not more:
                        # Not wait_for, which may swallow a cancellation that comes together with the event.
                        with suppress(TimeoutError):
                            async with asyncio.timeout(LOOK_SECONDS):
                                await self._ended.wait()
        finally:
            with suppress(StoreError):
                await self._offload(self._store.webhooks.deliveries.let_go, list(self._held.values()), self._who)

    async def once(self) -> None:
        """Look once, and wait until what was tried has come to something. Raises `StoreError`."""
        async with asyncio.TaskGroup() as tries:
            while await self._begin(tries):
                pass

    async def _begin(self, tries: asyncio.TaskGroup) -> bool:
        """Begin the tries for which there is room now; answers whether there is more to look at at once."""
        events = await self._offload(self._store.webhooks.fanning_out.advance)
        due = await self._offload(self._store.webhooks.deliveries.due)
        wanted = self._slots.free_for([each for each in due if self._senders.webhooks is not None or is_reply(each)])
        for claimed in await self._offload(self._store.webhooks.deliveries.claim, self._who, wanted):
            self._slots.begin(claimed.receiver)
            self._held[claimed.id] = claimed
            tries.create_task(self._try(claimed))
        return events >= EVENTS_AT_ONCE

    async def _try(self, claimed: ClaimedDelivery) -> None:
        quick = None
        try:
            began = asyncio.get_running_loop().time()
            try:
                result = await self._told(claimed)
            except StoreError:
                raise
            except Exception as problem:
                # Whatever one receiver makes fail: the tries of all others go on.
                log.exception("a webhook could not be tried", delivery=claimed.id)
                failed = f"it could not be tried ({type(problem).__name__}); the log of the service says more"
                result = self._result(claimed, WebhookAnswer(None, failed, unsure=True))
            quick = result.delivered and asyncio.get_running_loop().time() - began < QUICK_SECONDS
            await self._offload(self._store.webhooks.deliveries.settle, claimed, self._who, result)
            del self._held[claimed.id]
        except StoreError as problem:
            # Nobody knows what became of it, so it is tried again when its hold has ended, with the same id.
            log.warning("what became of a webhook could not be noted", delivery=claimed.id, problem=str(problem))
            self._held.pop(claimed.id, None)
        finally:
            self._slots.end(claimed.receiver, quick=quick)
            self._ended.set()

    async def _told(self, claimed: ClaimedDelivery) -> TryResult:
        message = await self._offload(self._store.webhooks.messages.read, claimed)
        if isinstance(message, str):
            return TryResult(False, error=message)
        if isinstance(message, OutgoingReply):
            sent = await self._senders.replies.send(message, self._redactor(), may_be_there=claimed.may_be_there)
            return self._result(claimed, sent)
        body = await self._offload(body_of, message.happening, self._public_url, self._redactor())
        headers = headers_of(claimed.id, self._store.database.clock.now(), body, message.secrets)
        assert self._senders.webhooks is not None
        answer = await self._senders.webhooks.post(message.url, headers, body)
        return self._result(claimed, answer)

    def _result(self, claimed: ClaimedDelivery, answer: WebhookAnswer) -> TryResult:
        again = None
        if not (answer.gone or answer.is_final) and claimed.tries < len(GAPS_SECONDS):
            gap = GAPS_SECONDS[claimed.tries] * self._chance.uniform(1 - JITTER, 1 + JITTER)
            again = max(gap, answer.after_seconds)
        error = self._redactor().text(answer.error)
        # Of what was not found out by this try, nobody knows more than before.
        unsure = answer.unsure or claimed.may_be_there
        return TryResult(answer.delivered, answer.status, error, again, answer.gone, unsure)


def courier_of(
    settings: ServiceSettings,
    store: Store,
    served_at: str,
    secrets: WatchedSecrets,
    forge_failed: Callable[[str, int], None],
) -> Courier:
    """The courier of the service that listens at the address `served_at`. `forge_failed` is told the name of a forge
    and the status of its error."""
    offload = BoundedOffload(4, "webhooks")
    services = services_in((settings.database_url, settings.redis_url, served_at))
    private = endpoints_of(settings.webhooks.allow_private)
    rule = AddressRule(lambda host: offload(look_up, host), own=services, allow_private=private)
    tables = ReplyTables.of(settings, forge_failed)
    replies = AddressRule(lambda host: offload(look_up, host), own=services, allow_private=tables.endpoints)
    webhooks = None if "webhooks" in settings.doors.off else WebhookSender(WebhookForm(settings.webhooks), rule)
    senders = Senders(webhooks, ReplySender(tables, replies))
    return Courier(store, senders, offload, public_url=settings.public_url or served_at, redactor=secrets)

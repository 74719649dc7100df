"""What becomes of a delivery: its signature, then what it says, then its order."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from mcc.api.problems import RETRY_SECONDS, Refusal
from mcc.api.triggers.ordering import TriggerOrders
from mcc.api.triggers.ready import ReadyTrigger
from mcc.side_process import CutOff, KilledByOthers, SideProcess
from mcc.store.doors.trigger_deliveries import KnownDelivery, TakenDelivery
from mcc.triggers.reading import AnswerOfDelivery, delivery_reader
from mcc.triggers.signatures import Received, is_signed

READ_SECONDS = 2.0
"""CPU time in which a delivery is read, with all expressions of its trigger."""

MOST_WAITING = 50
"""Signed deliveries that wait to be read; further ones are told to come again."""

ID_CHARACTERS = 200

TOLD_AGAIN_SECONDS = 60.0
"""How long the log says no more of deliveries to a trigger that are not signed."""

log = logging.getLogger(__name__)


class UnsignedDelivery(Exception):
    """No trigger has this path, or nobody who shares its secret has signed this just now."""


class TriggerDoor:
    """Takes deliveries. They are read one at a time in a process of its own, as strangers choose their size and depth;
    `close` ends it."""

    def __init__(
        self,
        ready: Mapping[str, ReadyTrigger],
        orders: TriggerOrders,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self.ready = ready
        self._orders = orders
        self._read_seconds = read_seconds
        self._tables = {
            trigger.name: trigger.table.model_dump(mode="json", exclude_unset=True) for trigger in ready.values()
        }
        # One thread: the process dies with the thread that started it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="triggers")
        self._process = SideProcess(delivery_reader)
        self._waiting = 0
        self._unsigned_at: dict[str, float] = {}

    def close(self) -> None:
        self._thread.submit(self._process.close)
        self._thread.shutdown(wait=True, cancel_futures=False)

    def signed(self, path: str, received: Received) -> ReadyTrigger:
        """The trigger of this path, where the delivery is signed with its secret. Blocks. Raises `UnsignedDelivery`."""
        trigger = self.ready.get(path)
        if trigger is None:
            raise UnsignedDelivery
        if is_signed(trigger.table, trigger.secrets, received):
            return trigger
        # Who sends it learns no difference; whoever reads the log does, once in a while, as anybody may send it.
        if received.at - self._unsigned_at.get(trigger.name, 0.0) >= TOLD_AGAIN_SECONDS:
            self._unsigned_at[trigger.name] = received.at
            log.warning(
                "trigger %s: a delivery was answered with 404: it is not signed with the secret in %s, or too old",
                trigger.name,
                " or ".join(trigger.table.secret_env),
            )
        raise UnsignedDelivery

    async def read(self, trigger: ReadyTrigger, received: Received) -> AnswerOfDelivery:
        """What a signed delivery is to its trigger. Raises `Refusal` for a body that is no JSON, when too many wait and
        when it cannot be read now, `UnsignedDelivery` for one that was sent too long ago."""
        try:
            body = received.body.decode()
        except UnicodeDecodeError as error:
            raise Refusal(422, "The body is not JSON in UTF-8.") from error
        if self._waiting >= MOST_WAITING:
            raise Refusal(503, "Too many deliveries wait: send it again.", {"Retry-After": str(RETRY_SECONDS)})
        # As JSON of a QuestionOfDelivery.
        question = {
            "trigger": trigger.name,
            "table": self._tables[trigger.name],
            "headers": received.headers,
            "body": body,
            "at": received.at,
            "seed": hashlib.sha256(received.body).hexdigest(),
        }
        self._waiting += 1
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._asked, question)
        finally:
            self._waiting -= 1
        if answer.outcome == "unreadable":
            raise Refusal(422, answer.why)
        if answer.outcome == "late":
            raise UnsignedDelivery
        return answer

    def take(self, trigger: ReadyTrigger, received: Received, read: AnswerOfDelivery) -> TakenDelivery:
        """Place the order of a delivery, or remember why there is none. Blocks. Raises `StoreError`."""
        known = known_delivery(trigger, received, read)
        match read.outcome:
            case "order":
                return self._orders.place(trigger, known, read)
            case "own" | "no_match" | "refused":
                return self._orders.deliveries.note(known, read.outcome, read.why)
            case _:
                raise AssertionError(f"a delivery that is {read.outcome} has no row")

    def _asked(self, question: Mapping[str, object]) -> AnswerOfDelivery:
        """Raises `Refusal` where the process that reads it is killed by others again and again."""
        try:
            try:
                return AnswerOfDelivery.model_validate(self._process.ask(question, self._read_seconds))
            except KilledByOthers:
                return AnswerOfDelivery.model_validate(self._process.ask(question, self._read_seconds))
        except KilledByOthers as error:
            # That says nothing of the delivery, which must not stand as refused.
            log.warning("trigger %s: a delivery was not read: %s", question["trigger"], error)
            again = {"Retry-After": str(RETRY_SECONDS)}
            raise Refusal(503, "The delivery could not be read just now: send it again.", again) from error
        except (CutOff, ValueError) as error:
            log.warning("trigger %s: a delivery cannot be read: %s", question["trigger"], error)
            return AnswerOfDelivery(outcome="refused", why=f"payload: {error}.")


def known_delivery(trigger: ReadyTrigger, received: Received, read: AnswerOfDelivery) -> KnownDelivery:
    """What the delivery is known by: its id where that is signed, else its id and its body."""
    body = hashlib.sha256(received.body).hexdigest()
    is_id_signed = trigger.table.scheme == "standard" or trigger.table.id is not None
    if read.id is None:
        return KnownDelivery(trigger.name, f"body:{body}", body)
    key = f"id:{read.id}"
    if len(key) > ID_CHARACTERS or not (key.isascii() and key.isprintable()):
        key = f"id-sha256:{hashlib.sha256(read.id.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return KnownDelivery(trigger.name, key, None if is_id_signed else body)

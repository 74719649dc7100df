"""This room is for holding orders in memory, and for the journal that their holders write."""

from collections.abc import Collection, Mapping, Sequence

from mcc.contracts.journal import JOURNAL_VERSION, Entry, OrderClaimed, OrderHandedBack, OrderWaiting, fact_of
from mcc.contracts.shape import to_json
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason
from mcc.store.clock import micros, moment
from mcc.store.entries import cancelled_by, checked, must_be_read, told, unsettled
from mcc.store.errors import BadEntry, ControlsPending, Fenced, WorkspaceNeeded
from mcc.store.large import parsed
from mcc.store.losses import is_solo
from mcc.store.outline import Outline, Place, text_at
from mcc.store.values import Appended, Batch, Claim, Claimable, Ending, Parking, Reached, Waiting, WorkspaceHold
from mcc.store.waiting import check_workspace, keeps_from_waiting, waits_until
from mcc.testing.orders import seen
from mcc.testing.requests import resume
from mcc.testing.shelf import Kept, Shelf


class MemoryClaims:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def claimable(self, queues: Sequence[str], limit: int, *, besides: Collection[str] = ()) -> Sequence[Claimable]:
        with self._shelf.lock:
            found = [kept for queue in dict.fromkeys(queues) for kept in self._shelf.claimable(queue)]
            found = [kept for kept in found if kept.id not in besides]
            found.sort(key=lambda kept: (kept.spec.priority, kept.id))
            return [
                Claimable(kept.id, kept.spec.queue, kept.spec.priority, is_solo(kept.barren)) for kept in found[:limit]
            ]

    def claim(
        self,
        order_id: str,
        *,
        incarnation: str,
        claim_token: str,
        drone: str,
        alone: bool = True,
        workspace: WorkspaceHold | None = None,
        unseen: bool = True,
    ) -> Claim | None:
        with self._shelf.lock:
            if incarnation not in self._shelf.leases:
                raise ValueError(f"incarnation {incarnation} is not registered: a drone registers before it claims")
            kept = self._shelf.orders.get(order_id)
            if kept is None:
                return None
            if kept.status is OrderStatus.RUNNING and (kept.incarnation, kept.claim_token) == (
                incarnation,
                claim_token,
            ):
                return self._claim_of(kept)
            lease = self._shelf.leases[incarnation]
            if lease.state != "live" or not self._shelf.in_time(lease) or not self._shelf.is_claimable(kept):
                return None
            if (is_solo(kept.barren) and not alone) or (workspace and not self._shelf.is_free(workspace, kept.id)):
                return None
            if kept.spec.workspace is not None and workspace is None and not unseen:
                raise WorkspaceNeeded(seen(self._shelf, kept), begun=kept.attempt > 0)
            if workspace is not None:
                check_workspace(kept.id, kept.began_in, workspace)
                kept.began_in = kept.began_in or (workspace.key if workspace.lasting else None)
            kept.workspace = workspace
            self._hold(kept, incarnation, claim_token, drone)
            return self._claim_of(kept)

    def _hold(self, kept: Kept, incarnation: str, claim_token: str, drone: str) -> None:
        now = self._shelf.clock.now()
        kept.status, kept.reason = OrderStatus.RUNNING, None
        kept.incarnation, kept.claim_token = incarnation, claim_token
        kept.journal_version = JOURNAL_VERSION
        kept.epoch += 1
        kept.attempt += 1
        kept.started_at = kept.started_at or now
        fact = OrderClaimed(attempt=kept.attempt, epoch=kept.epoch, drone=drone, incarnation=incarnation)
        kept.write([told(now, fact)])

    def _claim_of(self, kept: Kept) -> Claim:
        number = unsettled(kept.controls, kept.control_seq)
        order = seen(self._shelf, kept)
        return Claim(order, kept.epoch, kept.attempt, kept.last_seq, control_seq=number)

    def hand_back(self, held: Sequence[tuple[str, int]], *, drone: str, message: str) -> Sequence[str]:
        with self._shelf.lock:
            found = (self._shelf.holds(order_id, epoch) for order_id, epoch in sorted(dict(held).items()))
            still = [kept for kept in found if kept]
            for kept in still:
                self._hand_back(kept, drone, message)
            return [kept.id for kept in still]

    def _hand_back(self, kept: Kept, drone: str, message: str) -> None:
        now = self._shelf.clock.now()
        if cancel := kept.open_cancel():
            kept.end_by_store(cancelled_by(cancel), now)
            return
        kept.release(OrderStatus.QUEUED)
        kept.write([told(now, OrderHandedBack(epoch=kept.epoch, drone=drone, message=message))])

    def park(self, parking: Parking) -> int:
        with self._shelf.lock:
            kept, number = self._shelf.holds(parking.order_id, parking.epoch), parking.last_seq + 1
            if kept is None or kept.last_seq != parking.last_seq:
                if self._was_parked(parking):
                    return number
                raise Fenced(
                    f"order {parking.order_id} is not held under epoch {parking.epoch} at entry {parking.last_seq}"
                )
            if any(keeps_from_waiting(control, parking) for control in kept.controls):
                raise ControlsPending(f"order {kept.id} has controls up to number {kept.control_seq}: read them first")
            self._lay_aside(kept, parking)
            return number

    def _was_parked(self, parking: Parking) -> bool:
        """No other holder can have written the entry behind the last one that this holder knows of."""
        kept = self._shelf.orders.get(parking.order_id)
        following = kept.entries[parking.last_seq : parking.last_seq + 1] if kept else []
        return any(isinstance(entry.data, OrderWaiting) for entry in following)

    def _lay_aside(self, kept: Kept, parking: Parking) -> None:
        now = self._shelf.clock.now()
        kept.release(OrderStatus.WAITING)
        kept.reason, kept.not_before = parking.reason, parking.until
        expires_at = micros(kept.spec.expires_at) if kept.spec.expires_at else None
        kept.waits_until = moment(waits_until(micros(max(now, parking.until or now)), expires_at))
        why = OrderWaiting(reason=parking.reason, message=parking.message, until=parking.until, found=parking.found)
        kept.write([told(now, why)])

    def waiting(self, reason: WaitingReason, limit: int, *, after: str = "") -> Sequence[Waiting]:
        with self._shelf.lock:
            found = [
                kept
                for kept in sorted(self._shelf.orders.values(), key=lambda one: one.id)
                if kept.status is OrderStatus.WAITING and kept.reason == reason and kept.id > after
            ]
            return [Waiting(kept.id, kept.spec.workspace, kept.entries[-1].at, kept.began_in) for kept in found[:limit]]

    def wake(self, order_id: str, reason: WaitingReason, message: str) -> bool:
        with self._shelf.lock:
            kept = self._shelf.orders.get(order_id)
            if kept is None or kept.status is not OrderStatus.WAITING or kept.reason != reason:
                return False
            resume(self._shelf, kept, message)
            return True

    def finish(self, ending: Ending) -> int:
        checked(ending)
        with self._shelf.lock:
            kept = self._shelf.orders.get(ending.order_id)
            if kept is None:
                raise _fenced(ending)
            reached = ending.last_seq + len(ending.drafts)
            if kept.status in FINAL and (kept.epoch, kept.last_seq) == (ending.epoch, reached):
                return kept.last_seq
            if not self._shelf.holds(kept.id, ending.epoch) or kept.last_seq != ending.last_seq:
                raise _fenced(ending)
            if any(must_be_read(control, ending) for control in kept.controls):
                raise ControlsPending(f"order {kept.id} has controls up to number {kept.control_seq}: read them first")
            kept.end(ending.drafts, ending.outcome, ending.record)
            return kept.last_seq


def _fenced(ending: Ending) -> Fenced:
    return Fenced(f"order {ending.order_id} is not held under epoch {ending.epoch} at entry {ending.last_seq}")


class MemoryJournal:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def append(self, batches: Sequence[Batch]) -> Appended:
        if len({batch.order_id for batch in batches}) != len(batches):
            raise ValueError("one append holds at most one batch of an order")
        fenced: set[str] = set()
        culprits: dict[str, str] = {}
        with self._shelf.lock:
            for batch in batches:
                try:
                    if not self._append(batch):
                        fenced.add(batch.order_id)
                except (BadEntry, TypeError, ValueError, OverflowError) as error:
                    culprits[batch.order_id] = str(error)
        return Appended(frozenset(fenced), culprits)

    def _append(self, batch: Batch) -> bool:
        """False: fenced."""
        new_seq = batch.last_seq + len(batch.entries)
        if [entry.seq for entry in batch.entries] != list(range(batch.last_seq + 1, new_seq + 1)):
            raise ValueError(f"entries of order {batch.order_id} must be numbered on from {batch.last_seq + 1}")
        kept = self._shelf.orders.get(batch.order_id)
        if kept is None or kept.status is not OrderStatus.RUNNING or kept.epoch != batch.epoch:
            return False
        if kept.last_seq == batch.last_seq:
            kept.add(batch.entries)
        return kept.last_seq == new_seq

    def read(self, order_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        with self._shelf.lock:
            first = max(after, 0)
            return self._shelf.order(order_id).entries[first : first + limit]

    def outlined(self, order_id: str, outline: Outline, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        entries = self.read(order_id, after=after, limit=limit)
        return [
            entry.model_copy(
                update={"data": fact_of(entry.kind, outline.of_row(entry.seq, parsed(to_json(entry.data))))}
            )
            for entry in entries
        ]

    def texts(self, order_id: str, places: Sequence[Place]) -> Sequence[bytes]:
        with self._shelf.lock:
            entries = self._shelf.order(order_id).entries
            data = {seq: parsed(to_json(entries[seq - 1].data)) for seq in {place.seq for place in places}}
            return [text_at(data[place.seq], place.path) for place in places]

    def reached(self, order_ids: Sequence[str]) -> Mapping[str, Reached]:
        with self._shelf.lock:
            found = [self._shelf.orders[order_id] for order_id in order_ids if order_id in self._shelf.orders]
            return {kept.id: Reached(kept.last_seq, kept.status) for kept in found}

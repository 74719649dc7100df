"""How many tries run at once, in all and for each receiver, so that those who do not answer delay nobody else."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from mcc.store.doors.fanning_out import is_host

AT_ONCE, EACH = 64, 4
SLOW_AT_ONCE, NEW_AT_ONCE, NEW_HOSTS_AT_ONCE = 16, 8, 16
QUICK_SECONDS = 2.0
REMEMBERED = 10_000


class TryLane(Enum):
    """What is known of a receiver by its last try."""

    QUICK = auto()  # it took the message within `QUICK_SECONDS`
    NEW = auto()  # an endpoint that this process has not tried yet
    NEW_HOST = auto()  # the same of a host that an order named, of which there may be many
    SLOW = auto()  # it failed, or took longer


_MOST = {
    TryLane.QUICK: AT_ONCE,
    TryLane.NEW: NEW_AT_ONCE,
    TryLane.NEW_HOST: NEW_HOSTS_AT_ONCE,
    TryLane.SLOW: SLOW_AT_ONCE,
}


class TrySlots:
    """The tries of one service. At most `AT_ONCE` run, `EACH` for a receiver; of receivers that are slow, or that
    nobody knows yet, only so many that the others always have slots."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._is_quick: dict[str, bool] = {}
        """By receiver, the one that was tried longest ago first."""

    def lane_of(self, receiver: str) -> TryLane:
        quick = self._is_quick.get(receiver)
        if quick is None:
            return TryLane.NEW_HOST if is_host(receiver) else TryLane.NEW
        return TryLane.QUICK if quick else TryLane.SLOW

    def free_for(self, due: Sequence[str]) -> Mapping[str, int]:
        """How many tries may begin for each of these receivers, shared out evenly, the first of them first."""
        left = AT_ONCE - self._running.total()
        in_lane = Counter(_MOST)
        for receiver, count in self._running.items():
            in_lane[self.lane_of(receiver)] -= count
        shares: Counter[str] = Counter()
        for _ in range(EACH):
            for receiver in due:
                lane = self.lane_of(receiver)
                if left > 0 and in_lane[lane] > 0 and self._running[receiver] + shares[receiver] < EACH:
                    shares[receiver] += 1
                    in_lane[lane] -= 1
                    left -= 1
        return shares

    def begin(self, receiver: str) -> None:
        self._running[receiver] += 1

    def end(self, receiver: str, *, quick: bool | None) -> None:
        """`quick` None: the try was broken off, which says nothing of the receiver."""
        self._running[receiver] -= 1
        if not self._running[receiver]:
            del self._running[receiver]
        if quick is not None:
            self._is_quick.pop(receiver, None)
            self._is_quick[receiver] = quick
            if len(self._is_quick) > REMEMBERED:
                del self._is_quick[next(iter(self._is_quick))]

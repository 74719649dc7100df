"""How many tries run at once: those who do not answer leave slots for those who do."""

from mcc.webhooks.slots import (
    AT_ONCE,
    EACH,
    NEW_AT_ONCE,
    NEW_HOSTS_AT_ONCE,
    REMEMBERED,
    SLOW_AT_ONCE,
    TryLane,
    TrySlots,
)


def known(slots: TrySlots, *receivers: str, quick: bool) -> None:
    for receiver in receivers:
        slots.begin(receiver)
        slots.end(receiver, quick=quick)


def begun(slots: TrySlots, *due: str) -> int:
    """Begin all that may; answers how many tries these are."""
    shares = slots.free_for(due)
    for receiver, count in shares.items():
        for _ in range(count):
            slots.begin(receiver)
    return sum(shares.values())


def test_a_receiver_has_few_tries_at_once_and_a_service_so_many() -> None:
    slots = TrySlots()
    known(slots, *map(str, range(100)), quick=True)
    assert begun(slots, "0") == EACH and begun(slots, "0") == 0
    assert begun(slots, *map(str, range(100))) == AT_ONCE - EACH


def test_a_thousand_silent_receivers_leave_slots_for_one_that_answers() -> None:
    slots = TrySlots()
    silent = [f"silent-{number}" for number in range(1_000)]
    known(slots, *silent, quick=False)
    known(slots, "well", quick=True)
    assert begun(slots, *silent) == SLOW_AT_ONCE
    unknown = [f"//new-{number}.test" for number in range(1_000)]
    assert begun(slots, *silent, *unknown) == NEW_HOSTS_AT_ONCE
    assert begun(slots, *silent, *unknown, "an endpoint") == EACH
    assert begun(slots, *silent, *unknown, "well") == EACH


def test_slots_are_shared_out_evenly() -> None:
    slots = TrySlots()
    receivers = list(map(str, range(NEW_AT_ONCE - 1)))
    assert set(slots.free_for(receivers).values()) == {1, 2}


def test_what_is_known_of_a_receiver_is_its_last_try() -> None:
    slots = TrySlots()
    known(slots, "a", quick=False)
    assert slots.lane_of("a") is TryLane.SLOW and slots.lane_of("b") is TryLane.NEW
    known(slots, "a", quick=True)
    slots.begin("a")
    slots.end("a", quick=None)
    assert slots.lane_of("a") is TryLane.QUICK
    known(slots, *(f"other-{number}" for number in range(REMEMBERED)), quick=False)
    assert slots.lane_of("a") is TryLane.NEW

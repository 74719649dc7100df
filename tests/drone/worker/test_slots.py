from drone.worker.claiming import Slots


def test_no_more_slots_are_taken_than_there_are() -> None:
    slots = Slots(2)
    assert [slots.take(), slots.take(), slots.take()] == [True, True, False]
    assert (slots.active, slots.free) == (2, 0)
    slots.release()
    assert slots.take()


def test_a_drone_remembers_how_often_it_was_full() -> None:
    slots = Slots(1)
    for _ in range(3):
        slots.take()
        slots.release()
    assert slots.fillings == 3


def test_an_order_that_runs_alone_has_all_slots() -> None:
    slots = Slots(2)
    assert slots.take()
    assert not slots.take(alone=True)
    slots.release()
    assert slots.take(alone=True) and slots.alone
    assert not slots.take() and slots.free == 0
    slots.release()
    assert slots.take() and not slots.alone


def test_a_drone_kept_clear_takes_only_an_order_that_must_run_alone() -> None:
    slots = Slots(2)
    slots.keep_clear(True)
    assert not slots.take() and slots.free == 0
    assert slots.take(alone=True)
    slots.release()
    slots.keep_clear(False)
    assert slots.take()

from drone.worker.slots import Slots


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

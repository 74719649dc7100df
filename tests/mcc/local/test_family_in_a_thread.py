"""A family in a thread of its own: Ctrl-C at any moment of its start, and errors of the start."""

import threading
from typing import Self

import pytest

from mcc.local.family import Family, FamilyThread, family_in_thread


class Household(Family):
    """Stands in for a family: records what was done with it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.done: list[str] = []
        self._error = error

    async def __aenter__(self) -> Self:
        self.done.append("entered")
        if self._error is not None:
            raise self._error
        return self

    async def __aexit__(self, *error: object) -> None:
        self.done.append("left")


def ends(work: threading.Thread) -> bool:
    work.start()
    work.join(10.0)
    return not work.is_alive()


def test_a_family_is_left_that_never_began() -> None:
    household = Household()
    thread = FamilyThread(household)
    assert ends(threading.Thread(target=thread.leave, daemon=True))
    assert household.done == []


def test_a_thread_that_begins_after_the_family_was_left_starts_nothing() -> None:
    household = Household()
    thread = FamilyThread(household)
    assert ends(threading.Thread(target=thread.leave, daemon=True)) and ends(thread._thread)
    assert household.done == []


def test_a_family_is_entered_and_left() -> None:
    household = Household()
    with family_in_thread(household):
        assert household.done == ["entered"]
    assert household.done == ["entered", "left"]


@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt()])
def test_errors_of_the_start_are_raised_where_the_family_was_wanted(error: BaseException) -> None:
    household = Household(error)
    with pytest.raises(type(error)), family_in_thread(household):
        pytest.fail("entered")
    assert household.done == ["entered"]

"""A drone of a real family is killed between the steps of a delivery: the next one ends it, with one branch and one
request."""

import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.drone.delivery.forge import Failing
from tests.faults.doors.deliveries import DeliveringFamily, delivering, judge_deliveries, place
from tests.faults.doors.house import DoorTally, judge_ends
from tests.faults.members import until

pytestmark = [pytest.mark.family, pytest.mark.group("killed deliveries")]

ENDED_SECONDS = 180.0


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeliveringFamily]:
    with delivering(tmp_path_factory.mktemp("deliveries"), 0) as running:
        yield running


def has_committed(family: DeliveringFamily) -> bool:
    """Whether the newest order has the end of its first step, and no other."""
    counted = (
        "SELECT count(*) FROM journal WHERE kind = 'delivery.finished' AND order_id = (SELECT max(id) FROM orders)"
    )
    return bool(family.rows(counted)[0][0] == 1)


def asked_git(family: DeliveringFamily, words: str) -> bool:
    return words in family.shop.git.asked[-1] and has_committed(family)


def asked_to_open(family: DeliveringFamily) -> bool:
    return family.shop.forge.asked[-1].startswith("POST ")


def opened_unheard(family: DeliveringFamily) -> bool:
    """The forge carries out what it is asked, and nobody hears of it."""
    if is_asked := asked_to_open(family):
        family.shop.forge.failing.insert(0, Failing(0, after=True))
    return is_asked


POINTS: Mapping[str, Callable[[DeliveringFamily], bool]] = {
    "between commit and push": lambda family: asked_git(family, "service=git-upload-pack"),
    "while it pushes": lambda family: asked_git(family, "/git-receive-pack"),
    "between push and request": asked_to_open,
    "once the request is opened": opened_unheard,
}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_delivery_whose_drone_is_killed_ends_with_one_branch_and_one_request(
    family: DeliveringFamily, point: Callable[[DeliveringFamily], bool]
) -> None:
    killed: list[float] = []

    def hear(number: int) -> None:
        if not killed and point(family) and family.kill():
            killed.append(time.time())

    family.shop.git.hear = family.shop.forge.hear = hear
    place(family, len(family.observer.states()))
    until(lambda: killed and not family.open_orders(), ENDED_SECONDS, lambda: f"it ended: {family.observer.states()}")
    newest = max(family.observer.states(), key=lambda state: state.order_id)
    assert newest.attempt == 2 and newest.takeovers == 1, newest
    judge_ends(family.rows, tally := DoorTally("deliveries", 0))
    judge_deliveries(family, tally)
    assert not tally.problems, "\n".join(tally.problems)

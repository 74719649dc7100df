"""Files that an order changed, through the real family: told with it, taken back, and the taking back taken back."""

from pathlib import Path

import pytest

from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus
from tests.journey.conftest import ON_SQLITE, House
from tests.journey.script import HARBOUR, MEND
from tests.journey.test_turns import finished

pytestmark = [pytest.mark.group("turns"), ON_SQLITE]


def pier(house: House, name: str) -> Path:
    """A workspace of the order's own."""
    place = house.workspace / name
    place.mkdir()
    (place / "plank.txt").write_bytes(b"one\r\nrotten\r\n")
    (place / "rope.txt").write_text("never committed")
    return place


def files(place: Path) -> dict[str, bytes]:
    found = (path for path in place.rglob("*") if path.is_file() and ".mcc-workspace" not in path.parts)
    return {str(path.relative_to(place)): path.read_bytes() for path in found}


def mended(house: House, place: Path) -> WorkOrder:
    asked = house.mcc.orders.submit(MEND, agent="general", workspace=place, model=HARBOUR)
    order, _ = finished(house.mcc, asked)
    assert (order.status, order.answer) == (OrderStatus.SUCCEEDED, "The pier is mended.")
    return order


def test_what_an_order_changed_is_told_and_taken_back(house: House) -> None:
    place = pier(house, "pier-1")
    before = files(place)
    order = mended(house, place)
    after = files(place)

    assert after == {"plank.txt": b"one\r\nsound\r\n", "new/bollard.txt": b"iron\n"}
    changes = order.changes
    assert changes is not None and changes.diff is not None
    told = [(one.path, one.change, one.added, one.removed) for one in changes.files]
    assert told == [("new/bollard.txt", "added", 1, 0), ("plank.txt", "modified", 1, 1), ("rope.txt", "deleted", 0, 1)]
    assert "-rotten\r\n+sound\r\n" in house.mcc.orders.artifact(order.id, changes.diff)

    revert, _ = finished(house.mcc, house.mcc.orders.revert(order.id))
    assert revert.status is OrderStatus.SUCCEEDED, revert.detail
    assert files(place) == before and not (place / "new").exists()
    again, _ = finished(house.mcc, house.mcc.orders.revert(revert.id))
    assert again.status is OrderStatus.SUCCEEDED and files(place) == after


def test_what_somebody_else_changed_since_stays_unless_it_is_to_be_overwritten(house: House) -> None:
    place = pier(house, "pier-2")
    before = files(place)
    order = mended(house, place)
    (place / "plank.txt").write_text("a person's\n")

    refused, _ = finished(house.mcc, house.mcc.orders.revert(order.id))
    assert (refused.status, refused.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
    assert "plank.txt" in (refused.detail or "") and (place / "plank.txt").read_text() == "a person's\n"
    assert "rope.txt" not in files(place)
    revert, _ = finished(house.mcc, house.mcc.orders.revert(order.id, overwrite=True))
    assert revert.status is OrderStatus.SUCCEEDED and files(place) == before

"""Claiming several orders in one transaction: same results as one by one."""

from functools import partial

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order_facts import OrderClaimed
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import AnotherWorkspace, WorkspaceNeeded
from mcc.store.rows.values import Claim, ClaimingDrone, ClaimRequest, WorkspaceHold
from tests.conformance.store.scene import Scene, at_once

TOKEN = "token"


def together(scene: Scene, drone: str, *asked: ClaimRequest | str, token: str = TOKEN) -> list[object]:
    wanted = [ClaimRequest(one) if isinstance(one, str) else one for one in asked]
    return list(scene.store.claims.claim_together(wanted, ClaimingDrone("drone-1", drone, token, alone=False)))


def held(found: list[object]) -> list[Claim]:
    assert all(isinstance(one, Claim) for one in found), found
    return [one for one in found if isinstance(one, Claim)]


def placed(scene: Scene, count: int, **fields: object) -> list[str]:
    return [scene.place(f"order {number}", **fields).id for number in range(count)]


def test_what_has_begun_behind_an_order_is_told_with_its_age(scene: Scene) -> None:
    drone, orders = scene.drone(), placed(scene, 4)
    slow, urgent = placed(scene, 1, queue="slow"), placed(scene, 1, priority=0)
    held([scene.claim(orders[0], drone), scene.claim(orders[2], drone)])
    scene.clock.advance(2)
    held([scene.claim(one, drone) for one in (orders[3], *slow, *urgent)])
    scene.clock.advance(1)
    assert scene.store.claims.begun_behind(orders[1]) == {orders[2]: 3.0, orders[3]: 1.0}
    assert scene.store.claims.begun_behind(orders[3]) == {}


def test_each_has_its_own_epoch_entry_and_place_in_the_answer(scene: Scene) -> None:
    drone, orders = scene.drone(), placed(scene, 3)
    again = held([scene.claim(orders[1], drone)])[0]
    scene.store.claims.hand_back([(orders[1], again.epoch)], drone="drone-1", message="back")
    found = held(together(scene, drone, *orders[::-1]))
    assert [one.order.id for one in found] == orders[::-1]
    assert [(one.epoch, one.attempt, one.last_seq) for one in found] == [(1, 1, 2), (3, 2, 4), (1, 1, 2)]
    for one in found:
        entry = scene.store.journal.read(one.order.id)[-1]
        assert one.entry == entry and isinstance(entry.data, OrderClaimed) and entry.data.epoch == one.epoch
        assert one.order == scene.store.orders.get(one.order.id)


def test_the_same_token_again_gives_the_same_claims(scene: Scene) -> None:
    drone, orders = scene.drone(), placed(scene, 3)
    first = held(together(scene, drone, *orders))
    assert held(together(scene, drone, *orders)) == first
    assert together(scene, drone, *orders, token="another") == [None] * 3
    assert all(scene.store.journal.read(one)[-1].seq == 2 for one in orders)


def test_an_order_that_cannot_be_claimed_does_not_affect_the_others(scene: Scene) -> None:
    drone, (free, taken) = scene.drone(), placed(scene, 2)
    later = scene.place("second turn", session_id=scene.store.orders.get(free).session_id).id
    delayed = scene.place("later", not_before=scene.clock.now().replace(year=2030)).id
    scene.claim(taken, scene.drone("other"))
    found = together(scene, drone, taken, delayed, later, "no id", free)
    assert found[:4] == [None] * 4 and held(found[4:])[0].order.id == free


def test_a_cancel_that_was_asked_before_is_seen_with_the_claim(scene: Scene) -> None:
    first, second = held(together(scene, scene.drone(), *(orders := placed(scene, 2))))
    scene.store.controls.request(orders[1], ControlKind.PAUSE, NewControl(), by=Actor("someone"))
    scene.store.claims.hand_back([(one, 1) for one in orders], drone="drone-1", message="back")
    found = held(together(scene, scene.drone("second"), *orders))
    assert [one.control_seq for one in found] == [first.control_seq, second.control_seq]
    assert not scene.store.controls.pending({orders[0]: found[0].control_seq})
    assert scene.store.controls.pending({orders[1]: found[1].control_seq})


def test_orders_of_one_workspace_are_claimed_together(scene: Scene) -> None:
    orders = placed(scene, 4)
    asked = [ClaimRequest(one, WorkspaceHold("tree")) for one in orders[:3]]
    found = held(together(scene, scene.drone(), *asked, ClaimRequest(orders[3])))
    assert [one.order.id for one in found] == list(orders)


def test_orders_that_need_a_workspace_are_reported_and_the_others_claimed(scene: Scene) -> None:
    drone, named, plain = scene.drone(), scene.place("x", workspace="/srv/work").id, scene.place("y").id
    needed, claimed = together(
        scene, drone, ClaimRequest(named, workspace_optional=False), ClaimRequest(plain, workspace_optional=False)
    )
    assert isinstance(needed, WorkspaceNeeded) and needed.order.id == named and not needed.begun
    assert held([claimed])[0].order.id == plain
    assert scene.store.orders.get(named).status is OrderStatus.QUEUED
    own = together(scene, drone, ClaimRequest(named, WorkspaceHold("tree")), token="second")
    scene.store.claims.hand_back([(named, held(own)[0].epoch)], drone="drone-1", message="back")
    elsewhere = together(scene, drone, ClaimRequest(named, WorkspaceHold("wood")), token="third")
    assert isinstance(elsewhere[0], AnotherWorkspace) and elsewhere[0].found == "wood"


def test_two_drones_that_want_the_same_at_once_share_it_without_loss(scene: Scene) -> None:
    orders, drones = placed(scene, 20), [scene.drone(f"drone-{number}") for number in range(3)]
    turns = zip(drones, (orders, orders[::-1], orders), strict=True)
    answers = at_once(*(partial(together, scene, drone, *wanted) for drone, wanted in turns))
    found = [held([one for one in answer if one is not None]) for answer in answers]  # type: ignore[union-attr]
    claimed = [one.order.id for claims in found for one in claims]
    assert sorted(claimed) == sorted(orders) and len(set(claimed)) == 20
    assert all(scene.store.orders.get(one).attempt == 1 for one in orders)


def test_a_group_whose_drone_is_lost_is_handed_on_order_by_order(scene: Scene) -> None:
    orders = placed(scene, 5)
    held(together(scene, scene.drone("lost"), *orders))
    scene.lose()
    second = scene.drone("next")
    found = held(together(scene, second, *orders))
    assert [(one.epoch, one.attempt) for one in found] == [(3, 2)] * 5
    for one in orders:
        assert scene.kinds(one) == ["order.queued", "order.claimed", "order.requeued", "order.claimed"]

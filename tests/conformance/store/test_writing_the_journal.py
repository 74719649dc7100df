"""The journal: numbered 1..N, fenced, exact in every character; a bad entry fails only its own order."""

import json

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentStep, ControlApplied
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.store.rows.values import Appended, Batch, Reached
from tests.conformance.store.scene import Held, Scene, at_once, called, ended, replied, returned, started

HOSTILE = [
    "NUL \x00 in the middle",
    "lone \ud800 surrogate",
    "pair \U0001f600",
    "\ufffd\uffff\u2028\x7f",
    "‮rtl",
    '\r\n\t\\"',
]


def step(message: str = "m") -> AgentStep:
    return AgentStep(name="n", message=message)


def test_entries_of_many_orders_are_appended_together(scene: Scene) -> None:
    drone = scene.drone()
    held = [scene.hold(scene.place().id, drone, token=str(number)) for number in range(5)]
    batches = [one.batch(started(), replied(), replied(round_number=2)) for one in reversed(held)]
    assert scene.store.journal.append(batches) == Appended()
    for one in held:
        assert scene.fold(one.order_id).last_seq == 5
    wanted = {one.order_id: Reached(5, OrderStatus.RUNNING) for one in held}
    assert scene.store.journal.reached([*wanted, "nonsense"]) == wanted


def test_entries_come_back_exactly(scene: Scene) -> None:
    held = scene.running()
    record = held.origin.record_id or ""
    facts: list[Fact] = [
        started("\x00\ud800"),
        *(replied(text, round_number=number) for number, text in enumerate(HOSTILE, start=1)),
        called(record, arguments={"path": "\x00", "\ud800": ["\udfff", 1, 1.5, None, True, {}]}),
        returned(record, content="\ud800\x00"),
        called(record, 2, arguments='{"broken": \ud800\x00'),
    ]
    batch = held.batch(*facts)
    assert scene.store.journal.append([batch]) == Appended()
    assert scene.store.journal.read(held.order_id, after=2) == batch.entries


def test_numbers_that_json_lacks_become_null(scene: Scene) -> None:
    held, other = scene.running(), scene.running()
    record = held.origin.record_id or ""
    wild = called(record, arguments={"x": 1e400, "y": [float("nan")], "z": "\ud800", "big": 10**200})
    answer = scene.store.journal.append([held.batch(started(), wild), other.batch(step())])
    assert answer == Appended()
    [entry] = scene.store.journal.read(held.order_id, after=3)
    assert entry.data.model_dump()["arguments"] == {"x": None, "y": [None], "z": "\ud800", "big": 10**200}


def test_reading_starts_after_a_number(scene: Scene) -> None:
    held = scene.running()
    held.write(*(step(str(number)) for number in range(8)))
    read = scene.store.journal.read
    assert [entry.seq for entry in read(held.order_id, after=3, limit=4)] == [4, 5, 6, 7]
    assert [entry.seq for entry in read(held.order_id)] == list(range(1, 11))
    assert read(held.order_id, after=10) == read(held.order_id, after=999) == []


def test_large_texts_are_kept_apart_and_put_back(scene: Scene) -> None:
    held = scene.running()
    record = held.origin.record_id or ""
    large, huge = "ä\x00\ud800" * 20_000, "x" * 3_000_000
    many = {str(number): "y" * 30_000 for number in range(5)}
    numbers = {"list": list(range(40_000)), "deep": [[["z" * 40_000]]]}
    batch = held.batch(
        started(),
        replied(large),
        returned(record, content=huge),
        called(record, 3, arguments=many),
        called(record, 4, arguments=numbers),
        called(record, 5, arguments="r" * 40_000),
        replied(large, round_number=2),
    )
    assert scene.store.journal.append([batch]) == Appended()
    assert scene.store.journal.read(held.order_id, after=2) == batch.entries


def test_rows_stay_short_and_equal_texts_are_kept_once(scene: Scene) -> None:
    held = scene.running()
    held.write(started(), replied("x" * 1_000_000), replied("x" * 1_000_000, round_number=2))
    held.write(called("r", arguments={str(number): "y" * 30_000 for number in range(9)}))
    database = scene.store.database
    rows = database.read(lambda one: one.exec_driver_sql("SELECT data_json, large_json FROM journal").all())
    assert max(len(row.data_json) for row in rows) <= 64 * 1024
    assert sum(row.large_json is not None for row in rows) == 3
    replies = [json.loads(row.data_json) for row in rows if row.large_json and "blocks" in row.data_json]
    previews = [block["text"] for reply in replies for block in reply["blocks"]]
    assert previews == ["x" * 1000] * 2
    [count] = database.read(lambda one: one.exec_driver_sql("SELECT count(*) FROM blobs").scalars().all())
    assert count == 2


def test_a_large_record_names_the_texts_of_its_journal_and_holds_none_again(scene: Scene) -> None:
    held = scene.running()
    record = held.origin.record_id or ""
    held.write(started())
    for number in range(1, 61):
        content = f"{number} " + "what a file holds\n" * 2_500
        held.write(replied("", round_number=number), called(record, number), returned(record, number, content=content))
    held.write(ended())
    held.finish()
    fold = scene.fold(held.order_id).record()
    assert (scene.store.orders.record(held.order_id) == fold) is True
    database = scene.store.database
    [kept] = database.read(lambda one: one.exec_driver_sql("SELECT sum(length(text_json)) FROM blobs").scalars().all())
    assert 60 * 45_000 < kept < 60 * 50_000


def test_texts_are_kept_once_under_their_digest(scene: Scene) -> None:
    digest = scene.store.texts.keep("a\x00\ud800")
    assert scene.store.texts.keep("a\x00\ud800") == digest
    assert scene.store.texts.kept(digest) == "a\x00\ud800"
    assert scene.store.texts.keep("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    for unknown in ("0" * 64, "", "\x00"):
        with pytest.raises(KeyError):
            scene.store.texts.kept(unknown)


def test_a_batch_sent_again_after_a_lost_answer_is_there_once(scene: Scene) -> None:
    held = scene.running()
    batch = held.batch(started(), replied())
    assert scene.store.journal.append([batch]) == Appended()
    assert scene.store.journal.append([batch]) == Appended()
    assert scene.kinds(held.order_id) == ["order.queued", "order.claimed", "agent.started", "model.replied"]
    assert scene.store.orders.get(held.order_id).usage.model_calls == 1


@pytest.mark.parametrize("more", ["", "x" * 100_000], ids=["rows alone", "a text kept apart"])
def test_another_epoch_or_another_count_is_fenced_and_the_rest_commits(scene: Scene, more: str) -> None:
    zombie, good, wrong = scene.running(), scene.running(), scene.running()
    scene.lose()
    good, wrong = scene.hold(good.order_id, token="2"), scene.hold(wrong.order_id, token="2")
    wrong.last_seq += 5
    answer = scene.store.journal.append(
        [
            zombie.batch(step("late" + more)),
            good.batch(step("in time")),
            wrong.batch(step("miscounted")),
            _unknown(scene),
        ]
    )
    assert answer.fenced == {zombie.order_id, wrong.order_id, "nonsense"}
    assert not answer.culprits
    assert scene.kinds(good.order_id)[-1] == "agent.step"
    for other in (zombie, wrong):
        assert "agent.step" not in scene.kinds(other.order_id)


def _unknown(scene: Scene) -> Batch:
    return Held(scene, "nonsense", 1, 1, 0, 0).batch(step())


def test_a_zombie_is_fenced_though_it_counts_right(scene: Scene) -> None:
    zombie = scene.running()
    scene.store.claims.hand_back([(zombie.order_id, zombie.epoch)], drone="d", message="m")
    zombie.last_seq = scene.store.orders.get(zombie.order_id).last_seq
    assert zombie.write(step()).fenced == {zombie.order_id}
    heir = scene.hold(zombie.order_id, token="2")
    zombie.last_seq = heir.last_seq
    assert zombie.write(step()).fenced == {zombie.order_id}
    assert not heir.write(step()).fenced


def test_an_order_with_data_that_is_refused_is_named_and_the_rest_commits(scene: Scene) -> None:
    drone = scene.drone()
    held = [scene.hold(scene.place().id, drone, token=str(number)) for number in range(3)]
    for one in held:
        record = one.origin.record_id or ""
        assert one.write(started(), called(record), returned(record)) == Appended()
    bad = held[1]
    batches = [held[0].batch(step()), bad.batch(returned(bad.origin.record_id or "")), held[2].batch(step())]
    answer = scene.store.journal.append(batches)
    assert set(answer.culprits) == {bad.order_id} and not answer.fenced
    assert [scene.kinds(one.order_id)[-1] for one in held] == ["agent.step", "tool.finished", "agent.step"]
    assert not bad.write(step()).culprits, "the order itself is unharmed"


@pytest.mark.parametrize("twice", ["agent.started", "agent.finished", "tool.finished"])
def test_facts_that_happen_once_are_written_once(scene: Scene, twice: str) -> None:
    held = scene.running()
    record = held.origin.record_id or ""
    facts: dict[str, Fact] = {
        "agent.started": started(),
        "tool.finished": returned(record),
        "agent.finished": ended(),
    }
    held.write(*facts.values())
    assert held.order_id in held.write(facts[twice]).culprits
    assert held.order_id in held.write(step(), facts[twice]).culprits
    assert scene.kinds(held.order_id).count(twice) == 1


def test_a_subagent_is_delivered_to_its_parent_once(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    first = AgentDelivered(child_id=held.order_id, status=RecordStatus.COMPLETED, content="Found.")
    assert not held.write(first).culprits
    assert held.order_id in held.write(first.model_copy(update={"content": "Found again."})).culprits
    other = first.model_copy(update={"child_id": held.origin.record_id or ""})
    assert not held.write(other).culprits, "another one"


def test_data_nested_too_deeply_to_read_is_refused(scene: Scene) -> None:
    deep: object = 1
    for _ in range(2_000):
        deep = [deep]
    held, other = scene.running(), scene.running()
    answer = scene.store.journal.append([held.batch(called("r", arguments={"deep": deep})), other.batch(step())])
    assert set(answer.culprits) == {held.order_id}
    assert scene.kinds(other.order_id)[-1] == "agent.step"


def test_data_nested_less_deeply_is_read_back(scene: Scene) -> None:
    deep: object = "\ud800"
    for _ in range(260):
        deep = [deep]
    held = scene.running()
    batch = held.batch(called("r", arguments={"deep": deep}))
    assert scene.store.journal.append([batch]) == Appended()
    assert scene.store.journal.read(held.order_id, after=2) == batch.entries


def test_a_batch_that_is_not_numbered_on_is_its_writers_fault(scene: Scene) -> None:
    held = scene.running()
    batch = held.batch(step(), step())
    answer = scene.store.journal.append([Batch(batch.order_id, batch.epoch, batch.last_seq, batch.entries[1:])])
    assert set(answer.culprits) == {held.order_id}
    with pytest.raises(ValueError, match="one batch"):
        scene.store.journal.append([batch, batch])
    assert scene.store.journal.append([]) == Appended()


def test_two_writers_of_many_orders_never_wait_for_each_other(scene: Scene) -> None:
    drone = scene.drone()
    held = [scene.hold(scene.place().id, drone, token=str(number)) for number in range(20)]

    def rounds(orders: list[Held]) -> int:
        for number in range(10):
            batches = [one.batch(step(str(number))) for one in orders]
            assert scene.store.journal.append(batches) == Appended()
            for one in orders:
                one.last_seq += 1
        return len(orders)

    assert at_once(lambda: rounds(held[::2]), lambda: rounds(held[1::2][::-1])) == [10, 10]
    assert {scene.fold(one.order_id).last_seq for one in held} == {12}


def test_two_writers_of_the_same_orders_write_them_once(scene: Scene) -> None:
    drone = scene.drone()
    held = [scene.hold(scene.place().id, drone, token=str(number)) for number in range(8)]
    here = [one.batch(step("same"), step("same")) for one in held]
    answers = at_once(lambda: scene.store.journal.append(here), lambda: scene.store.journal.append(here[::-1]))
    assert answers == [Appended(), Appended()]
    assert {scene.fold(one.order_id).last_seq for one in held} == {4}


def test_applying_a_control_settles_its_receipt_with_the_entry(scene: Scene) -> None:
    held = scene.running()
    control = scene.store.controls.request(held.order_id, ControlKind.STEER, NewControl(message="\x00"), by=Actor("x"))
    held.write(started(), ControlApplied(control_id=control.id, control="steer", message=control.message))
    [receipt] = scene.store.controls.of_order(held.order_id)
    assert (receipt.applied_seq, receipt.applied_at, receipt.message) == (4, scene.clock.now(), "\x00")
    assert scene.store.controls.pending({held.order_id: 0}) == []
    other = scene.running()
    stolen = scene.store.controls.request(other.order_id, ControlKind.STEER, NewControl(message="m"), by=Actor("x"))
    held.write(ControlApplied(control_id=stolen.id, control="steer"))
    assert scene.store.controls.of_order(other.order_id)[0].open, "another order's receipt is not ours to settle"

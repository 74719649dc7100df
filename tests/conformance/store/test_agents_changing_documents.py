"""Changes of documents by agents: committed with their entries, once, and only under the order's epoch."""

from typing import Any

from mcc.contracts.callers import Actor
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.ids import derived_id, root_record_id
from mcc.contracts.journal import AgentStep, DocumentChanged
from mcc.documents.change import Author, DispatchRefused
from mcc.store.database.errors import UnknownDocument
from mcc.store.work.agent_changes import AgentCommands, CommitGroup, Committed, OrderPart, OrderParts, PartResult
from tests.conformance.store.course import begun, changed, commands, minutes, ordered
from tests.conformance.store.scene import Held, Scene, at_once, started
from tests.conformance.store.test_answers_that_got_lost import both, losing


class Generator:
    """An order that generates a document with one lesson, held by a drone."""

    def __init__(self, scene: Scene, lessons: int = 1) -> None:
        self.scene = scene
        self.document_id = begun(scene, lessons=lessons)
        free = [{"command": "release", "node": f"/lesson-{number}"} for number in range(1, lessons + 1)]
        changed(scene, self.document_id, *free)
        self.held = scene.hold(ordered(scene, self.document_id).id)

    def asked(self, *given: dict[str, Any], call: str = "call-1", node: str | None = "/lesson-1") -> AgentCommands:
        origin = Origin(record_id=root_record_id(self.held.order_id), agent="generator")
        author = Author(
            by="agent",
            at=self.scene.clock.now(),
            order_id=self.held.order_id,
            record_id=origin.record_id,
            node=node,
            asked="sha256:asked",
        )
        return AgentCommands(self.document_id, commands(*given), author, origin, derived_id(call, "command"))

    def step(self, text: str) -> Draft:
        return Draft(at=self.scene.clock.now(), origin=self.held.origin, data=AgentStep(name="note", message=text))

    def group(self, *parts: OrderPart, held: Held | None = None) -> CommitGroup:
        held = held or self.held
        return CommitGroup([OrderParts(held.order_id, held.epoch, held.last_seq, parts)])

    def commit(self, *parts: OrderPart) -> list[PartResult]:
        committed = self.scene.store.agent_changes.commit(self.group(*parts))
        answers = committed.answers[self.held.order_id]
        self.held.last_seq += sum(len(answer.entries) for answer in answers)
        return list(answers)

    def change(self, *given: dict[str, Any], **asked: Any) -> PartResult:
        (answer,) = self.commit(OrderPart((), self.asked(*given, **asked)))
        return answer

    @property
    def minutes(self) -> Any:
        state = self.scene.store.documents.state(self.document_id)
        return state.find("/lesson-1").props["minutes"]

    @property
    def told(self) -> list[DocumentChanged]:
        entries = self.scene.store.journal.read(self.held.order_id)
        return [entry.data for entry in entries if isinstance(entry.data, DocumentChanged)]


def test_a_change_and_its_entry_are_committed_together(scene: Scene) -> None:
    one = Generator(scene)
    answer = one.change(minutes(40))
    assert answer.done is not None and answer.done.change.version == 4
    (told,) = one.told
    assert (told.document_id, told.version, told.command, told.node) == (one.document_id, 4, "set_value", "/lesson-1")
    assert (told.fields, told.by, told.command_id) == (("props.minutes",), "agent", derived_id("call-1", "command"))
    assert [entry.data for entry in answer.entries] == [told]
    item = scene.store.documents.history(one.document_id).items[0]
    assert (item.by, item.order_id, item.fields) == ("agent", one.held.order_id, {"props.minutes": (45, 40)})
    one.held.finish()
    assert scene.fold(one.held.order_id).last_seq == one.held.last_seq + 1


def test_entries_and_changes_of_one_group_are_numbered_in_turn(scene: Scene) -> None:
    one = Generator(scene)
    answers = one.commit(
        OrderPart([one.step("first")]),
        OrderPart([one.step("second")], one.asked(minutes(40))),
        OrderPart([], one.asked(minutes("long"), call="call-2")),  # type: ignore[arg-type]
        OrderPart([one.step("third")], one.asked(minutes(30), call="call-3")),
    )
    assert [len(answer.entries) for answer in answers] == [1, 2, 0, 2]
    assert isinstance(answers[2].refused, DispatchRefused) and answers[2].done is None
    assert scene.kinds(one.held.order_id)[2:] == [
        "agent.step",
        "agent.step",
        "document.changed",
        "agent.step",
        "document.changed",
    ]
    assert one.minutes == 30 and [told.version for told in one.told] == [4, 5]


def test_the_same_call_changes_nothing_twice_also_after_a_takeover(scene: Scene) -> None:
    one = Generator(scene)
    first = one.change(minutes(40))
    changed(scene, one.document_id, minutes(25))
    again = one.change(minutes(40))
    assert again.entries == [] and again.done is not None and again.done.repeated
    assert first.done is not None and again.done.answer == first.done.answer
    scene.lose()
    one.held = scene.hold(one.held.order_id, scene.drone("drone-2"), token="another")
    taken = one.change(minutes(40))
    assert taken.done is not None and taken.done.repeated
    assert one.minutes == 25 and len(one.told) == 1


def test_a_fenced_holder_writes_neither(scene: Scene) -> None:
    one = Generator(scene)
    zombie = one.held
    scene.lose()
    one.held = scene.hold(one.held.order_id, scene.drone("drone-2"), token="another")
    group = one.group(OrderPart([one.step("late")], one.asked(minutes(40))), held=zombie)
    assert scene.store.agent_changes.commit(group) == Committed(fenced=frozenset({zombie.order_id}))
    assert one.minutes == 45 and one.told == []
    assert scene.store.documents.summary(one.document_id).version == 3
    one.change(minutes(35))
    assert one.minutes == 35


def test_of_several_orders_only_the_fenced_one_is_left_out(scene: Scene) -> None:
    one, other = Generator(scene), Generator(scene)
    zombie = one.held
    scene.lose()
    one.held = scene.hold(one.held.order_id, scene.drone("drone-2"), token="a")
    other.held = scene.hold(other.held.order_id, scene.drone("drone-3"), token="b")
    group = CommitGroup(
        [
            OrderParts(zombie.order_id, zombie.epoch, zombie.last_seq, [OrderPart([], one.asked(minutes(40)))]),
            OrderParts(
                other.held.order_id, other.held.epoch, other.held.last_seq, [OrderPart([], other.asked(minutes(40)))]
            ),
        ]
    )
    committed = scene.store.agent_changes.commit(group)
    assert committed.fenced == {zombie.order_id} and list(committed.answers) == [other.held.order_id]
    assert (one.minutes, other.minutes) == (45, 40)


@both
def test_a_commit_of_unknown_outcome_happens_once(scene: Scene, committed: bool) -> None:
    one = Generator(scene)
    with losing(scene, committed=committed):
        answers = one.commit(
            OrderPart([one.step("first")], one.asked(minutes(40))),
            OrderPart([], one.asked(minutes("long"), call="call-2")),  # type: ignore[arg-type]
        )
    assert [len(answer.entries) for answer in answers] == [2, 0] and answers[1].refused is not None
    assert one.minutes == 40 and len(one.told) == 1
    assert scene.store.documents.summary(one.document_id).version == 4
    one.change(minutes(35), call="call-3")
    assert scene.fold(one.held.order_id).last_seq == one.held.last_seq
    assert scene.store.documents.state(one.document_id).version == 5


def test_a_group_that_is_sent_again_after_its_commit_is_answered_from_what_it_tried(scene: Scene) -> None:
    one = Generator(scene)
    group = one.group(OrderPart([one.step("first")], one.asked(minutes(40))))
    first = scene.store.agent_changes.commit(group)
    assert scene.store.agent_changes.commit(group) == first
    assert len(one.told) == 1


def test_commands_for_a_deleted_document_are_refused_and_the_order_continues(scene: Scene) -> None:
    one = Generator(scene)
    scene.store.documents.delete(one.document_id, by=Actor("someone"))
    (answer,) = one.commit(OrderPart([one.step("first")], one.asked(minutes(40))))
    assert isinstance(answer.refused, UnknownDocument) and len(answer.entries) == 1


def test_data_that_the_database_refuses_costs_only_its_own_order(scene: Scene) -> None:
    one, other = Generator(scene), Generator(scene)
    began = Draft(at=scene.clock.now(), origin=other.held.origin, data=started())
    groups = [
        one.group(OrderPart([], one.asked(minutes(40)))),
        other.group(OrderPart([began, began], other.asked(minutes(40)))),
    ]
    committed = scene.store.agent_changes.commit(CommitGroup([held for group in groups for held in group.orders]))
    assert list(committed.culprits) == [other.held.order_id] and list(committed.answers) == [one.held.order_id]
    assert (one.minutes, other.minutes) == (40, 45)
    assert scene.kinds(other.held.order_id) == ["order.queued", "order.claimed"]


def test_agents_and_people_at_once_lose_no_update(scene: Scene) -> None:
    one = Generator(scene, lessons=2)

    def agent() -> None:
        for turn in range(10):
            one.change(minutes(10 + turn), call=f"call-{turn}")

    def somebody() -> None:
        for turn in range(10):
            changed(scene, one.document_id, minutes(20 + turn, "/lesson-2"))

    assert at_once(agent, somebody) == [None, None]
    state = scene.store.documents.state(one.document_id)
    assert [node.props["minutes"] for node in state.children_of(state.root)] == [19, 29]
    assert state.version == 23 and len(one.told) == 10

"""Sessions as things: defaults, titles, archive, forks at a turn, read marks, usage, pages of turns."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewFork, NewOrder, WhenBusy, WorkOrder
from mcc.contracts.sessions import NewSession, NewSessionFork, PrunedTurn, SessionChange, SessionDefaults
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.database.errors import ContextIsFixed, OrderIsUnfinished, SessionBusy, UnknownSession, UnknownTurn
from mcc.store.work.session_search import SessionFilter
from tests.conformance.store.scene import Scene, replied, started


def ended(scene: Scene, prompt: str, session_id: str | None = None) -> WorkOrder:
    order = scene.place(prompt, session_id=session_id)
    scene.hold(order.id, token=prompt).finish()
    return order


def test_a_session_keeps_its_defaults_and_only_the_limits_that_were_set(scene: Scene) -> None:
    new = NewSession(title="Talk", agent="review", mode="plan", context="answers", limits=Limits(rounds=5))
    opened = scene.store.sessions.open(new, by=Actor("p"))
    assert (opened.agent, opened.model, opened.mode, opened.context) == ("review", None, "plan", "answers")
    assert opened.limits is not None
    assert opened.limits.model_dump(exclude_unset=True) == {"rounds": 5}
    filled = scene.store.sessions.defaults([opened.id])[opened.id].apply(NewOrder(prompt="x", agent="explore"))
    assert (filled.agent, filled.mode, filled.limits) == ("explore", "plan", Limits(rounds=5))


def test_limits_of_an_order_come_before_those_of_its_session_one_by_one() -> None:
    defaults = SessionDefaults(limits=Limits(rounds=5, cost_usd=0.5))
    filled = defaults.apply(NewOrder(prompt="x", limits=Limits(rounds=7)))
    assert filled.limits is not None
    assert (filled.limits.rounds, filled.limits.cost_usd) == (7, 0.5)


def test_a_change_sets_what_it_names_and_null_unsets_it(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(title="Talk", agent="review", model="fast"), by=Actor("p"))
    change = SessionChange.model_validate({"title": "Other", "model": None, "archived": True})
    changed = scene.store.sessions.change(session.id, change, principal="p")
    assert (changed.title, changed.agent, changed.model, changed.archived) == ("Other", "review", None, True)


def test_the_first_turn_fixes_what_later_turns_are_shown(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(), by=Actor("p"))
    answers, full = SessionChange(context="answers"), SessionChange(context="full")
    assert scene.store.sessions.change(session.id, answers, principal="p").context == "answers"
    scene.place("one", session_id=session.id)
    assert scene.store.sessions.change(session.id, answers, principal="p").context == "answers"
    with pytest.raises(ContextIsFixed):
        scene.store.sessions.change(session.id, full, principal="p")


def test_archived_sessions_are_listed_apart_and_titles_are_found_in_any_case(scene: Scene) -> None:
    opened = [scene.store.sessions.open(NewSession(title=title), by=Actor("p")) for title in ("Über A", "b", "über c")]
    scene.store.sessions.change(opened[0].id, SessionChange(archived=True), principal="p")

    def listed(wanted: SessionFilter) -> list[str]:
        return [one.title for one in scene.store.sessions.list(wanted).items]

    assert listed(SessionFilter(archived=False)) == ["über c", "b"]
    assert listed(SessionFilter(archived=True)) == ["Über A"]
    assert listed(SessionFilter(text="ÜBER")) == ["über c", "Über A"]


def test_a_page_of_a_search_by_title_goes_on_where_the_one_before_ended(scene: Scene) -> None:
    for title in ("x1", "y", "x2", "x3"):
        scene.store.sessions.open(NewSession(title=title), by=Actor("p"))
    first = scene.store.sessions.list(SessionFilter(text="x"), limit=2)
    assert [one.title for one in first.items] == ["x3", "x2"]
    second = scene.store.sessions.list(SessionFilter(text="x", cursor=first.next_cursor), limit=2)
    assert [one.title for one in second.items] == ["x1"]


def test_turns_are_read_newest_first_in_pages(scene: Scene) -> None:
    session_id = ended(scene, "one").session_id
    for prompt in ("two", "three"):
        ended(scene, prompt, session_id)
    page = scene.store.sessions.turns(session_id, limit=2)
    assert [one.prompt for one in page.orders] == ["three", "two"]
    assert page.next_before == 2
    last = scene.store.sessions.turns(session_id, before=page.next_before, limit=2)
    assert ([one.prompt for one in last.orders], last.next_before) == (["one"], None)


def test_a_read_mark_goes_forward_only_and_is_each_principals_own(scene: Scene) -> None:
    session_id = ended(scene, "one").session_id
    ended(scene, "two", session_id)
    assert scene.store.sessions.get(session_id, principal="a").unread == 2
    scene.store.sessions.read(session_id, 2, principal="a")
    scene.store.sessions.read(session_id, 1, principal="a")
    assert scene.store.sessions.get(session_id, principal="a").unread == 0
    assert scene.store.sessions.get(session_id, principal="b").unread == 2
    with pytest.raises(UnknownTurn):
        scene.store.sessions.read(session_id, 3, principal="a")


def test_a_session_has_used_what_its_turns_have(scene: Scene) -> None:
    first = scene.place("one")
    held = scene.hold(first.id)
    held.write(started(), replied(tokens=3))
    held.finish()
    second = scene.place("two", session_id=first.session_id)
    scene.hold(second.id, token="two").write(started(), replied(tokens=4))
    by_turn = scene.store.sessions.usage(first.session_id)
    assert [(one.turn, one.order_id, one.usage.input_tokens) for one in by_turn] == [
        (1, first.id, 3),
        (2, second.id, 4),
    ]
    one, two = (scene.store.orders.get(order.id).usage for order in (first, second))
    assert scene.store.sessions.get(first.session_id).usage == one.plus(two)


def test_a_fork_is_shown_the_turns_up_to_its_own(scene: Scene) -> None:
    new = NewSession(title="Talk", agent="review", context="answers")
    session = scene.store.sessions.open(new, by=Actor("p"))
    second = [ended(scene, prompt, session.id) for prompt in ("one", "two", "three")][1]
    fork = scene.store.sessions.fork(session.id, NewSessionFork(turn=2), by=Actor("p"))
    assert (fork.title, fork.turns, fork.agent, fork.context) == ("Fork: Talk", 0, "review", "answers")
    assert fork.forked_from is not None
    assert (fork.forked_from.session_id, fork.forked_from.turn, fork.forked_from.order_id) == (session.id, 2, second.id)
    turn = scene.place("other", session_id=fork.id)
    again = scene.store.sessions.fork(session.id, NewSessionFork(turn=1, title="Mine"), by=Actor("p"))
    shown = [ended.order_id for ended in scene.store.transcripts.past(turn).turns]
    assert [scene.store.orders.get(order_id).prompt for order_id in shown] == ["one", "two"]
    assert again.title == "Mine"


def test_a_fork_of_an_order_says_which_turn_it_is_of(scene: Scene) -> None:
    first = ended(scene, "one")
    fork = scene.store.orders.fork(first.id, NewFork(after=1), by=Actor("p")).order
    forked = scene.store.sessions.get(fork.session_id).forked_from
    assert forked is not None
    assert (forked.session_id, forked.turn, forked.order_id) == (first.session_id, 1, first.id)


def test_a_turn_that_runs_or_does_not_exist_is_not_forked(scene: Scene) -> None:
    order = scene.place("one")
    with pytest.raises(OrderIsUnfinished):
        scene.store.sessions.fork(order.session_id, NewSessionFork(turn=1), by=Actor("p"))
    with pytest.raises(UnknownTurn):
        scene.store.sessions.fork(order.session_id, NewSessionFork(turn=2), by=Actor("p"))
    with pytest.raises(UnknownSession):
        scene.store.sessions.fork(fresh_id(), NewSessionFork(turn=1), by=Actor("p"))


def test_an_export_has_prompt_and_answer_of_a_turn_whose_journal_was_pruned(scene: Scene) -> None:
    first = ended(scene, "one")
    scene.clock.advance(60)
    ended(scene, "two", first.session_id)
    for _ in scene.store.retention.clear(first.created_at):
        pass
    exported = scene.store.sessions.exported(first.session_id, after=0, limit=10)
    assert [type(turn) for _, turn in exported] == [PrunedTurn, WorkOrder]
    assert isinstance(exported[0][1], PrunedTurn)
    assert (exported[0][1].prompt, exported[0][1].answer) == ("one", "the answer")


@pytest.mark.parametrize("when_busy", WhenBusy)
def test_of_ten_clients_that_race_each_gets_what_it_asked_for(scene: Scene, when_busy: WhenBusy) -> None:
    session = scene.store.sessions.open(NewSession(), by=Actor("p"))

    def place(number: int) -> OrderStatus | str:
        new = NewOrder(prompt=f"turn {number}", session_id=session.id, when_busy=when_busy)
        try:
            return scene.store.orders.place(new, by=Actor("p")).order.id
        except SessionBusy:
            return "refused"

    with ThreadPoolExecutor(10) as clients:
        answers = list(clients.map(place, range(10)))
    orders = scene.store.sessions.turns(session.id, limit=200).orders
    assert [one.session_seq for one in reversed(orders)] == list(range(1, len(orders) + 1))
    unfinished = [one for one in orders if one.status not in FINAL]
    match when_busy:
        case WhenBusy.REJECT:
            assert (len(orders), answers.count("refused")) == (1, 9)
        case WhenBusy.INTERRUPT | WhenBusy.ROLLBACK:
            assert (len(orders), len(unfinished), unfinished[0].session_seq) == (10, 1, 10)
            assert sum(one.left_out for one in orders) == (9 if when_busy is WhenBusy.ROLLBACK else 0)
        case WhenBusy.ENQUEUE | WhenBusy.STEER:
            assert (len(orders), len(unfinished), len(set(answers))) == (10, 10, 10)

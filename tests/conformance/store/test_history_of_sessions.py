"""The history of sessions: what was said is found by words, the same on every database, by whom it concerns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.sessions import NewSessionFork
from mcc.contracts.status import OrderStatus
from mcc.redaction import Redactor
from mcc.store.database.errors import UnknownSession
from mcc.store.history.history import Matches
from mcc.store.history.ranking import best_matches
from mcc.store.history.scope import PastTurn, turn_of
from mcc.store.rows.note_rows import WORDS
from mcc.store.rows.words import stored_words, terms_of
from tests.conformance.store.scene import Held, Scene, at_once, called, ended, replied, returned, started

LONG_LEASE = 10**6


def turn(scene: Scene, prompt: str, session_id: str | None = None, answer: str = "done") -> WorkOrder:
    """An ended turn, a minute after the one before."""
    scene.clock.advance(60)
    order = scene.place(prompt, session_id=session_id)
    held = scene.hold(order.id, scene.drone(lease_seconds=LONG_LEASE), token=order.id)
    held.write(started(prompt))
    held.finish(OrderStatus.SUCCEEDED, ended(answer))
    return order


def session_of(scene: Scene, *prompts: str) -> WorkOrder:
    """The last one of these turns."""
    last: WorkOrder | None = None
    for prompt in prompts:
        last = turn(scene, prompt, last.session_id if last else None)
    assert last is not None
    return last


def following(scene: Scene, order: WorkOrder) -> WorkOrder:
    scene.clock.advance(60)
    return scene.place("next", session_id=order.session_id)


def search(scene: Scene, turns: Sequence[PastTurn], question: str, **more: Any) -> Matches:
    return scene.store.history.search(turns, question, str, **more)


def places(matches: Matches) -> list[str]:
    return [f"{match.item.turn}/{match.item.seq}" for match in matches.matches]


def found(scene: Scene, order: WorkOrder, question: str, **more: Any) -> list[str]:
    """Where an agent of this order finds words, as "300/17"."""
    return places(search(scene, scene.store.history.before(order), question, **more))


TALK = (
    "The database of the harbour listens on port 6111 and is backed up nightly",
    "Deploying to the staging cluster needs the word pelican",
    "数据库 端口 是 六一一一",
    "قاعدة البيانات على المنفذ ٦١١١",
    "Café Zürich straße ǅungla e-mail bob@example.org https://example.org/a_b?c=1e5",
    "The deploy failed: ports 7000 and 7001 were taken, databases were locked",
    "A port, a port, a port",
    "nul \x00 and joined\u200dwords and surrogate 1e5 -12.5 0x1F v2.0.1",
)


RANKED: Mapping[str, list[int]] = {
    "database": [6, 1],
    "Databases": [6, 1],
    "database port harbour": [1, 6, 7],
    "which ports were taken": [6, 7, 1],
    "deployed": [6, 2],
    "数据库": [3],
    "端": [3],
    "البيانات": [4],
    "٦١١١": [4],
    "CAFÉ": [5],
    "cafe": [],
    "strasse": [5],
    "bob@example.org": [5],
    "1e5": [8, 5],
    "12": [8],
    "1": [8],
    "0x1f": [8],
    "surrogate \ud800 \x00": [8],
    "pelic": [2],
    "elican": [],
    "AND OR NOT NEAR": [8, 6, 1],
    'pelican" OR "port': [2, 7, 6, 1],
    "pelican:* | !port & <-> '": [2, 7, 6, 1],
    "words:pelican ^port* {": [2, 8, 7, 6, 1],
    "';--)(\"": [],
    "": [],
}
"""By question, the turns of the talk in which it is found, best first."""


def test_every_database_ranks_alike(scene: Scene) -> None:
    turns = scene.store.history.of_session(session_of(scene, *TALK).session_id)
    ranked = {
        question: [match.item.turn for match in search(scene, turns, question, limit=50).matches] for question in RANKED
    }
    assert ranked == RANKED


def test_nul_and_lone_surrogates_in_results_do_no_harm(scene: Scene) -> None:
    first = scene.place("one")
    held = scene.hold(first.id)
    root = held.origin.record_id
    assert root is not None
    held.write(started("one"), called(root), returned(root, content="pelican\x00\ud800heron \udfff\u202e"))
    held.finish()
    (match,) = search(scene, scene.store.history.before(following(scene, first)), "heron \udfff").matches
    assert match.item.excerpt == "read_file: pelican\x00\ud800heron \udfff\u202e"


def test_a_rare_word_counts_more_than_a_common_one_and_then_the_newer_entry(scene: Scene) -> None:
    last = session_of(scene, "port pelican", "port heron", "port", "port harbour", "port", "heron harbour")
    assert found(scene, following(scene, last), "port pelican heron") == ["1/1", "2/1", "6/1", "5/1", "4/1", "3/1"]


def test_the_prompt_of_the_order_that_asks_comes_behind_all_that_others_said(scene: Scene) -> None:
    last = session_of(scene, "which port has the heron", "the port of the pelican is 6111", "nothing")
    question = "which port has the pelican"
    asking = scene.place(question, session_id=last.session_id)
    assert found(scene, asking, question) == ["4/1", "1/1", "2/1"]
    assert found(scene, asking, question, asker=asking.id) == ["1/1", "2/1", "4/1"]
    assert found(scene, asking, question, asker=asking.id, limit=2) == ["1/1", "2/1"]
    assert found(scene, asking, question, asker=last.id) == ["4/1", "1/1", "2/1"]


def test_a_word_that_nearly_all_have_counts_only_where_no_other_does(scene: Scene) -> None:
    last = session_of(scene, "port pelican tern", "port tern", "port", "tern", "port heron", "tern port")
    turns = scene.store.history.before(following(scene, last))
    scene.store.history.index(turns, str)

    def ranked(question: str) -> list[int]:
        terms = terms_of(question)
        numbers = scene.store.database.read(lambda link: best_matches(link, turns, terms, 50, common=2))
        return [by_number[number] for number in numbers]

    by_number: dict[int, int] = dict(
        scene.store.database.read(lambda link: link.exec_driver_sql("SELECT id, turn FROM history_entries").all())
    )
    assert ranked("port pelican") == [1], "port is too common beside a rare word"
    assert ranked("port") == [6, 5], "the newest alone"
    assert ranked("port tern") == [6, 2, 5, 4], "those that have both, then the newest that have one"


def test_a_question_of_a_million_characters_is_cut(scene: Scene) -> None:
    order = following(scene, session_of(scene, "pelican", "heron"))
    words = " ".join(f"word{number}" for number in range(100_000))
    assert found(scene, order, f"pelican {words}") == ["1/1"]
    assert found(scene, order, f"{words} pelican") == []
    assert found(scene, order, "\x00'\"*:^(){}-" * 100_000) == []
    assert len(terms_of(words)) == WORDS
    assert len(terms_of("x" * 1_000_000)) == 1


def test_only_a_bounded_part_of_a_text_is_indexed() -> None:
    assert len(stored_words("数" * 1_000_000)) < 300
    assert len(stored_words(" ".join(f"w{number}" for number in range(100_000))).split()) < 4_000


BIRDS = (
    "jackdaw",
    "albatross",
    "bittern",
    "cormorant",
    "dunlin",
    "egret",
    "flamingo",
    "goldfinch",
    "heron",
    "ibis",
)


def told(held: Held) -> None:
    """All kinds of entries with words, of the root and of a child."""
    root = held.origin.record_id
    assert root is not None
    child = Origin(record_id="child", parent_id=root, agent="scout", depth=1)
    held.write(started("prompting"), replied("albatross"), called(root, arguments={"path": "bittern"}))
    held.write(started("cormorant"), replied("dunlin"), called("child"), origin=child)
    held.write(returned("child", content="egret"), ended("flamingo"), origin=child)
    held.write(returned(root, content="goldfinch"))
    held.write(ControlApplied(control_id=fresh_id(), control="steer", mode="inject", message="heron"))
    held.finish(OrderStatus.SUCCEEDED, ended("ibis"))


def test_everything_that_was_said_is_found_with_its_author_and_kind(scene: Scene) -> None:
    first = scene.place("jackdaw")
    told(scene.hold(first.id))
    turns = scene.store.history.before(following(scene, first))
    kinds: dict[str, tuple[str, str | None, str]] = {}
    for word in BIRDS:
        (match,) = search(scene, turns, word).matches
        kinds[word] = (match.item.kind, match.item.agent, match.item.excerpt)
    assert kinds == {
        "jackdaw": ("prompt", None, "jackdaw"),
        "albatross": ("text", "master", "albatross"),
        "bittern": ("call", "master", 'read_file: {"path":"bittern"}'),
        "cormorant": ("task", "scout", "cormorant"),
        "dunlin": ("text", "scout", "dunlin"),
        "egret": ("tool", "scout", "read_file: egret"),
        "flamingo": ("report", "scout", "flamingo"),
        "goldfinch": ("tool", "master", "read_file: goldfinch"),
        "heron": ("steer", "master", "heron"),
        "ibis": ("answer", "master", "ibis"),
    }


def test_an_excerpt_shows_the_words_in_the_middle_of_a_long_text(scene: Scene) -> None:
    text = f"{'reed ' * 1_000}the pelican sits on the pier {'reed ' * 1_000}"
    order = following(scene, session_of(scene, text))
    (match,) = search(scene, scene.store.history.before(order), "pier pelican").matches
    excerpt = match.item.excerpt
    assert "the pelican sits on the pier" in excerpt and len(excerpt) <= 240
    assert excerpt.startswith("…") and excerpt.endswith("…")


def test_a_turn_finds_the_turns_before_it_and_what_it_has_committed_itself(scene: Scene) -> None:
    first = turn(scene, "pelican one")
    second = following(scene, first)
    third = scene.place("pelican three", session_id=first.session_id)
    held = scene.hold(second.id, scene.drone(lease_seconds=LONG_LEASE))
    scene.clock.advance(60)
    held.write(started("next"), replied("pelican two"))
    assert found(scene, second, "pelican") == ["2/4", "1/1"]
    assert found(scene, third, "pelican") == ["2/4", "3/1", "1/1"]
    scene.clock.advance(60)
    held.write(replied("pelican again", round_number=2))
    assert found(scene, second, "pelican") == ["2/5", "2/4", "1/1"], "an order that runs is indexed further"
    assert found(scene, turn(scene, "pelican of another session"), "pelican") == ["1/1"]


def test_what_was_rolled_back_is_for_people_alone_and_flagged(scene: Scene) -> None:
    first = turn(scene, "pelican one")
    second = turn(scene, "pelican two", first.session_id)
    scene.store.orders.roll_back(second.id, by=Actor("p"))
    third = following(scene, second)
    assert found(scene, third, "pelican") == ["1/1"]
    people = search(scene, scene.store.history.of_session(first.session_id), "pelican").found
    assert [(item.turn, item.left_out) for item in people.items] == [(2, True), (1, False)]


def test_a_fork_finds_what_came_before_it_in_its_source(scene: Scene) -> None:
    first = turn(scene, "pelican one")
    second = turn(scene, "pelican two", first.session_id)
    turn(scene, "pelican three", first.session_id)
    scene.clock.advance(60)
    fork = scene.store.orders.fork(second.id, NewFork(after=1, prompt="pelican fork"), by=Actor("p")).order
    assert found(scene, fork, "pelican") == ["1/1", "1/1"]
    session = scene.store.sessions.fork(first.session_id, NewSessionFork(turn=2), by=Actor("p"))
    later = turn(scene, "pelican again", session.id)
    matches = search(scene, scene.store.history.before(later), "pelican").matches
    assert [(match.item.turn, match.back) for match in matches] == [(1, 0), (2, 1), (1, 1)]
    people = search(scene, scene.store.history.of_session(session.id), "pelican")
    assert [(match.item.turn, match.item.back) for match in people.matches] == [(1, 0), (2, 1), (1, 1)]
    turns = scene.store.history.of_session(session.id)
    assert [turn_of(turns, 1, back) for back in (None, 0, 1, 2)] == [turns[0], turns[0], turns[2], None]
    unread = replace(people, not_searched=turns, pruned=turns[1:]).found
    own, source = (session.id, 0), (first.session_id, 1)
    assert (unread.not_searched, unread.pruned) == ((1, 2), (1, 2))
    named = [(one.turn, one.session_id, one.back) for one in unread.turns_not_searched]
    assert named == [(1, *own), (2, *source), (1, *source)]
    assert [one.order_id for one in unread.turns_pruned] == [second.id, first.id]
    scene.store.removal.begin(first.session_id, by=Actor("p"))
    assert found(scene, later, "pelican") == ["1/1"], "a session that was deleted is gone for its forks too"


def test_a_retry_finds_what_the_turn_found_that_it_repeats(scene: Scene) -> None:
    first = turn(scene, "pelican one")
    second = turn(scene, "pelican two", first.session_id)
    turn(scene, "pelican three", first.session_id)
    again = scene.store.orders.retry(second.id, by=Actor("p")).order
    assert found(scene, again, "pelican") == ["4/1", "1/1"]


def test_what_was_not_reached_in_time_is_named_and_found_the_next_time(scene: Scene) -> None:
    order = following(scene, session_of(scene, "pelican one", "pelican two"))
    turns = scene.store.history.before(order)
    late = search(scene, turns, "pelican", seconds=0)
    assert (places(late), late.found.not_searched) == ([], (1, 2, 3))
    done = search(scene, turns, "pelican")
    assert (places(done), done.found.not_searched) == (["2/1", "1/1"], ())


def test_indexing_goes_on_where_it_stopped_and_twice_at_once_does_no_harm(scene: Scene) -> None:
    first = scene.place("pelican")
    held = scene.hold(first.id, scene.drone(lease_seconds=LONG_LEASE))
    held.write(started("pelican"), *(replied(f"heron {number}", round_number=number) for number in range(450)))
    held.finish()
    turns = scene.store.history.before(following(scene, first))
    at_once(*[lambda: scene.store.history.index(turns, str)] * 2)
    assert [one.indexed for one in scene.store.history.of_session(first.session_id)][-1] == turns[-1].last_seq
    assert len(search(scene, turns, "heron 449", limit=50).matches) == 50
    assert places(search(scene, turns, "449")) == ["1/454"]


def prune(scene: Scene) -> None:
    scene.clock.advance(timedelta(days=40).total_seconds())
    for _ in scene.store.retention.clear(scene.clock.now() - timedelta(days=30)):
        pass


@pytest.mark.parametrize("indexed_before", [True, False])
def test_of_a_pruned_turn_prompt_steers_and_answer_are_left_which_is_said(scene: Scene, indexed_before: bool) -> None:
    first = scene.place("jackdaw")
    told(scene.hold(first.id))
    if indexed_before:
        search(scene, scene.store.history.of_session(first.session_id), "any")
    prune(scene)
    turns = scene.store.history.before(following(scene, first))
    kinds = {
        word: [match.item.kind for match in search(scene, turns, word).matches]
        for word in ("jackdaw", "albatross", "bittern", "egret", "goldfinch", "heron")
    }
    nothing: Sequence[str] = ("albatross", "bittern", "egret", "goldfinch")
    assert kinds == {"jackdaw": ["prompt"], "heron": ["steer"], **{word: [] for word in nothing}}
    answer = search(scene, turns, "ibis answer")
    assert [(match.item.kind, match.item.excerpt) for match in answer.matches] == [("answer", "the answer")]
    assert answer.found.pruned == (1,)
    assert [entry.spoken.kind for entry in scene.store.history.said(turns[-1], 0).said] == ["prompt", "steer", "answer"]


def test_what_is_said_of_a_packed_turn_is_read_from_its_pack(scene: Scene) -> None:
    first = scene.place("jackdaw")
    told(scene.hold(first.id))
    scene.clock.advance(7_200)
    assert list(scene.store.packing.pack(scene.clock.now())) == [first.id]
    turns = scene.store.history.before(following(scene, first))
    assert [match.item.excerpt for match in search(scene, turns, "egret").matches] == ["read_file: egret"]


def test_secrets_are_neither_indexed_nor_shown(scene: Scene) -> None:
    order = following(scene, session_of(scene, "the key is sk-veryverysecretkey1 of the pelican"))
    redact = Redactor(["sk-veryverysecretkey1"]).text
    turns = scene.store.history.before(order)
    (match,) = scene.store.history.search(turns, "pelican", redact).matches
    assert "secretkey" not in match.item.excerpt
    assert scene.store.history.search(turns, "veryverysecretkey1", redact).matches == []


def test_texts_of_the_history_are_found_by_their_handles_and_others_are_not(scene: Scene) -> None:
    first, other = turn(scene, "one"), turn(scene, "of another session")
    mine, strange = (scene.store.texts.keep(f"text of {one.id}", owner=one.id) for one in (first, other))
    turns = scene.store.history.before(following(scene, first))
    assert scene.store.history.artifact(turns, mine[:16]) == mine
    assert scene.store.history.artifact(turns, mine) == mine
    assert scene.store.history.artifact(turns, strange[:16]) is None


def test_a_deleted_session_leaves_nothing_to_search(scene: Scene) -> None:
    last = session_of(scene, "pelican", "heron")
    search(scene, scene.store.history.of_session(last.session_id), "pelican")
    scene.store.removal.begin(last.session_id, by=Actor("p"))
    with pytest.raises(UnknownSession):
        scene.store.history.of_session(last.session_id)
    for _ in range(3):
        assert scene.store.removal.advance() == {}
    count = "SELECT count(*) FROM history_entries"
    assert scene.store.database.read(lambda link: link.exec_driver_sql(count).scalar()) == 0
    if scene.kind == "sqlite":
        match = "SELECT count(*) FROM history_words WHERE history_words MATCH 'wpelican OR wheron'"
        assert scene.store.database.read(lambda link: link.exec_driver_sql(match).scalar()) == 0


def test_an_order_that_was_cancelled_before_it_began_has_its_prompt_in_the_history(scene: Scene) -> None:
    first = scene.place("pelican")
    scene.store.controls.request(first.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    assert found(scene, following(scene, first), "pelican") == ["1/1"]

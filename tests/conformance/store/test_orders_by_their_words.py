"""Orders are found by the words of their prompts and answers, soon after they are placed and when they have ended."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.order_lists import OrderCriteria, OrderPage
from mcc.store.database.migrate import downgrade, upgrade
from mcc.store.database.tables import LIST_PROGRESS, ORDER_WORDS
from mcc.store.lists.order_scan import ScanBounds
from mcc.store.lists.usage import UsageQuery
from mcc.store.store import open_store
from mcc.store.upkeep import order_words
from mcc.store.upkeep.order_words import OrderWords
from mcc.testing import FakeClock
from tests.conformance.store.scene import Scene, at_once, replied, started


def page(scene: Scene, text: str, **filters: Any) -> OrderPage:
    return scene.store.order_lists.find(OrderCriteria(text=text, **filters))


def found(scene: Scene, text: str, **filters: Any) -> list[str]:
    return [order.id for order in page(scene, text, **filters).items]


def fill(scene: Scene) -> int:
    return scene.store.order_words.advance(young_seconds=0)


def ended(scene: Scene, prompt: str, answer: str) -> str:
    held = scene.running(prompt)
    held.write(started(), replied())
    ending = held.ending()
    outcome = ending.outcome.model_copy(update={"answer": answer})
    scene.store.claims.finish(replace(ending, outcome=outcome))
    return held.order_id


def as_before_the_upgrade(scene: Scene) -> None:
    """As a database is whose orders a version before has placed."""

    def forget(connection: sa.Connection) -> None:
        connection.execute(sa.delete(ORDER_WORDS))
        connection.execute(sa.delete(LIST_PROGRESS))
        connection.execute(sa.insert(LIST_PROGRESS), {"name": "words", "reached": "g"})
        upto = {"name": "words_upto", "reached": fresh_id()}
        connection.execute(sa.insert(LIST_PROGRESS), upto)

    scene.store.database.write(forget)


def test_all_words_have_to_be_there_as_words_or_as_their_beginnings(scene: Scene) -> None:
    pelican = scene.place("Where do pelicans nest in Überlingen?").id
    heron = scene.place("Where do herons nest?").id
    assert found(scene, "nest") == []
    assert fill(scene) == 2
    assert found(scene, "nest") == [heron, pelican]
    assert found(scene, "pelican") == found(scene, "NESTS Pelicans") == found(scene, "überl") == [pelican]
    assert found(scene, "pelican heron") == found(scene, "elican") == []
    # Short words are not the beginnings of others.
    assert found(scene, "do") == [heron, pelican] and found(scene, "d") == []


def test_the_words_of_an_answer_are_found_when_its_order_has_ended(scene: Scene) -> None:
    order_id = ended(scene, "What is red?", "Flamingos are.")
    assert found(scene, "flamingo") == []
    scene.store.tallying.advance()
    assert found(scene, "flamingo") == found(scene, "red flamingo") == [order_id]


def test_an_answer_is_added_to_the_words_of_a_prompt(scene: Scene) -> None:
    held = scene.running("What is red?")
    fill(scene)
    assert found(scene, "red") == [held.order_id]
    held.write(started(), replied())
    held.finish()
    scene.store.tallying.advance()
    assert found(scene, "answer") == found(scene, "red answer") == [held.order_id]
    assert fill(scene) == 0


def test_orders_that_have_just_been_placed_are_left_alone(scene: Scene) -> None:
    scene.place("What is red?")
    assert scene.store.order_words.advance(young_seconds=3_600) == 0
    assert fill(scene) == 1


def test_text_is_one_filter_of_several(scene: Scene) -> None:
    review = scene.place("Mend the fence", agent="review", labels=["nightly"]).id
    master = scene.place("Mend the roof", labels=["nightly"]).id
    fill(scene)
    assert found(scene, "mend") == [master, review]
    assert (
        found(scene, "mend", agent=["review"]) == found(scene, "mend", label=["nightly"], agent=["review"]) == [review]
    )
    assert found(scene, "roof", agent=["review"]) == []
    assert found(scene, "mend", status=["running"]) == []


@pytest.mark.parametrize("probed", [0, 1_000])
def test_a_common_word_is_looked_for_in_orders_and_a_rare_one_in_the_index(scene: Scene, probed: int) -> None:
    ids = [scene.place(f"number {number} of many").id for number in range(6)]
    fill(scene)
    bounds = ScanBounds(chunk=2, probed=probed)

    def scanned(text: str, cursor: str | None = None) -> Any:
        return scene.store.database.read(lambda one: bounds.ids(one, OrderCriteria(text=text), cursor, 4))

    first = scanned("many")
    assert list(first.ids) == ids[:1:-1] and first.next_cursor == ids[2]
    assert list(scanned("many", first.next_cursor).ids) == ids[1::-1]
    assert list(scanned("many 1").ids) == [ids[1]]
    assert list(scanned("many 5").ids) == [ids[5]]
    assert list(scanned("nowhere").ids) == []


@pytest.mark.parametrize(
    "text",
    [
        "'",
        '"',
        "\\",
        "red' & !blue | (green <-> x):*",
        'red" OR "blue" NEAR(a b) NOT -x ^y z*',
        "order_words_index: red",
        "%_% \x00 red",
        "red'); DROP TABLE order_words; --",
        "\u202e\u0000\uffff\U0001f600",
        "x " * 5_000,
        "y" * 10_000,
        "'" * 10_000,
    ],
)
def test_no_text_reaches_the_query_language_of_a_database(scene: Scene, text: str) -> None:
    scene.place("something else")
    fill(scene)
    assert found(scene, text) == []
    assert found(scene, "something") != []


def test_a_text_without_a_word_finds_nothing(scene: Scene) -> None:
    scene.place("do it")
    fill(scene)
    assert page(scene, "?!") == OrderPage(items=())


@pytest.mark.parametrize("prompt", ["\x00 red", "red " * 20_000, "r\u0065\u0301d red", "w" * 300 + " red"])
def test_any_prompt_has_its_words(scene: Scene, prompt: str) -> None:
    order_id = scene.place(prompt).id
    fill(scene)
    assert found(scene, "red") == [order_id]


def test_any_answer_has_its_words(scene: Scene) -> None:
    order_id = ended(scene, "do it", "blue \ud800 \x00 \u202e red")
    scene.store.tallying.advance()
    assert found(scene, "blue red") == [order_id]


def test_older_orders_get_their_words_newest_first_and_it_is_told_how_far(scene: Scene) -> None:
    old, answered = scene.place("red one").id, ended(scene, "red two", "blue")
    scene.store.tallying.advance()
    as_before_the_upgrade(scene)
    new = scene.place("red three").id
    before = page(scene, "red")
    assert not before.items and before.next_cursor is not None
    assert before.searched_to is not None and before.searched_to == scene.store.orders.get(new).created_at
    assert fill(scene) > 0
    assert found(scene, "red") == [new, answered, old]
    assert found(scene, "blue") == [answered]
    # The step that finds no older one says so.
    fill(scene)
    after = page(scene, "red")
    assert (after.next_cursor, after.searched_to) == (None, None)


def test_an_upgrade_counts_from_now_on_and_makes_older_orders_findable(database_url: str) -> None:
    clock = FakeClock()
    with closing(open_store(database_url, clock=clock)) as store:
        old = Scene(store, clock, "").place("red").id
    downgrade(database_url, "r013")
    upgrade(database_url)
    with closing(open_store(database_url, clock=clock)) as store:
        scene = Scene(store, clock, "")
        assert found(scene, "red") == [] and page(scene, "red").next_cursor is not None
        fill(scene)
        new = scene.place("red").id
        fill(scene)
        assert found(scene, "red") == [new, old] and page(scene, "red").next_cursor is None
        today = datetime.now(UTC).date()
        since = store.usage.report(UsageQuery("day", today, today)).since
        assert since is not None and since.year >= 2026


def test_a_step_stops_at_a_bound_and_the_next_one_goes_on(scene: Scene) -> None:
    ids = [scene.place("red " * 6_000).id for _ in range(4)]
    as_before_the_upgrade(scene)
    small = OrderWords(scene.store.database, older_bytes=50_000)
    small.advance(young_seconds=3_600)
    part = page(scene, "red")
    assert [order.id for order in part.items] == [ids[3], ids[2]]
    assert part.searched_to == scene.store.orders.get(ids[1]).created_at
    # From that cursor the page goes on once there is more.
    small.advance(young_seconds=3_600)
    rest = scene.store.order_lists.find(OrderCriteria(text="red"), cursor=part.next_cursor)
    assert [order.id for order in rest.items] == [ids[1], ids[0]]


def test_several_processes_give_words_at_the_same_time(scene: Scene) -> None:
    ids = [scene.place("red").id for _ in range(20)]
    fillers = [OrderWords(scene.store.database) for _ in range(4)]
    counts = at_once(*(lambda filler=filler: filler.advance(young_seconds=0) for filler in fillers))
    assert all(isinstance(count, int) for count in counts), counts
    assert found(scene, "red") == ids[::-1]


def test_orders_of_one_moment_have_numbers_of_their_own(scene: Scene) -> None:
    alike = [f"01890000-0000-7000-8000-00000000000{digit}" for digit in "012"]
    numbers = scene.store.database.read(lambda one: order_words._numbers(one, alike))
    first = numbers[alike[0]]
    assert [numbers[order_id] - first for order_id in alike] == [0, 1, 2]
    later = scene.store.database.read(lambda one: order_words._numbers(one, [fresh_id()]))
    assert all(number > first for number in later.values())


def test_the_words_of_a_deleted_order_go_with_it(scene: Scene) -> None:
    held = scene.running("red")
    held.finish()
    scene.store.tallying.advance()
    scene.store.removal.begin(scene.store.orders.get(held.order_id).session_id, by=Actor("someone"))
    scene.store.removal.advance()
    rows = scene.store.database.read(lambda one: one.execute(sa.select(ORDER_WORDS)).all())
    assert rows == []
    if scene.kind == "sqlite":
        match = sa.text("SELECT count(*) FROM order_words_index WHERE order_words_index MATCH 'wred'")
        assert scene.store.database.read(lambda one: one.execute(match).scalar_one()) == 0


def test_words_of_an_order_that_is_deleted_meanwhile_are_not_stored(scene: Scene) -> None:
    gone = order_words.WordsOfOrder(fresh_id(), " wred ")
    scene.store.database.write(lambda one: order_words.add_words(one, [gone], ended=True))
    assert scene.store.database.read(lambda one: one.execute(sa.select(ORDER_WORDS)).all()) == []

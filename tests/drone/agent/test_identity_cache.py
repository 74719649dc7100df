"""The cache returns one result for the same objects, and never that of other objects that are equal."""

from drone.agent.ports.identity_cache import IdentityCache


class Thing:
    """Equal to every other one, and unhashable."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    __hash__ = None  # type: ignore[assignment]


def test_the_same_objects_have_one_answer_and_equal_ones_have_their_own() -> None:
    made: list[object] = []
    cached = IdentityCache(lambda *things: made.append(things) or len(made))  # type: ignore[func-returns-value]
    one, two = Thing(), Thing()
    assert [cached(one), cached(one), cached(two), cached(one, two), cached(two, one)] == [1, 1, 2, 3, 4]
    assert cached(one, two) == 3


def test_the_oldest_answers_are_forgotten_with_their_objects() -> None:
    asked: list[Thing] = []
    cached = IdentityCache(lambda thing: asked.append(thing), most=2)
    first, second, third = Thing(), Thing(), Thing()
    for thing in (first, second, third, second, third, first):
        cached(thing)
    assert [id(thing) for thing in asked] == [id(first), id(second), id(third), id(first)]

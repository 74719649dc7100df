"""What was made of objects once is not made again of the same ones, and is never taken for what other ones make."""

from drone.agent.remembered import Remembered


class Thing:
    """Equal to all others, and not to be hashed."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    __hash__ = None  # type: ignore[assignment]


def test_the_same_objects_have_one_answer_and_equal_ones_have_their_own() -> None:
    made: list[object] = []
    together = Remembered(lambda *things: made.append(things) or len(made))  # type: ignore[func-returns-value]
    one, two = Thing(), Thing()
    assert [together(one), together(one), together(two), together(one, two), together(two, one)] == [1, 1, 2, 3, 4]
    assert together(one, two) == 3


def test_the_oldest_answers_are_forgotten_with_their_objects() -> None:
    asked: list[Thing] = []
    remembered = Remembered(lambda thing: asked.append(thing), most=2)
    first, second, third = Thing(), Thing(), Thing()
    for thing in (first, second, third, second, third, first):
        remembered(thing)
    assert [id(thing) for thing in asked] == [id(first), id(second), id(third), id(first)]

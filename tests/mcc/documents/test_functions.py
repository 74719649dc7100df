"""Rule functions: registration, time limit, and read-only views of nodes."""

import threading
from types import ModuleType

import pytest

from mcc.documents.functions import LEFT_BEHIND, Objection, ReadOnlyNode, function, functions_in, run_function
from tests.mcc.documents.blueprints import course, node, state


def test_marked_functions_of_modules_are_found_by_their_names() -> None:
    @function("one")
    def first(found: ReadOnlyNode) -> bool:
        return True

    def plain(found: ReadOnlyNode) -> bool:
        return False

    module, again = ModuleType("rules"), ModuleType("more")
    module.__dict__.update(first=first, other=first, plain=plain, number=3)
    again.__dict__.update(first=first)
    assert dict(functions_in([module, again])) == {"one": first}


def test_two_functions_of_one_name_are_refused_where_somebody_asks_for_it() -> None:
    module = ModuleType("rules")
    for name in ("a", "b"):
        module.__dict__[name] = function("same")(lambda found: True)
    with pytest.raises(ValueError, match="two functions are registered as 'same'"):
        functions_in([module])
    assert dict(functions_in([module], {"another"})) == {}


def test_a_function_sees_values_paths_parents_and_children_and_changes_none() -> None:
    made = course()
    top = node(made, "course", metadata__topic="Light", objectives=["a"])
    child = node(made, "lesson", "1", "root", minutes=5)
    there = state(made, top, child)
    view = ReadOnlyNode(there, child)
    assert (view.path, view.component, view.props["minutes"]) == ("/lesson-1", "lesson", 5)
    above = view.parent
    assert above is not None and above.metadata["topic"] == "Light" and above.parent is None
    assert [one.path for one in above.children] == ["/lesson-1"]
    assert above.props["objectives"] == ("a",)
    with pytest.raises(TypeError):
        above.props["title"] = "x"  # type: ignore[index]
    with pytest.raises((AttributeError, TypeError)):
        above.path = "/x"  # type: ignore[misc]


def test_functions_that_never_come_back_are_not_asked_without_end() -> None:
    made = course()
    top = node(made, "course")
    there, forever, before = state(made, top), threading.Event(), set(threading.enumerate())
    try:
        told = {run_function(lambda found: forever.wait(), there, top, 0.0) for _ in range(LEFT_BEHIND)}
        assert told == {Objection("The function has not answered within 0 seconds.")}
        refused = run_function(lambda found: True, there, top)
        assert refused == Objection("The function was not asked: too many others have not come back.")
    finally:
        forever.set()
        for one in set(threading.enumerate()) - before:
            one.join(10)


def test_an_answer_by_path_is_told_below_and_reads_as_one_sentence_for_people() -> None:
    made = course()
    top = node(made, "course")
    there = state(made, top, node(made, "lesson", "1", "root"), node(made, "lesson", "2", "root"))
    wrong = run_function(lambda found: {one.path: f"Not {one.path}." for one in found.children}, there, top)
    assert wrong == Objection(
        "/lesson-1: Not /lesson-1. /lesson-2: Not /lesson-2.", (("1", "Not /lesson-1."), ("2", "Not /lesson-2."))
    )
    assert run_function(lambda found: {}, there, top) is None


@pytest.mark.parametrize(
    "answer, sentence",
    [
        ({"/lesson-9": "No."}, "'/lesson-9', which is no path of a node below this one"),
        ({"/": "No."}, "'/', which is no path of a node below this one"),
        ({"/lesson-2": "No."}, "'/lesson-2', which is no path of a node below this one"),
        ({7: "No."}, "'7', which is no path of a node below this one"),
        ({"/lesson-1/activity-3": " "}, "did not say in a text what is wrong there"),
        ({"/lesson-1/activity-3": None}, "did not say in a text what is wrong there"),
        ({f"/lesson-{n}": "No." for n in range(201)}, "named 201 nodes; it may name 200 at once"),
    ],
)
def test_an_answer_by_path_that_cannot_be_told_to_anybody_is_an_objection_with_the_reason(
    answer: dict[object, object], sentence: str
) -> None:
    made = course()
    lesson = node(made, "lesson", "1", "root")
    others = node(made, "lesson", "2", "root"), node(made, "activity", "3", "1")
    wrong = run_function(lambda found: answer, state(made, node(made, "course"), lesson, *others), lesson)
    assert wrong is not None and sentence in wrong.message and wrong.below == ()

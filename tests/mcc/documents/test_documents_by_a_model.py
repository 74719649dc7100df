"""Random commands on a document, compared with a model of nested dicts."""

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mcc.documents.change import DispatchRefused
from mcc.documents.state import DocumentState
from tests.mcc.documents.course import AGENT, ANN, BEN, REDO, UNDO, Course, add, move, remove, set_metadata, set_props

FIELDS: Mapping[str, tuple[str, ...]] = {
    "course": ("metadata.topic", "metadata.grade", "props.title", "props.lesson_minutes", "props.lessons_planned"),
    "part": ("metadata.name", "metadata.grade"),
    "lesson": ("metadata.focus", "props.minutes"),
    "activity": ("props.text", "props.graded"),
}
CHILDREN = {"course": ("lesson", "part"), "part": ("lesson", "part"), "lesson": ("activity",), "activity": ()}
VALUES: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("topic", "title", "name", "focus", "text"), (None, "Light", "Leaves")),
    **dict.fromkeys(("grade", "lesson_minutes", "lessons_planned", "minutes"), (None, 5, 10)),
    "graded": (None, True, False),
}
DEFAULTS = {"activity": {"props.graded": False}}

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
Draw = st.integers(0, 10**6)
acts = st.tuples(st.sampled_from(["set", "set", "add", "add", "take", "shift", "away"]), Draw, Draw, Draw)


class Model:
    """A node of the model: values by full name, children in order, the next numbers."""

    def __init__(self, component: str, key: str) -> None:
        self.component = component
        self.key = key
        self.values: dict[str, Any] = dict.fromkeys(FIELDS[component]) | DEFAULTS.get(component, {})
        self.children: list[Model] = []
        self.used: dict[str, int] = {}

    def new_key(self, component: str) -> str:
        self.used[component] = self.used.get(component, 0) + 1
        return f"{component}-{self.used[component]}"

    def walk(self, path: str = "") -> "Iterator[tuple[str, Model, Model | None]]":
        yield path or "/", self, None
        for child in self.children:
            for below, node, parent in child.walk(f"{path}/{child.key}"):
                yield below, node, parent or self

    def table(self, above: Mapping[str, Any] | None = None, position: int = 1) -> list[dict[str, Any]]:
        """All nodes, depth first, with their computed values."""
        values = dict(self.values)
        get = values.get
        if self.component == "course":
            minutes, lessons = get("props.lesson_minutes"), get("props.lessons_planned")
            values["props.total_minutes"] = None if minutes is None or lessons is None else minutes * lessons
        if self.component == "lesson":
            values["props.grade"] = (above or {}).get("metadata.grade")
            focus = get("metadata.focus")
            values["props.headline"] = None if focus is None else f"{position}: {focus}"
            values["props.double"] = None if get("props.minutes") is None else values["props.minutes"] * 2
        if self.component == "activity":
            values["props.above"] = (above or {}).get("props.grade")
        found = [{"key": self.key, **values}]
        for place, child in enumerate(self.children, 1):
            found.extend(child.table(values, place))
        return found


def step(model: Model, act: tuple[str, int, int, int]) -> dict[str, Any] | None:
    """Apply a random command to the model, and answer it for the document; None where none is possible."""
    what, first, second, third = act
    nodes = list(model.walk())
    path, node, parent = nodes[first % len(nodes)]
    if what == "set":
        name = FIELDS[node.component][second % len(FIELDS[node.component])]
        section, key = name.split(".")
        value = VALUES[key][third % 3]
        node.values[name] = value
        return set_props(path, **{key: value}) if section == "props" else set_metadata(path, **{key: value})
    if what == "add":
        if not CHILDREN[node.component]:
            return None
        component = CHILDREN[node.component][second % len(CHILDREN[node.component])]
        place = third % (len(node.children) + 1)
        made = Model(component, node.new_key(component))
        node.children.insert(place, made)
        if component != "lesson":
            return add(component, path, position=place + 1)
        made.values["metadata.focus"] = made.key
        return add(component, path, position=place + 1, metadata={"focus": made.key})
    if parent is None:
        return None
    if what == "take":
        parent.children.remove(node)
        return remove(path)
    if what == "shift":
        parent.children.remove(node)
        place = third % (len(parent.children) + 1)
        parent.children.insert(place, node)
        return move(path, place + 1)
    inside = {id(one) for _, one, _ in node.walk()}
    targets = [
        (where, one)
        for where, one, _ in nodes
        if node.component in CHILDREN[one.component] and id(one) not in inside and one is not parent
    ]
    if not targets:
        return None
    where, target = targets[second % len(targets)]
    parent.children.remove(node)
    node.key = target.new_key(node.component)
    place = third % (len(target.children) + 1)
    target.children.insert(place, node)
    return move(path, place + 1, where)


def table(state: DocumentState) -> list[dict[str, Any]]:
    left_out = ("props.level", "props.builds_on", "props.source")
    found = []
    for node in state.walk():
        sections = {"metadata": node.metadata, "props": node.props}
        values = {f"{section}.{key}": one for section, found in sections.items() for key, one in found.items()}
        found.append({"key": node.key, **{name: one for name, one in values.items() if name not in left_out}})
    return found


def begun() -> tuple[Course, Model]:
    model = Model("course", "")
    model.values |= {"metadata.topic": "Light", "metadata.grade": 7}
    model.values |= {"props.lesson_minutes": 45, "props.lessons_planned": 8}
    return Course(topic="Light"), model


@given(st.lists(acts, min_size=10, max_size=40), st.lists(st.integers(1, 4), max_size=25))
@settings(max_examples=100, phases=PHASES)
def test_a_document_is_what_its_commands_say(given_acts: list[tuple[str, int, int, int]], sizes: list[int]) -> None:
    course, model = begun()
    commands = [command for act in given_acts if (command := step(model, act)) is not None]
    while commands:
        size = sizes.pop() if sizes else 1
        course.do(*commands[:size])
        commands = commands[size:]
    assert table(course.state) == model.table()
    again = DocumentState.of(
        course.state.id,
        course.state.blueprint,
        course.state.title,
        course.state.version,
        [*course.state.nodes.values()],
    )
    assert again == course.state


@given(st.lists(st.one_of(acts, st.sampled_from([UNDO, REDO])), max_size=25))
@settings(max_examples=100, phases=PHASES)
def test_undo_then_redo_gives_the_same_values(given_acts: list[Any]) -> None:
    """Undo restores the state before, redo the one after, at any depth; the model keeps copies of whole documents."""
    course, model = begun()
    done: list[tuple[Any, Any]] = []
    undone: list[tuple[Any, Any]] = []
    for act in given_acts:
        before = table(course.state)
        if act in (UNDO, REDO):
            come_from, go_to = (done, undone) if act == UNDO else (undone, done)
            if not come_from:
                continue
            course.do(act)
            pair = come_from.pop()
            go_to.append(pair)
            assert table(course.state) == pair[0 if act == UNDO else 1]
            continue
        # What the document is by now is what the model would have to be: it is made of it anew.
        command = step(_model_of(course.state), act)
        if command is not None:
            course.do(command)
            done.append((before, table(course.state)))
            undone.clear()
    assert model.component == "course"


def _model_of(state: DocumentState) -> Model:
    made: dict[str, Model] = {}
    for node in state.walk():
        one = made[node.id] = Model(node.component, node.key)
        one.used = {component: number - 1 for component, number in node.next_numbers.items()}
        if node.parent_id is not None:
            made[node.parent_id].children.append(one)
    return made[state.root_id]


@given(st.lists(acts, max_size=20))
@settings(max_examples=100, phases=PHASES)
def test_the_same_commands_give_the_same_document_again(given_acts: list[tuple[str, int, int, int]]) -> None:
    course, model = begun()
    commands = [command for act in given_acts if (command := step(model, act)) is not None]
    for command in commands:
        course.do(command)
    again, _ = begun()
    for command in commands:
        again.do(command)
    assert again.state == course.state and again.steps == course.steps


@given(st.lists(acts, max_size=20))
@settings(max_examples=100, phases=PHASES)
def test_the_values_of_the_history_are_those_of_the_document(given_acts: list[tuple[str, int, int, int]]) -> None:
    course, model = begun()
    for act in given_acts:
        if act[0] in ("set", "add", "take") and (command := step(model, act)) is not None:
            course.do(command)
    values: dict[str, dict[str, Any]] = {}
    for one in course.steps:
        if one.command == "remove_child":
            values = {path: known for path, known in values.items() if not f"{path}/".startswith(f"{one.node}/")}
            continue
        known = values.setdefault(one.node, {})
        for name, (before, after) in one.fields.items():
            assert known.get(name) == before
            known[name] = after
    for node in course.state.walk():
        sections = {"metadata": node.metadata, "props": node.props}
        for name, value in values.get(course.state.path(node), {}).items():
            section, key = name.split(".")
            assert sections[section][key] == value


INDEPENDENT = [
    set_metadata("/", grade=9),
    set_props("/", title="Plants and light"),
    set_props("/lesson-1", minutes=10),
    set_metadata("/lesson-2", focus="Water"),
    add("activity", "/lesson-1", values={"text": "Look."}),
    add("lesson", "/part-1", metadata={"focus": "Air"}),
    remove("/lesson-3"),
]


@given(st.permutations(INDEPENDENT), st.permutations(INDEPENDENT), st.data())
@settings(max_examples=100, phases=PHASES)
def test_commands_that_have_nothing_to_do_with_each_other_may_come_in_any_order(
    one: list[Any], other: list[Any], data: st.DataObject
) -> None:
    found = []
    for commands in (one, other):
        course = Course()
        course.do(*(add("lesson", metadata={"focus": "Light"}) for _ in range(3)), add("part"))
        for command in commands:
            course.do(command, author=data.draw(st.sampled_from([ANN, BEN])))
        verdicts = [(one.rule, one.ok) for node in course.state.walk() for one in node.verdicts]
        found.append((table(course.state), [node.id for node in course.state.walk()], verdicts))
    assert found[0] == found[1]


@given(st.lists(st.one_of(acts, st.sampled_from([UNDO, REDO])), max_size=20), st.lists(st.booleans(), min_size=20))
@settings(max_examples=100, phases=PHASES)
def test_whatever_people_and_agents_do_a_dispatch_is_done_or_refused(given_acts: list[Any], agents: list[bool]) -> None:
    course, _ = begun()
    for act, agent in zip(given_acts, agents, strict=False):
        command = act if isinstance(act, dict) else step(_model_of(course.state), act)
        before = course.state
        try:
            if command is not None:
                course.do(command, author=AGENT if agent else ANN)
        except DispatchRefused:
            assert course.state is before
        assert (
            DocumentState.of(before.id, before.blueprint, before.title, before.version, [*before.nodes.values()])
            == before
        )

"""Staleness: exactly nodes with a changed prompt are stale, at a cost that depends on what changed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from mcc.contracts.documents import Counts
from mcc.documents import Blueprint
from mcc.documents.briefs import brief_of
from mcc.documents.component import computed, context_of
from mcc.documents.formulas import NodeContext
from mcc.documents.judging import judge
from mcc.documents.node import Accepted, FieldConflict, Node, NodeFailure, Provenance, Role, RuleVerdict
from mcc.documents.staleness import (
    assessed,
    new_conflicts,
    pending_of,
    stale_because,
)
from mcc.documents.state import DocumentState
from tests.mcc.documents.blueprints import AT, course, node, state
from tests.mcc.documents.stamps import stamp_today
from tests.mcc.documents.work_done import calls

TEXT = """
blueprint: plan
description: A plan.
root: whole
components:
  whole:
    metadata: {topic: {type: text, required: true}, size: {type: number}}
    properties:
      title: {type: text, required: true}
      hidden: {type: text}
      length: {type: number, formula: "size(props.title == null ? '' : props.title)"}
    children: {part: {}}
    describe: 'Plan {props.title} of {props.length} on {metadata.topic}.'
    agent: {system: You plan., validate: true}
  part:
    metadata: {focus: {type: text}, theme: {type: text, bind: '{parent.metadata.topic}'}}
    properties:
      text: {type: text, rules: [{guideline: Be plain.}, {cel: 'value != "no"', message: Not no.}]}
      size: {type: number, bind: '{parent.metadata.size}'}
      own: {type: text, bind: 'on {props.text}'}
      place: {type: number, bind: '{position}'}
    children: {part: {}, leaf: {}}
    describe: '{position}: {metadata.focus} {props.own}'
  leaf:
    properties: {text: {type: text, required: true}, above: {type: text, bind: '{parent.props.text}'}}
"""
"""Every way for a value to get into another node's prompt: description, binding, position, formula."""

CHANGES_OF_THE_BLUEPRINT = (
    ("Be plain.", "Be short."),
    ("Not no.", "Never no."),
    ('"no"', '"nay"'),
    ("A plan.", "The plan."),
    ("You plan.", "You plan much."),
    ("of {props.length} on", "on"),
    ("{position}: {metadata", "{metadata"),
    ("leaf: {}}", "leaf: {max: 3}}"),
    ("hidden: {type: text}", "hidden: {type: text, description: Secret.}"),
)

COMPONENTS = {"whole": ("part",), "part": ("part", "leaf"), "leaf": ()}
SETTABLE = {
    "whole": ("metadata.topic", "metadata.size", "props.title", "props.hidden"),
    "part": ("metadata.focus", "props.text"),
    "leaf": ("props.text",),
}
ROLES: tuple[Role, ...] = ("node", "metadata")
NOBODY = ("leaf", "metadata")


def settled(made: Blueprint, found: DocumentState) -> DocumentState:
    """The state with all formulas and bindings recomputed, from the root down."""
    for one in found.walk():
        here, component = found.nodes[one.id], made.component(one.component)
        known = context_of(found, here)
        values = NodeContext(dict(here.metadata), dict(here.props), known.parent, known.position)
        for field in component.computed:
            section = values.metadata if field.section == "metadata" else values.props
            section[field.key] = computed(field, values).value  # type: ignore[index]
        if (values.metadata, values.props) != (here.metadata, here.props):
            anew = replace(here, metadata=values.metadata, props=values.props)
            found = found.with_nodes(found.version, {one.id: anew})
    return found


Asked: TypeAlias = tuple[str, Role]

texts = st.sampled_from([None, "", "a", "b", "</untrusted 1>", "\x00\ud800"])
picks = st.integers(0, 30)


def some(component: str, name: str, value: str | None) -> Any:
    return None if value is None else len(value) if name == "metadata.size" else value


@st.composite
def documents(draw: st.DrawFn) -> DocumentState:
    made = Blueprint.parse(TEXT)
    nodes = [node(made, "whole", "root")]
    for number in range(draw(st.integers(0, 10))):
        above = nodes[draw(picks) % len(nodes)]
        if allowed := COMPONENTS[above.component]:
            nodes.append(node(made, allowed[draw(picks) % len(allowed)], f"n{number}", above.id))
    found = state(made, *nodes)
    for one in nodes:
        for name in SETTABLE[one.component]:
            found = with_field(found, one.id, name, some(one.component, name, draw(texts)))
    return settled(made, replace(found, brief=draw(st.sampled_from(["", "Brief."]))))


def with_field(found: DocumentState, id: str, name: str, value: Any) -> DocumentState:
    section, _, key = name.partition(".")
    one = found.nodes[id]
    values: Any = {section: {**getattr(one, section), key: value}}
    return found.with_nodes(found.version + 1, {id: replace(one, **values)})


def questions(made: Blueprint, found: DocumentState, asked: Iterable[Asked]) -> dict[Asked, tuple[object, ...]]:
    """The prompts of all agents, computed from a freshly built blueprint and document, without caches."""
    anew = DocumentState.of("another", made.digest, "", 1, list(found.nodes.values()), found.brief)
    again = Blueprint.parse(made.text)
    read: dict[Asked, tuple[object, ...]] = {}
    for id, role in asked:
        if id in anew.nodes:
            brief = brief_of(again, anew, id, role)
            tools = again.component(anew.nodes[id].component).settings.tools
            read[id, role] = (brief.system, brief.task, brief.tools, tools)
    return read


Change: TypeAlias = Callable[[Blueprint, DocumentState], tuple[Blueprint, DocumentState]]


@st.composite
def changes(draw: st.DrawFn) -> Change:
    kind = draw(st.sampled_from(["field", "blueprint", "brief", "add", "move", "lift", "remove", "nothing"]))
    which, more, value = draw(picks), draw(picks), draw(texts)

    def change(made: Blueprint, found: DocumentState) -> tuple[Blueprint, DocumentState]:
        ids = [one.id for one in found.walk()]
        one = found.nodes[ids[which % len(ids)]]
        if kind == "field":
            names = SETTABLE[one.component]
            name = names[more % len(names)]
            return made, with_field(found, one.id, name, some(one.component, name, value))
        if kind == "blueprint":
            before, after = CHANGES_OF_THE_BLUEPRINT[more % len(CHANGES_OF_THE_BLUEPRINT)]
            text = made.text.replace(before.replace('"', '\\"'), after.replace('"', '\\"'))
            return Blueprint.parse(text), found
        if kind == "brief":
            return made, replace(found, brief="Brief." if value else "", version=found.version + 1)
        if kind == "add" and COMPONENTS[one.component]:
            component = COMPONENTS[one.component][more % len(COMPONENTS[one.component])]
            new = replace(node(made, component, f"m{found.version}", one.id), rank=float(more % 5))
            return made, found.with_nodes(found.version + 1, {new.id: new})
        if kind == "move" and one.parent_id is not None:
            return made, found.with_nodes(found.version + 1, {one.id: replace(one, rank=float(more % 7))})
        if kind == "lift" and one.parent_id is not None:
            below = {found_one.id for found_one in found.walk(one)}
            homes = [id for id in ids if id not in below and one.component in COMPONENTS[found.nodes[id].component]]
            moved = replace(one, parent_id=homes[more % len(homes)])
            return made, found.with_nodes(found.version + 1, {one.id: moved})
        if kind == "remove" and one.parent_id is not None:
            gone: dict[str, Node | None] = {found_one.id: None for found_one in found.walk(one)}
            return made, found.with_nodes(found.version + 1, gone)
        return made, found

    return change


@settings(max_examples=100, deadline=None)
@given(documents(), st.lists(changes(), min_size=1, max_size=6), st.sets(picks))
def test_after_any_change_the_stale_nodes_are_exactly_those_that_a_rebuild_from_nothing_asks_otherwise(
    found: DocumentState, several: list[Change], unstamped: set[int]
) -> None:
    made = Blueprint.parse(TEXT)
    for place, one in enumerate(list(found.nodes.values())):
        # A leaf has no metadata, and so no agent for it.
        roles = [role for at, role in enumerate(ROLES) if 2 * place + at not in unstamped]
        stamps = {role: stamp_today(made, found, one, role) for role in roles if (one.component, role) != NOBODY}
        found = found.with_nodes(found.version, {one.id: replace(one, stamps=stamps)})
    asked = questions(made, found, [(one.id, role) for one in found.nodes.values() for role in one.stamps])
    for change in several:
        made, found = change(made, found)
        found = settled(made, found)
        read = questions(made, found, asked)
        differs = {id for (id, role), now in read.items() if now != asked[id, role]}
        now = assessed(made, found)
        assert now.stale == differs
        anew = DocumentState.of(found.id, made.digest, "", found.version, list(found.nodes.values()), found.brief)
        fresh = assessed(made, anew)
        assert (now.statuses, now.stale, now.counts) == (fresh.statuses, fresh.stale, fresh.counts)
        for id in found.nodes:
            assert bool(stale_because(made, found, found.nodes[id])) is (id in differs)


COURSE = course()


def plan(lessons: int = 2) -> DocumentState:
    """A course whose nodes are all done and stamped."""
    goals = ["Name the parts.", "Draw a leaf by hand.", "Tell why it is green."]
    root = node(
        COURSE,
        "course",
        metadata__topic="Photosynthesis",
        metadata__grade=7,
        title="Light and leaves",
        level="basic",
        objectives=goals,
        lesson_minutes=45,
        lessons_planned=8,
    )
    below = []
    for number in range(1, lessons + 1):
        id = f"{number:06}"
        below.append(node(COURSE, "lesson", id, "root", metadata__focus=f"Part {number}", minutes=45))
        below.append(node(COURSE, "activity", f"{id}a", id, kind="quiz", text="What is in a leaf? " * 3, graded=False))
    return stamped(settled(COURSE, state(COURSE, root, *below)))


def stamped(found: DocumentState) -> DocumentState:
    def done(one: Node) -> Node:
        verdicts = judge(COURSE, found, one.id, version=1)
        held = tuple(replace(verdict, ok=True) if verdict.kind == "function" else verdict for verdict in verdicts)
        return replace(one, stamps={"node": stamp_today(COURSE, found, one, "node")}, verdicts=held)

    return found.with_nodes(found.version, {one.id: done(one) for one in found.nodes.values()})


def regraded(found: DocumentState, grade: int = 8, at: datetime = AT) -> DocumentState:
    root = found.root
    provenance = {**root.provenance, "metadata.grade": Provenance("person", found.version + 1, at)}
    metadata = {**root.metadata, "grade": grade}
    anew = found.with_nodes(found.version + 1, {root.id: replace(root, metadata=metadata, provenance=provenance)})
    return settled(COURSE, anew)


def statuses(found: DocumentState) -> Mapping[str, str]:
    return {found.path(one): assessed(COURSE, found).statuses[one.id] for one in found.walk()}


def test_all_that_is_told_of_a_value_is_stale_when_it_changes_and_says_why() -> None:
    before = plan()
    assert set(statuses(before).values()) == {"done"}
    assert assessed(COURSE, before).counts == Counts(done=5)
    after = regraded(before)
    assert set(statuses(after).values()) == {"stale"}
    assert assessed(COURSE, after).status == "stale"
    assert assessed(COURSE, after).counts == Counts(stale=5)
    lesson = after.find("/lesson-000002")
    assert stale_because(COURSE, after, lesson) == ("/ metadata.grade, 7 → 8 at version 2",)
    assert stale_because(COURSE, before, before.find("/lesson-000002")) == ()


def test_a_value_that_comes_out_the_same_makes_nothing_stale_and_one_that_is_taken_back_neither() -> None:
    before = plan()
    assert set(statuses(regraded(before, 7)).values()) == {"done"}
    assert set(statuses(regraded(regraded(before, 9), 7)).values()) == {"done"}


def test_what_only_one_node_is_told_makes_only_that_node_stale() -> None:
    before = plan()
    lesson = before.find("/lesson-000001")
    after = settled(COURSE, with_field(before, lesson.id, "metadata.focus", "Stomata"))
    found = statuses(after)
    assert {path for path, status in found.items() if status == "stale"} == {
        "/lesson-000001",
        "/lesson-000001/activity-000001a",
    }


def test_a_move_makes_stale_those_below_whom_the_place_is_told() -> None:
    before = plan()
    last = before.find("/lesson-000002")
    after = before.with_nodes(2, {last.id: replace(last, rank=0.5)})
    activity = after.find("/lesson-000002/activity-000002a")
    assert statuses(after)["/lesson-000002"] == "done"
    assert stale_because(COURSE, after, activity) == ("/lesson-000002 position, 2 → 1 at version 1",)


def test_a_node_that_stands_elsewhere_by_now_says_so_and_what_it_is_told_there() -> None:
    before = plan()
    activity = before.find("/lesson-000001/activity-000001a")
    after = before.with_nodes(2, {activity.id: replace(activity, parent_id="000002")})
    assert stale_because(COURSE, after, after.nodes[activity.id]) == (
        "its place in the document",
        "/lesson-000002 position, now 2 at version 1",
        '/lesson-000002 metadata.focus, now "Part 2" at version 1',
    )


def test_the_first_that_fits_is_the_status() -> None:
    found = regraded(plan())
    failure = NodeFailure("gate_failed", "No.", (), None, AT)
    lesson = found.find("/lesson-000001")
    broken = replace(lesson, props={**lesson.props, "minutes": None})
    assert assessed(COURSE, found).statuses[lesson.id] == "stale"
    found = found.with_nodes(3, {lesson.id: broken})
    assert assessed(COURSE, found).statuses[broken.id] == "pending"
    failed = replace(broken, failure=failure)
    found = found.with_nodes(4, {lesson.id: failed})
    assert assessed(COURSE, found).statuses[failed.id] == "failed"
    assert assessed(COURSE, found).counts == Counts(failed=1, stale=4)
    assert assessed(COURSE, found).status == "failed"


def test_pending_says_the_fields_the_children_and_the_rules_that_are_in_the_way() -> None:
    found = state(COURSE, node(COURSE, "course", metadata__topic="ab", metadata__grade=7, level="advanced"))
    root = replace(found.root, verdicts=judge(COURSE, found, "root", version=1))
    found = found.with_nodes(1, {"root": root})
    assert pending_of(COURSE, found, root) == (
        "props.title",
        "props.objectives",
        "children.lesson",
        "metadata.topic",
        "rules[0]",
        "rules[1]",
    )


def test_a_function_that_nobody_could_ask_is_never_a_pass() -> None:
    found = plan()
    verdicts = tuple(replace(one, ok=None) if one.kind == "function" else one for one in found.root.verdicts)
    found = found.with_nodes(2, {"root": replace(found.root, verdicts=verdicts)})
    assert assessed(COURSE, found).statuses["root"] == "pending"
    assert pending_of(COURSE, found, found.root) == ("rules[1]",)


def test_a_child_that_is_taken_away_counts_for_its_parent() -> None:
    before = plan()
    gone: dict[str, Node | None] = dict.fromkeys(("000001", "000001a"))
    after = before.with_nodes(2, gone)
    assert assessed(COURSE, before).counts == Counts(done=5)
    # The activity below the other lesson is told that its lesson is the first by now.
    assert assessed(COURSE, after).counts == Counts(pending=1, done=1, stale=1)


HELD = Provenance("person", 1, AT, principal="token", accepted=Accepted(1, "token"))


def test_a_conflict_begins_for_held_fields_of_nodes_that_become_stale_and_says_why() -> None:
    before = plan()
    lesson = before.find("/lesson-000001")
    other = Provenance("agent", 1, AT)
    mine = replace(lesson, provenance={"metadata.focus": HELD, "props.minutes": other})
    before = before.with_nodes(1, {lesson.id: mine})
    after = regraded(before)
    begun = new_conflicts(COURSE, before, after)
    assert begun == {lesson.id: {"metadata.focus": FieldConflict(2, ("/ metadata.grade, 7 → 8 at version 2",))}}
    marked = after.with_nodes(2, {lesson.id: replace(after.nodes[lesson.id], conflicts=begun[lesson.id])})
    assert assessed(COURSE, marked).counts.conflicts == 1
    assert new_conflicts(COURSE, marked, regraded(marked, 9)) == {}


def test_what_a_person_sets_is_not_in_conflict_with_itself() -> None:
    before = plan()
    lesson = before.find("/lesson-000001")
    mine = {"metadata.focus": replace(HELD, version=2), "props.minutes": HELD}
    after = with_field(before, lesson.id, "metadata.focus", "Stomata")
    after = after.with_nodes(2, {lesson.id: replace(after.nodes[lesson.id], provenance=mine)})
    assert list(new_conflicts(COURSE, before, settled(COURSE, after))[lesson.id]) == ["props.minutes"]


def test_one_value_of_a_large_document_is_looked_at_without_the_others() -> None:
    def needed(size: int) -> int:
        found = plan(size // 2)
        assert assessed(COURSE, found).counts == Counts(done=size, pending=1)
        activity = found.find("/lesson-000001/activity-000001a")
        after = with_field(found, activity.id, "props.graded", True)
        made = calls(lambda: assessed(COURSE, after))
        assert assessed(COURSE, after).counts.stale == 0
        return made

    assert needed(2_000) < 1.5 * needed(100)


def test_a_blueprint_that_leaves_an_agent_nothing_to_do_leaves_it_not_stale() -> None:
    found = plan()
    lesson = found.find("/lesson-000001")
    both = {**lesson.stamps, "metadata": stamp_today(COURSE, found, lesson, "metadata")}
    found = found.with_nodes(1, {lesson.id: replace(lesson, stamps=both)})
    text = COURSE.text.replace('"focus":{"type":"text","required":true,"max_length":120}', "")
    other = Blueprint.parse(text.replace("metadata.focus", "position"))
    assert found.nodes[lesson.id].id in assessed(other, found).stale
    again = replace(lesson, stamps={"metadata": both["metadata"]})
    assert lesson.id not in assessed(other, found.with_nodes(2, {lesson.id: again})).stale


def test_verdicts_of_guidelines_keep_nobody_waiting() -> None:
    found = plan()
    verdicts = (RuleVerdict("props.objectives.rules[1]", "guideline", None, "", 1),)
    root = replace(found.root, verdicts=verdicts)
    assert pending_of(COURSE, found.with_nodes(2, {"root": root}), root) == ()

"""A generation on the terminal: the document's nodes as a tree, and the progress."""

import io
import sys
import threading
from collections.abc import Iterable
from datetime import timedelta

from rich.console import Console

from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentFinished, AgentStarted, GateChecked
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.wire import GenerationProgress
from mcc.view.generation import GenerationStory, in_words
from mcc.view.generation_tree import fitting, picture
from mcc.view.lines import Lines
from tests.mcc.view.order_journal import BEGAN, CLAIMED, ORDER_ID, QUEUED, call, journal, started

ROOT = Origin(record_id="g", agent="generator")
Told = tuple[Origin, Fact]


def agent(record: str, component: str) -> Origin:
    return Origin(record_id=record, parent_id="g", agent=f"course/{component}", depth=1)


def begins(record: str, component: str, path: str) -> Told:
    return agent(record, component), started().model_copy(update={"node": path})


def ends(record: str, component: str, status: RecordStatus = RecordStatus.COMPLETED, error: str | None = None) -> Told:
    return agent(record, component), AgentFinished(status=status, error=error)  # type: ignore[arg-type]


GENERATOR: Told = (ROOT, AgentStarted.model_validate({**started().model_dump(), "model": None}))
BEGINNING: tuple[Told, ...] = (QUEUED, CLAIMED, GENERATOR)
ROOT_DONE = (begins("r", "course", "/"), ends("r", "course"))
REFUSED: Told = (agent("2", "lesson"), GateChecked(tool="done", attempt=1, ok=False, errors=("minutes: 7", "too few")))


def generation(*told: Told) -> GenerationStory:
    story = GenerationStory()
    for entry in journal(*told):
        story.add(entry)
    return story


def shown(story: GenerationStory, seconds: float = 20, height: int | None = None, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, height=height or 200, highlight=False, legacy_windows=False)
    at = BEGAN + timedelta(seconds=seconds)
    console.print(picture(story, at) if height is None else fitting(story, at, console))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def progress(**counts: int) -> GenerationProgress:
    none = dict.fromkeys(("done", "running", "pending", "stale", "failed", "conflicts", "output_tokens"), 0)
    return GenerationProgress(document_id=ORDER_ID, **{**none, **counts}, seconds_left=72.0)


def test_the_tree_is_the_document_s_and_not_that_of_its_records() -> None:
    story = generation(
        *BEGINNING,
        *ROOT_DONE,
        begins("1", "lesson", "/lesson-1"),
        begins("2", "lesson", "/lesson-2"),
        ends("1", "lesson"),
        begins("3", "activity", "/lesson-1/activity-1"),
        (agent("3", "activity"), call("c", "set_value", values={})),
        REFUSED,
    )
    assert shown(story, 11, width=72) == (
        "◐ order 000000000001 on drone-1           11 s        0 tokens        $0\n"
        "  2 done · 2 running · 2 rules failing\n"
        "✓ / course  1.0 s\n"
        "├── ✓ lesson-1  2.0 s\n"
        "│   └── ◐ activity-1  set_value  3.0 s\n"
        "└── ◐ lesson-2  5.0 s  sent back: minutes: 7\n"
    )


def test_children_stand_in_the_order_of_their_numbers() -> None:
    paths = (f"/lesson-{number}" for number in (10, 2, 1))
    lines = shown(generation(*BEGINNING, *ROOT_DONE, *(begins(path, "lesson", path) for path in paths))).splitlines()
    assert [line.split()[2] for line in lines[3:]] == ["lesson-1", "lesson-2", "lesson-10"]


def test_a_node_whose_metadata_is_set_waits_for_its_own_agent() -> None:
    first = (begins("m", "lesson:metadata", "/lesson-1"),)
    working = generation(*BEGINNING, *first, (agent("m", "lesson:metadata"), call("c", "set_metadata")))
    assert "◐ lesson-1  metadata: set_metadata" in shown(working)
    between = generation(*BEGINNING, *first, ends("m", "lesson:metadata"))
    assert "└── ◌ lesson-1" in shown(between)
    assert between.counts["done"] == 0


def test_nodes_that_nobody_works_on_are_told_apart_from_those_that_wait() -> None:
    drawn = shown(generation(*BEGINNING, begins("1", "activity", "/lesson-1/activity-1")))
    assert "  /" in drawn.replace("– ", "  ") and "– lesson-1" in drawn and "◐ activity-1" in drawn


def test_what_the_generator_says_of_nodes_that_nobody_has_begun_is_told() -> None:
    story = generation(*BEGINNING, begins("r", "course", "/"))
    story.progress = progress(done=4, running=1, pending=7, stale=2, conflicts=1)
    assert "  4 done · 1 running · 7 pending · 2 stale · 1 in conflict · about 1 min 12 s left\n" in shown(story)
    assert in_words(progress(done=4, output_tokens=1200)) == "4 done · 1,200 tokens of output · about 1 min 12 s left"


def test_a_failed_node_says_why_and_an_ended_order_how() -> None:
    end = OrderFinished(status=OrderStatus.FAILED, reason=FailureReason.GATE_FAILED, detail="1 of 2 nodes …")
    story = generation(
        *BEGINNING,
        *ROOT_DONE,
        begins("2", "lesson", "/lesson-2"),
        REFUSED,
        ends("2", "lesson", RecordStatus.FAILED, "its rules do not hold"),
        (Origin(), end),
    )
    drawn = shown(story)
    assert drawn.startswith("✗ order 000000000001 failed (gate_failed)")
    assert "  1 done · 1 failed · 2 rules failing\n" in drawn
    assert "└── ✗ lesson-2  2.0 s  its rules do not hold" in drawn


def nodes(count: int, *, running: Iterable[int] = (), failed: Iterable[int] = ()) -> tuple[Told, ...]:
    told: list[Told] = []
    for number in range(1, count + 1):
        told.append(begins(str(number), "lesson", f"/lesson-{number}"))
        if number in set(failed):
            told.append(ends(str(number), "lesson", RecordStatus.FAILED, "no"))
        elif number not in set(running):
            told.append(ends(str(number), "lesson"))
    return tuple(told)


def test_in_a_small_window_what_is_done_shares_a_line_and_what_runs_or_failed_is_seen() -> None:
    drawn = shown(generation(*BEGINNING, *ROOT_DONE, *nodes(40, running=(7,), failed=(30,))), height=12)
    assert len(drawn.splitlines()) <= 11
    assert "✓ 38 done: lesson-1 … lesson-40" in drawn
    assert "◐ lesson-7 " in drawn and "✗ lesson-30 " in drawn


def test_of_more_than_fits_the_paths_of_those_at_work_are_named_and_the_others_counted() -> None:
    drawn = shown(generation(*BEGINNING, *ROOT_DONE, *nodes(300, running=range(1, 100))), height=12)
    lines = drawn.splitlines()
    assert len(lines) <= 11
    assert lines[2].startswith("◐ /lesson-1 ")
    assert lines[-1] == "  … and 92 more"


def test_in_plain_lines_an_agent_is_known_by_its_node() -> None:
    lines = Lines()
    told = [lines.line_of(entry) for entry in journal(*BEGINNING, begins("m", "lesson:metadata", "/lesson-1"), REFUSED)]
    assert "/lesson-1 (metadata): starts" in (told[3] or "")
    drawn = [lines.line_of(entry) for entry in journal(*BEGINNING, begins("2", "lesson", "/lesson-2"), REFUSED)]
    assert "/lesson-2: its result was sent back (attempt 1): minutes: 7; too few" in (drawn[4] or "")


def test_a_tree_that_grows_while_it_is_drawn_is_drawn_all_the_same() -> None:
    nodes = [begins(f"n{number}", "lesson", f"/lesson-{number}") for number in range(600)]
    entries = list(journal(*BEGINNING, *ROOT_DONE, *nodes))
    story, wrong, over = GenerationStory(), list[Exception](), threading.Event()

    def draw() -> None:
        while not over.is_set() and not wrong:
            try:
                assert story.failing == 0 and story.counts["failed"] == 0
            except Exception as error:
                wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    drawing = threading.Thread(target=draw)
    drawing.start()
    try:
        for entry in entries:
            story.add(entry)
    finally:
        over.set()
        drawing.join()
        sys.setswitchinterval(before)
    assert not wrong

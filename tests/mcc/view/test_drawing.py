"""A picture that is drawn again and again: after any events and sizes a terminal shows what it would show anew."""

import random
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Group
from rich.text import Text

from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentFinished
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.record import RecordStatus
from mcc.view.drawing import Drawing
from mcc.view.glyphs import GLYPHS, in_plain
from mcc.view.story import Story
from mcc.view.tree import LAST, OrderPicture, fitting
from tests.mcc.view.order_journal import BEGAN, CLAIMED, MASTER, QUEUED, call, journal, reply, result, started
from tests.mcc.view.terminal import Terminal

NAMES = ("explore", "探検家", "חוקר", "deep\x1b[2J", "😀😀", "a" * 70)
SIZES = st.tuples(st.integers(16, 140), st.integers(4, 40))


def told(seed: int, length: int) -> list[tuple[Origin, Fact]]:
    """A journal in which agents start agents, call tools and end."""
    chance, facts, open_agents = random.Random(seed), [], [MASTER]
    for number in range(length):
        agent = chance.choice(open_agents)
        match chance.choice(("start", "call", "call", "reply", "end")):
            case "start" if len(open_agents) < 30:
                child = Origin(
                    record_id=f"r{number}",
                    parent_id=agent.record_id,
                    agent=chance.choice(NAMES),
                    depth=(agent.depth or 0) + 1,
                )
                facts += [(agent, call(f"k{number}", "subagent")), (child, started("読む " * 9, f"k{number}"))]
                open_agents.append(child)
            case "reply":
                facts += [(agent, ModelStarted(round=1, attempt=1, model="m")), (agent, reply(number))]
            case "end" if agent is not MASTER and not any(one.parent_id == agent.record_id for one in open_agents):
                facts.append((agent, AgentFinished(status=RecordStatus.COMPLETED, answer="…")))
                open_agents.remove(agent)
            case _:
                name = chance.choice(("read_file", "search_text"))
                facts.append((agent, call(f"t{number}", name, path="é" * chance.randrange(60))))
                if chance.random() < 0.8:
                    facts.append((agent, result(f"t{number}", name, is_error=chance.random() < 0.2)))
    return [QUEUED, CLAIMED, (MASTER, started()), *facts]


def shown_anew(terminal: Terminal, story: Story, seconds: int) -> list[str]:
    fresh = Terminal(*terminal.console.size)
    Drawing(fresh.console, fresh.write).show(fitting(story, BEGAN + timedelta(seconds=seconds), fresh.console))
    return fresh.rows


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), sizes=st.lists(SIZES, min_size=2, max_size=5))
def test_after_any_events_and_sizes_the_window_shows_what_a_fresh_drawing_shows(
    seed: int, sizes: list[tuple[int, int]]
) -> None:
    terminal, story, entries = Terminal(*sizes[0]), Story(), journal(*told(seed, 30))
    drawing, part = Drawing(terminal.console, terminal.write), len(entries) // len(sizes) + 1
    for turn, size in enumerate(sizes):
        if turn:
            terminal.resize(*size)
        for second, entry in enumerate(entries[turn * part : (turn + 1) * part], 60 + turn * part):
            story.add(entry)
            if second % 4 == 0 or entry is entries[-1]:
                drawing.show(fitting(story, BEGAN + timedelta(seconds=second), terminal.console))
                assert terminal.rows == shown_anew(terminal, story, second)
                assert len(terminal.rows) < size[1] and terminal.cursor == (len(terminal.rows), False)
    assert "\x1b[2J" not in "".join(terminal.written) and "\x1b[3J" not in "".join(terminal.written)


@pytest.mark.parametrize("width", [120, 80, 61, 30])
def test_what_stood_above_the_picture_stays_when_the_window_becomes_narrower(width: int) -> None:
    terminal = Terminal(120, 90)
    terminal.write("$ mcc run\r\n")
    drawing, story = Drawing(terminal.console, terminal.write), Story.of(journal(*told(7, 12)))
    drawing.show(fitting(story, BEGAN, terminal.console))
    terminal.resize(width, 90)
    drawing.show(fitting(story, BEGAN, terminal.console))
    assert terminal.rows == ["$ mcc run", *shown_anew(terminal, story, 0)]


def picture(*lines: str) -> Group:
    return Group(*(Text(line) for line in lines))


@pytest.mark.parametrize("height", [8, 12, 60])
def test_a_window_that_becomes_lower_or_higher_is_drawn_anew(height: int) -> None:
    terminal, story = Terminal(80, 30), Story.of(journal(*told(7, 60)))
    drawing = Drawing(terminal.console, terminal.write)
    drawing.show(fitting(story, BEGAN, terminal.console))
    assert len(terminal.rows) > 12
    terminal.resize(80, height)
    drawing.show(fitting(story, BEGAN, terminal.console))
    assert terminal.rows == shown_anew(terminal, story, 0)


def test_a_picture_that_has_become_lower_leaves_nothing_behind() -> None:
    terminal = Terminal(80, 24)
    drawing = Drawing(terminal.console, terminal.write)
    for lines in (("one", "two", "three"), ("one",), ("one", "2"), ("a" * 70, "b"), ("a",)):
        drawing.show(picture(*lines))
        assert terminal.rows == list(lines) and terminal.cursor == (len(lines), False)


def test_what_has_not_changed_is_not_written_again() -> None:
    terminal = Terminal(80, 24)
    drawing = Drawing(terminal.console, terminal.write)
    drawing.show(picture("one", "two", "three"))
    terminal.written.clear()
    drawing.show(picture("one", "two", "three"))
    assert not terminal.written
    drawing.show(picture("one", "2", "three"))
    (frame,) = terminal.written
    assert "2" in frame and "one" not in frame and "three" not in frame
    assert "\x1b[J" not in frame and "\x1b[2K" not in frame, "nothing is cleared before it is written"
    assert terminal.rows == ["one", "2", "three"]


def test_a_frame_of_many_agents_in_which_a_second_has_passed_is_small() -> None:
    terminal = Terminal(100, 30)
    facts: list[tuple[Origin, Fact]] = [QUEUED, CLAIMED, (MASTER, started())]
    for number in range(500):
        child = Origin(record_id=f"r{number}", parent_id="m", agent="explore", depth=1)
        facts += [(child, started(f"Part {number}", f"k{number}"))]
    story, drawing = Story.of(journal(*facts)), Drawing(terminal.console, terminal.write)
    for second in range(600, 610):
        terminal.written.clear()
        drawing.show(fitting(story, BEGAN + timedelta(seconds=second), terminal.console))
        assert sum(map(len, terminal.written)) < 30 * 150
    assert "… 474 more: 474 running" in terminal.rows[-1] and len(terminal.rows) == 29


def test_the_last_picture_takes_the_place_of_the_live_one_and_is_whole() -> None:
    terminal, story = Terminal(80, 12), Story.of(journal(*told(3, 60)))
    drawing = Drawing(terminal.console, terminal.write)
    terminal.write("before\r\n")
    drawing.show(fitting(story, BEGAN, terminal.console))
    drawing.leave()
    assert terminal.rows == ["before"] and terminal.cursor == (1, True)
    drawing.show(fitting(story, BEGAN, terminal.console))
    terminal.resize(80, 100)
    drawing.leave(OrderPicture(story, BEGAN, LAST))
    assert len(terminal.rows) > 12 and sum(row.startswith("◐ order") for row in terminal.rows) == 1


def test_without_utf_8_the_picture_is_ascii_and_its_columns_stay() -> None:
    story = Story.of(journal(*told(5, 20)))
    rows = []
    for encoding in ("utf-8", "ascii"):
        terminal = Terminal(80, 30, encoding)
        Drawing(terminal.console, terminal.write).show(fitting(story, BEGAN, terminal.console))
        rows.append(terminal.rows)
    ours = "".join(sorted(set("".join(rows[0])) & set("".join(glyph.shapes for glyph in GLYPHS.values()) + "…├└│─×")))
    assert "".join(rows[1]).isascii() and len(ours) > 5 and not set(ours) & set("".join(rows[1]))
    assert [Text(row).cell_len for row in rows[0]] == [Text(row).cell_len for row in rows[1]]


def test_every_glyph_has_one_column_and_another_shape_in_ascii() -> None:
    shapes = "".join(glyph.shapes for glyph in GLYPHS.values())
    assert all(Text(shape).cell_len == 1 for shape in shapes)
    assert in_plain(shapes).isascii()

"""An order as a tree on the terminal, from a golden journal."""

import io
import re
from datetime import timedelta

import pytest
from rich.console import Console
from rich.text import Text

from mcc.contracts.entry import ORDER, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.inbox_facts import OUTLINE, ApprovalDecided, ApprovalRequested, QuestionAsked
from mcc.contracts.journal import AgentFinished, AgentStep, ControlApplied, WorkspaceCheckpointed
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import OrderClaimed, OrderResumed
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.view.story import Story
from mcc.view.tree import fitting
from tests.mcc.view.order_journal import (
    BEGAN,
    CHILD,
    CLAIMED,
    END,
    LIMITED,
    MASTER,
    ORDER_ID,
    PAUSED,
    QUEUED,
    TURN,
    asked,
    call,
    journal,
    reply,
    result,
    shown,
    started,
)

WIDTHS = (74, 61, 40, 33, 18)
GO_ON = f"mcc orders resume {ORDER_ID}"


def test_the_tree_shows_what_runs_and_merges_repeated_tools() -> None:
    assert shown(journal(*TURN), 84) == (
        "◐ order 000000000001 on drone-1                       12 s      170 tokens        $0\n"
        "◐ master  offline/offline                             10 s      170 tokens        $0\n"
        "├─ ◐ explore  Read [bold]the⟦U+001B⟧[31m code          4 s       60 tokens        $0\n"
        "│  └─ ◐ read_file  a.py                                1 s\n"
        "├─ · list_files  src                                 4.0 s\n"
        "└─ ✗ list_files  docs  docs is not there             4.0 s"
    )


def test_in_a_narrow_window_titles_give_way_to_figures() -> None:
    lines = [next(line for line in shown(journal(*TURN), width).splitlines() if "expl" in line) for width in WIDTHS]
    assert lines == [
        "├─ ◐ explore  Read [bold]the⟦U+001B⟧[3…      4 s       60 tokens        $0",
        "├─ ◐ explore  Read [bold]the⟦U+001B⟧[3…     4 s    60      $0",
        "├─ ◐ explore  Rea…     4 s    60      $0",
        "├─ ◐ explore  Read [bol…      4 s",
        "├─ ◐ explore  Rea…",
    ]


def test_the_tree_of_a_finished_order_stands_still() -> None:
    assert shown(journal(*TURN, *END), 90) == (
        "✓ order 000000000001 succeeded                            16.0 s      170 tokens        $0\n"
        "✓ master  offline/offline                                 13.0 s      170 tokens        $0\n"
        "├─ ✓ explore  Read [bold]the⟦U+001B⟧[31m code  1 call      6.0 s       60 tokens        $0\n"
        "├─ · list_files  src                                       4.0 s\n"
        "└─ ✗ list_files  docs  docs is not there                   4.0 s"
    )


def test_a_command_shows_its_last_line_while_it_runs_and_then_how_it_ended() -> None:
    told = [*TURN[:5], (MASTER, call("1", "run_shell", command="make test"))]
    story = Story.of(journal(*told))
    for offset, text in ((0, "one\ntw"), (6, "o \x1b[2Jpassed\n\n")):
        story.add_delta("m", "tool.progress", text, offset, "run_shell")
    story.add_delta("m", "tool.progress", "not this one", 0, "other")
    assert drawn(story, 20).splitlines()[-1].startswith("└─ ◐ run_shell  make test  two ⟦U+001B⟧[2Jpassed  ")
    story.add(journal(*told, (MASTER, result("1", "run_shell").model_copy(update={"exit_code": 2})))[-1])
    story.add_delta("m", "tool.progress", "late", 0, "run_shell")
    assert drawn(story, 20).splitlines()[-1].startswith("└─ ✗ run_shell  make test  exit 2  ")


def test_an_order_that_nobody_has_taken_is_one_line() -> None:
    assert shown(journal(QUEUED), 60) == "◌ order 000000000001 queued on default     0 s     0      $0"


def test_a_second_attempt_begins_its_tree_anew_and_keeps_what_was_spent() -> None:
    again = (ORDER, OrderClaimed(attempt=2, epoch=3, drone="drone-2", incarnation="j"))
    text = shown(journal(*TURN, again, (Origin(record_id="m2", agent="master"), started())))
    assert re.search(r"on drone-2, attempt 2 +14 s +170 tokens", text)
    assert "list_files" not in text


def test_a_retry_is_visible_until_the_model_answers() -> None:
    retried = (MASTER, ModelRetried(round=1, attempt=1, model="m", error="429 too many", wait_seconds=3))
    asked = journal(*TURN[:4], retried)
    assert "asked again in 3 s (2nd try): 429 too many" in shown(asked)
    answered = journal(*TURN[:4], retried, (MASTER, reply(1)))
    assert "429" not in shown(answered)


def test_why_a_model_is_asked_again_is_whole_in_a_narrow_window() -> None:
    error = "mine (openai/m) could not be reached at 127.0.0.1:8000: it was refused; check that it runs there"
    retried = (MASTER, ModelRetried(round=1, attempt=1, model="m", error=error, wait_seconds=3))
    picture = shown(journal(*TURN[:4], retried), width=60)
    assert error in " ".join(picture.split()) and max(map(len, picture.splitlines())) <= 60


def test_what_a_failed_model_call_cost_is_in_the_sum() -> None:
    failed = AgentStep(name="model.failed", message="cut off", usage=Usage(output_tokens=1_000, model_calls=1))
    assert "1,170 tokens" in shown(journal(*TURN, (MASTER, failed))).splitlines()[0]


def test_an_unknown_price_is_said() -> None:
    unknown = ModelReplied(
        round=1, attempt=1, model="x", finish_reason="stop", usage=Usage(input_tokens=1, cost_usd=None)
    )
    assert "1 tokens   unknown" in shown(journal(*TURN[:4], (MASTER, unknown)))


def test_a_paused_agent_and_what_people_asked_are_in_the_tree() -> None:
    steers = (
        (CHILD, asked("steer", message="Mind the tests", mode="inject")),
        (CHILD, asked("steer", message="Look south", mode="redirect", tools_removed=("read_file", "web_read"))),
        (CHILD, asked("pause")),
    )
    _, _, explore, _, told, tasked, *_ = shown(journal(*TURN, *steers)).splitlines()
    assert explore.startswith("├─ ‖ explore  Read [bold]the⟦U+001B⟧[31m code  paused  ")
    assert told == "│  ├─ » is to be told: Mind the tests"
    assert tasked == "│  └─ » has a new task: Look south; loses read_file, web_read"
    assert "paused" not in shown(journal(*TURN, *steers, (CHILD, asked("resume"))))
    requested = (CHILD, ModelStarted(round=2, attempt=1, model="m"))
    assert "» is told: Mind the tests" in shown(journal(*TURN, *steers, requested))
    assert "paused" not in shown(journal(*TURN, *steers, *END))


@pytest.mark.parametrize("whose", [ORDER, MASTER])
def test_a_paused_order_shows_every_agent_that_runs_as_paused(whose: Origin) -> None:
    text = shown(journal(*TURN, (whose, asked("pause", reason="lunch"))))
    assert "order 000000000001 paused, on drone-1" in text
    assert text.count("  paused") == 2
    ended = shown(journal(*TURN, (whose, asked("pause")), *END[:2]))
    assert ended.count("  paused") == 1 and "✓ explore" in ended


def test_wishes_of_agent_files_that_do_not_count_are_shown_the_first_and_how_many_more() -> None:
    said = [AgentStep(name="definition_warning", message=f".mcc/agents/a{n}.md: not used") for n in range(3)]
    drawn = shown(journal((MASTER, started()), *((MASTER, step) for step in said)))
    assert ".mcc/agents/a0.md: not used (and 2 more: mcc agents check)" in drawn and "a1.md" not in drawn


def paused(control_id: str = "c1", kind: str = "pause") -> ControlApplied:
    return ControlApplied(control_id=control_id, control=kind)


def test_a_waiting_order_says_what_it_waits_for_and_how_it_goes_on() -> None:
    entries = journal(QUEUED, CLAIMED, (MASTER, started("Look")), (ORDER, paused()), (ORDER, PAUSED))
    heading, advice, master = shown(entries).splitlines()
    assert "‖ order 000000000001 waiting (paused): the order is paused until someone resumes it" in heading
    assert "paused, waiting" not in heading
    assert advice.startswith(f"› go on: {GO_ON}")
    assert master.startswith("‖ master") and "paused" in master


def test_an_order_that_goes_on_gives_no_advice_any_more() -> None:
    resumed = OrderResumed(message="resumed on request")
    told = shown(journal(QUEUED, CLAIMED, (MASTER, started()), (ORDER, LIMITED), (ORDER, resumed)))
    assert "go on:" not in told and "queued again: resumed on request" in told


def test_a_long_wait_for_a_model_is_told_as_people_tell_it() -> None:
    retried = ModelRetried(round=1, attempt=1, model="a/b", error="It is busy.", wait_seconds=3600)
    told = shown(journal(QUEUED, CLAIMED, (MASTER, started()), (MASTER, retried)))
    assert "asked again in 1 h 00 min (2nd try): It is busy." in told


def drawn(story: Story, height: int, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(fitting(story, BEGAN + timedelta(seconds=60), console))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_what_a_model_says_is_seen_while_it_speaks() -> None:
    story = Story.of(journal(*TURN[:4]))
    assert "offline  waiting for the model" in drawn(story, 24)
    story.add_delta("m", "thinking.delta", "Let me see.")
    assert drawn(story, 24).endswith("\n  Let me see.") and "offline  thinking" in drawn(story, 24)
    story.add_delta("m", "model.delta", "It is ")
    story.add_delta("m", "model.delta", "a \x1b[31mclock.", offset=6)
    assert drawn(story, 24).endswith("\n  It is a ⟦U+001B⟧[31mclock.")
    story.add_delta("m", "tool_call.delta", '{"path":', tool="read_file")
    assert "offline  writes read_file (8)" in drawn(story, 24)
    story.add(journal(*TURN[:4], (MASTER, reply(100)))[-1])
    assert "writes" not in drawn(story, 24) and "clock" not in drawn(story, 24)


def test_a_model_that_is_asked_again_begins_its_words_anew() -> None:
    story = Story.of(journal(*TURN[:4]))
    story.add_delta("m", "model.delta", "It is half")
    story.add_delta("m", "model.delta", "It is whole", offset=0)
    assert drawn(story, 24).endswith("\n  It is whole")


def test_of_a_long_text_the_end_is_seen() -> None:
    story = Story.of(journal(*TURN[:4]))
    story.add_delta("m", "model.delta", "\n".join(f"line {n}" for n in range(100)))
    assert drawn(story, 24).splitlines()[-2:] == ["  line 98", "  line 99"]
    assert len(drawn(story, 24).splitlines()) < 24


def many(running: int, ended: int) -> Story:
    told = list(TURN[:5])
    for n in range(ended + running):
        child = Origin(record_id=f"c{n}", parent_id="m", agent="explore", depth=1)
        told += [(child, started(f"Part {n}", f"k{n}")), (child, call(f"t{n}", "read_file", path=f"{n}.py"))]
        if n < ended:
            told += [(child, result(f"t{n}", "read_file"))]
            told += [(child, AgentFinished(status=RecordStatus.COMPLETED, answer="…"))]
    return Story.of(journal(*told))


def test_in_a_low_window_what_has_ended_folds_so_that_what_runs_is_seen() -> None:
    story = many(running=2, ended=12)
    whole = drawn(story, 60)
    assert whole.count("✓ explore") == 12 and "11.py" not in whole and "13.py" in whole
    grouped = drawn(story, 12)
    assert "✓ 12 completed  explore" in grouped and "✓ explore" not in grouped
    assert "Part 12" in grouped and "Part 13" in grouped and "13.py" in grouped
    assert len(grouped.splitlines()) < 12


def test_an_agent_that_asks_a_person_says_so_until_it_is_told() -> None:
    wanted = ApprovalRequested(
        approval_id=f"{ORDER_ID[:-1]}a",
        call_id="c",
        tool="run_shell",
        digest="d",
        arguments={"command": "make \x1b[2J"},
    )
    other = wanted.model_copy(update={"approval_id": f"{ORDER_ID[:-1]}b", "tool": "git_commit", "arguments": {}})
    decided = ApprovalDecided(approval_id=wanted.approval_id, call_id="c", decision="approve")
    asked = shown(journal(*TURN[:4], (MASTER, wanted), (MASTER, other)))
    assert "◆ waits: may it use run_shell? make ⟦U+001B⟧[2J · mcc orders approve 00000000000a (or deny)\n" in asked
    assert "◆ waits: may it use git_commit? · mcc orders approve 00000000000b (or deny)" in asked
    assert "◆ master" in asked
    told = shown(journal(*TURN[:4], (MASTER, wanted), (MASTER, other), (MASTER, decided)))
    assert "run_shell" not in told and "may it use git_commit?" in told and "· approve" in told
    outline = wanted.model_copy(update={"call_id": "", "tool": OUTLINE})
    assert "waits: may the outline count? · mcc orders approve 00000000000a" in shown(
        journal(*TURN[:4], (MASTER, outline))
    )
    question = QuestionAsked(question_id=f"{ORDER_ID[:-1]}c", call_id="c", question="Which of them?")
    assert "◆ waits: Which of them? · mcc orders answer 00000000000c TEXT" in shown(
        journal(*TURN[:4], (MASTER, question))
    )


def test_of_more_agents_than_fit_those_that_ask_people_are_seen_and_the_others_counted() -> None:
    told: list[tuple[Origin, Fact]] = list(TURN[:4])
    for number in range(60):
        told.append(
            (Origin(record_id=f"c{number}", parent_id="m", agent="explore", depth=1), started(f"Part {number}"))
        )
    wanted = ApprovalRequested(approval_id=ORDER_ID, call_id="c", tool="run_shell", digest="d")
    picture = drawn(Story.of(journal(*told, (told[-1][0], wanted))), 10)
    assert "◆ explore 60  Part 59" in picture and "may it use run_shell?" in picture
    assert "Part 0" in picture and len(picture.splitlines()) < 10
    *_, left = picture.splitlines()
    seen = picture.count("Part ")
    assert left == f"└─ … {60 - seen} more: {60 - seen} running"


def test_agents_at_any_depth_keep_their_names_within_the_window() -> None:
    told: list[tuple[Origin, Fact]] = list(TURN[:4])
    for depth in range(1, 30):
        above = f"c{depth - 1}" if depth > 1 else "m"
        told.append((Origin(record_id=f"c{depth}", parent_id=above, agent="deep", depth=depth), started()))
    lines = shown(journal(*told), 40).splitlines()
    assert all(Text(line).cell_len <= 40 for line in lines)
    assert all(f"◐ deep {depth}" in shown(journal(*told), 40) for depth in range(2, 30))


def test_while_nothing_is_heard_of_an_order_the_tree_says_so() -> None:
    story = Story.of(journal(*TURN))
    story.away = (BEGAN, "refused \x1b[2J")
    assert f"◷ not connected since {BEGAN.astimezone():%H:%M:%S}, tries again: refused ⟦U+001B⟧[2J" in drawn(story, 20)
    assert story.heard_until(BEGAN + timedelta(seconds=9)) == BEGAN
    story.away = None
    assert story.heard_until(BEGAN + timedelta(seconds=9)) == BEGAN + timedelta(seconds=9)
    assert "not connected" not in drawn(story, 20)


def test_calls_that_are_not_drawn_are_counted() -> None:
    names = ("read_file", "search_text")
    calls = [(MASTER, call(f"k{number}", names[number % 2], path=f"{number}.py")) for number in range(40)]
    ended = [(MASTER, result(f"k{number}", names[number % 2])) for number in range(40)]
    told = [fact for pair in zip(calls, ended, strict=True) for fact in pair]
    picture = drawn(Story.of(journal(*TURN[:4], *told)), 14)
    assert "├─ … 34 earlier calls" in picture and "39.py" in picture


def test_notes_of_one_kind_share_a_row_which_a_low_window_leaves_out() -> None:
    saved = [WorkspaceCheckpointed(checkpoint_id="1", call_id="c", files=files, bytes=8) for files in (1, 2, 3)]
    told = journal(*TURN[:5], *((MASTER, one) for one in saved))
    assert shown(told).endswith("└─ · checkpoint of 3 files (8 bytes) ×3")
    assert "checkpoint" in drawn(Story.of(told), 8) and "checkpoint" not in drawn(Story.of(told), 3)


def test_a_pause_tells_why() -> None:
    assert "» paused (lunch)" in shown(journal(*TURN, (MASTER, asked("pause", reason="lunch"))))

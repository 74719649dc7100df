"""An order as a tree on the terminal, from a golden journal."""

import io
from datetime import timedelta

import pytest
from rich.console import Console

from mcc.contracts.entry import ORDER, Origin
from mcc.contracts.inbox_facts import OUTLINE, ApprovalDecided, ApprovalRequested
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

GO_ON = f"mcc orders resume {ORDER_ID}"


def test_the_tree_shows_what_runs_and_merges_repeated_tools() -> None:
    assert shown(journal(*TURN)) == (
        "⠋ order 000000000001 on drone-1  12.0 s · 170 tokens · $0\n"
        "⠋ master  10.0 s · 170 tokens · $0 · offline/offline\n"
        "├── · list_files ×2 (1 failed)  docs  docs is not there\n"
        "└── ⠋ explore  Read [bold]the⟦U+001B⟧[31m code  4.0 s · 60 tokens · $0 · offline/offline\n"
        "    └── ⠋ read_file  a.py"
    )


def test_in_a_narrow_window_titles_give_way_to_figures() -> None:
    assert shown(journal(*TURN), width=74).splitlines()[3] == (
        "└── ⠋ explore  Read [bold]the⟦U…  4.0 s · 60 tokens · $0 · offline/offline"
    )
    assert all("  4.0 s · 60 tokens" in shown(journal(*TURN), width=width) for width in (50, 60, 100))


def test_the_tree_of_a_finished_order_stands_still() -> None:
    assert shown(journal(*TURN, *END)) == (
        "order 000000000001 succeeded  16.0 s · 170 tokens · $0\n"
        "✓ master  13.0 s · 170 tokens · $0 · offline/offline\n"
        "├── · list_files ×2 (1 failed)  docs  docs is not there\n"
        "└── ✓ explore  Read [bold]the⟦U+001B⟧[31m code  6.0 s · 60 tokens · $0 · offline/offline\n"
        "    └── · read_file  a.py"
    )


def test_a_command_shows_its_last_line_while_it_runs_and_then_how_it_ended() -> None:
    told = [*TURN[:5], (MASTER, call("1", "run_shell", command="make test"))]
    story = Story.of(journal(*told))
    for offset, text in ((0, "one\ntw"), (6, "o \x1b[2Jpassed\n\n")):
        story.add_delta("m", "tool.progress", text, offset, "run_shell")
    story.add_delta("m", "tool.progress", "not this one", 0, "other")
    assert drawn(story, 20).endswith("└── ⠋ run_shell  make test  two ⟦U+001B⟧[2Jpassed")
    story.add(journal(*told, (MASTER, result("1", "run_shell").model_copy(update={"exit_code": 2})))[-1])
    story.add_delta("m", "tool.progress", "late", 0, "run_shell")
    assert drawn(story, 20).endswith("└── · run_shell  make test  exit 2")


def test_an_order_that_nobody_has_taken_is_one_line() -> None:
    assert shown(journal(QUEUED)) == "⠋ order 000000000001 queued on default  0.0 s · 0 tokens · $0"


def test_a_second_attempt_begins_its_tree_anew_and_keeps_what_was_spent() -> None:
    again = (ORDER, OrderClaimed(attempt=2, epoch=3, drone="drone-2", incarnation="j"))
    text = shown(journal(*TURN, again, (Origin(record_id="m2", agent="master"), started())))
    assert "on drone-2, attempt 2  14.0 s · 170 tokens" in text
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
    assert "1 tokens · cost unknown" in shown(journal(*TURN[:4], (MASTER, unknown)))


def test_a_paused_agent_and_what_people_asked_are_in_the_tree() -> None:
    steers = (
        (CHILD, asked("steer", message="Mind the tests", mode="inject")),
        (CHILD, asked("steer", message="Look south", mode="redirect", tools_removed=("read_file", "web_read"))),
        (CHILD, asked("pause")),
    )
    assert shown(journal(*TURN, *steers)).endswith(
        "└── … explore  Read [bold]the⟦U+001B⟧[31m code  7.0 s · 60 tokens · $0 · offline/offline  paused\n"
        "    ├── ⠋ read_file  a.py\n"
        "    ├── » is to be told: Mind the tests\n"
        "    └── » has a new task: Look south; loses read_file, web_read"
    )
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
    assert "… order 000000000001 waiting (paused): the order is paused until someone resumes it" in heading
    assert "paused, waiting" not in heading
    assert advice.strip().startswith(f"go on: {GO_ON}")
    assert master.startswith("… master") and "paused" in master


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
    assert "master  waiting for the model" in drawn(story, 24)
    story.add_delta("m", "thinking.delta", "Let me see.")
    assert drawn(story, 24).endswith("\n  Let me see.") and "master  thinking" in drawn(story, 24)
    story.add_delta("m", "model.delta", "It is ")
    story.add_delta("m", "model.delta", "a \x1b[31mclock.", offset=6)
    assert drawn(story, 24).endswith("\n  It is a ⟦U+001B⟧[31mclock.")
    story.add_delta("m", "tool_call.delta", '{"path":', tool="read_file")
    assert "master  writes read_file (8)" in drawn(story, 24)
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
    assert whole.count("✓ explore") == 12 and "11.py" in whole
    folded = drawn(story, 24)
    assert folded.count("✓ explore") == 12 and "11.py" not in folded and "13.py" in folded
    grouped = drawn(story, 12)
    assert "✓ 12 completed  explore" in grouped and "✓ explore" not in grouped
    assert "Part 12" in grouped and "Part 13" in grouped and "13.py" in grouped
    assert len(grouped.splitlines()) < 12


def test_an_agent_that_asks_a_person_says_so_until_it_is_told() -> None:
    wanted = ApprovalRequested(approval_id="a", call_id="c", tool="git_commit", digest="d")
    decided = ApprovalDecided(approval_id="a", call_id="c", decision="approve")
    assert "waits: may it use git_commit?" in shown(journal(*TURN[:4], (MASTER, wanted)))
    told = shown(journal(*TURN[:4], (MASTER, wanted), (MASTER, decided)))
    assert "waits" not in told and "· approve" in told
    outline = ApprovalRequested(approval_id="a", call_id="", tool=OUTLINE, digest="d")
    assert "waits: may the outline count?" in shown(journal(*TURN[:4], (MASTER, outline)))


def test_notes_of_one_kind_share_a_row_which_a_low_window_leaves_out() -> None:
    saved = [WorkspaceCheckpointed(checkpoint_id="1", call_id="c", files=files, bytes=8) for files in (1, 2, 3)]
    told = journal(*TURN[:5], *((MASTER, one) for one in saved))
    assert shown(told).endswith("└── · checkpoint of 3 files (8 bytes) ×3")
    assert "checkpoint" in drawn(Story.of(told), 8) and "checkpoint" not in drawn(Story.of(told), 3)


def test_a_pause_tells_why() -> None:
    assert "» paused (lunch)" in shown(journal(*TURN, (MASTER, asked("pause", reason="lunch"))))

"""An order on the terminal: the tree from a golden journal, the plain lines, and text that means no harm."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from mcc.contracts.agents import DefinitionOrigin
from mcc.contracts.journal import (
    ORDER,
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    ControlApplied,
    Draft,
    Entry,
    Fact,
    GateChecked,
    ModelReplied,
    ModelRetried,
    ModelStarted,
    OrderClaimed,
    OrderFinished,
    OrderQueued,
    Origin,
    ToolFinished,
    ToolStarted,
)
from mcc.contracts.limits import LimitChoice
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.view.clean import clean, one_line
from mcc.view.lines import Lines
from mcc.view.story import Story
from mcc.view.tree import tree

BEGAN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ORDER_ID = "01890000-0000-7000-8000-000000000001"
MASTER = Origin(record_id="m", agent="master")
CHILD = Origin(record_id="c", parent_id="m", agent="explore", depth=1)


def journal(*told: tuple[Origin, Fact]) -> list[Entry]:
    """One entry a second."""
    drafts = [Draft(at=BEGAN + timedelta(seconds=n), origin=origin, data=fact) for n, (origin, fact) in enumerate(told)]
    return [draft.numbered(ORDER_ID, number) for number, draft in enumerate(drafts, 1)]


def started(title: str = "", call_id: str | None = None) -> AgentStarted:
    return AgentStarted(
        title=title,
        call_id=call_id,
        prompt="…",
        model=ModelChoice(requested="offline", effective="offline/offline"),
        tools=(),
        limits=LimitChoice(),
        definition_digest="",
        setup_digest="",
    )


def call(call_id: str, name: str, **arguments: object) -> ToolStarted:
    return ToolStarted(call_id=call_id, round=1, index=0, name=name, arguments=arguments, idempotent=True)


def result(call_id: str, name: str, content: str = "", is_error: bool = False) -> ToolFinished:
    return ToolFinished(call_id=call_id, name=name, content=content, is_error=is_error)


def reply(tokens: int) -> ModelReplied:
    usage = Usage(input_tokens=tokens, output_tokens=10, model_calls=1)
    return ModelReplied(round=1, attempt=1, model="offline/offline", text="", finish_reason="stop", usage=usage)


QUEUED = (ORDER, OrderQueued(session_id="s", session_seq=1, agent="master", queue="default", priority=5))
CLAIMED = (ORDER, OrderClaimed(attempt=1, epoch=1, drone="drone-1", incarnation="i"))
TURN: Sequence[tuple[Origin, Fact]] = (
    QUEUED,
    CLAIMED,
    (MASTER, started()),
    (MASTER, ModelStarted(round=1, attempt=1, model="offline/offline")),
    (MASTER, reply(100)),
    (MASTER, call("1", "list_files", path="src")),
    (MASTER, call("2", "list_files", path="docs")),
    (MASTER, call("3", "subagent", agent_type="explore")),
    (CHILD, started("Read [bold]the\x1b[31m code", "3")),
    (MASTER, result("1", "list_files")),
    (MASTER, result("2", "list_files", "docs is not there", True)),
    (CHILD, call("4", "read_file", path="a.py")),
    (CHILD, reply(50)),
)
END: Sequence[tuple[Origin, Fact]] = (
    (CHILD, result("4", "read_file")),
    (CHILD, AgentFinished(status=RecordStatus.COMPLETED, answer="…")),
    (MASTER, AgentFinished(status=RecordStatus.COMPLETED, answer="…")),
    (ORDER, OrderFinished(status=OrderStatus.SUCCEEDED)),
)


def shown(entries: list[Entry], width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(tree(Story.of(entries), entries[-1].at))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_the_tree_shows_what_runs_and_merges_repeated_tools() -> None:
    assert shown(journal(*TURN)) == (
        "⠋ order 01890000 on drone-1  12.0 s · 170 tokens · $0\n"
        "⠋ master  10.0 s · 170 tokens · $0 · offline/offline\n"
        "├── · list_files ×2 (1 failed)  docs\n"
        "└── ⠋ explore  Read [bold]the code  4.0 s · 60 tokens · $0 · offline/offline\n"
        "    └── ⠋ read_file  a.py"
    )


def test_the_tree_of_a_finished_order_stands_still() -> None:
    assert shown(journal(*TURN, *END)) == (
        "order 01890000 succeeded  16.0 s · 170 tokens · $0\n"
        "✓ master  13.0 s · 170 tokens · $0 · offline/offline\n"
        "├── · list_files ×2 (1 failed)  docs\n"
        "└── ✓ explore  Read [bold]the code  6.0 s · 60 tokens · $0 · offline/offline\n"
        "    └── · read_file  a.py"
    )


def test_an_order_that_nobody_has_taken_is_one_line() -> None:
    assert shown(journal(QUEUED)) == "⠋ order 01890000 queued on default  0.0 s · 0 tokens · $0"


def test_a_second_attempt_begins_its_tree_anew_and_keeps_what_was_spent() -> None:
    again = (ORDER, OrderClaimed(attempt=2, epoch=3, drone="drone-2", incarnation="j"))
    text = shown(journal(*TURN, again, (Origin(record_id="m2", agent="master"), started())))
    assert "on drone-2, attempt 2  14.0 s · 170 tokens" in text
    assert "list_files" not in text


def test_a_retry_is_visible_until_the_model_answers() -> None:
    retried = (MASTER, ModelRetried(round=1, attempt=1, model="m", error="429 too many", wait_seconds=3))
    asked = journal(*TURN[:4], retried)
    assert "asks again in 3 s: 429 too many" in shown(asked)
    answered = journal(*TURN[:4], retried, (MASTER, reply(1)))
    assert "429" not in shown(answered)


def test_an_unknown_price_is_said() -> None:
    unknown = ModelReplied(
        round=1, attempt=1, model="x", text="", finish_reason="stop", usage=Usage(input_tokens=1, cost_usd=None)
    )
    assert "1 tokens · cost unknown" in shown(journal(*TURN[:4], (MASTER, unknown)))


def test_plain_lines_tell_what_a_person_would_want_to_read() -> None:
    told = Lines()
    lines = [line for entry in journal(*TURN, *END) if (line := told.line_of(entry))]
    assert [line.split(" ", 1)[1] for line in lines] == [
        f"order {ORDER_ID} queued on default",
        "order claimed by drone-1",
        "master: starts with offline/offline",
        "master: list_files src",
        "master: list_files docs",
        "master: subagent explore",
        "  explore: starts with offline/offline (record c): Read [bold]the code",
        "master: list_files failed: docs is not there",
        "  explore: read_file a.py",
        "  explore: completed",
        "master: completed",
        "order succeeded: 0 tokens · $0",
    ]


def asked(control: str, **fields: object) -> ControlApplied:
    return ControlApplied.model_validate({"control_id": "x", "control": control, **fields})


def test_a_paused_agent_and_what_people_asked_are_in_the_tree() -> None:
    steers = (
        (CHILD, asked("steer", message="Mind the tests", mode="inject")),
        (CHILD, asked("steer", message="Look south", mode="redirect", tools_removed=("read_file", "web_read"))),
        (CHILD, asked("pause")),
    )
    assert shown(journal(*TURN, *steers)).endswith(
        "└── … explore  Read [bold]the code  7.0 s · 60 tokens · $0 · offline/offline  paused\n"
        "    ├── ⠋ read_file  a.py\n"
        "    ├── » is told: Mind the tests\n"
        "    └── » has a new task: Look south; loses read_file, web_read"
    )
    assert "paused" not in shown(journal(*TURN, *steers, (CHILD, asked("resume"))))
    assert "paused" not in shown(journal(*TURN, *steers, *END))


@pytest.mark.parametrize("whose", [ORDER, MASTER])
def test_a_paused_order_shows_every_agent_that_runs_as_paused(whose: Origin) -> None:
    text = shown(journal(*TURN, (whose, asked("pause", reason="lunch"))))
    assert "order 01890000 paused, on drone-1" in text
    assert text.count("  paused") == 2
    ended = shown(journal(*TURN, (whose, asked("pause")), *END[:2]))
    assert ended.count("  paused") == 1 and "✓ explore" in ended


def test_what_people_asked_is_a_plain_line_too() -> None:
    told = [
        (ORDER, asked("pause", reason="lunch")),
        (ORDER, asked("resume")),
        (MASTER, asked("steer", message="Mind\nthe tests")),
        (CHILD, asked("steer", tools_removed=("run_shell",), reason="too slow")),
        (CHILD, asked("cancel", reason="wrong quay")),
    ]
    shown = Lines()
    lines = [line.split(" ", 1)[1] for entry in journal(*told) if (line := shown.line_of(entry))]
    assert lines == [
        "order paused (lunch)",
        "order goes on",
        "master: is told: Mind the tests",
        "  explore: loses run_shell (too slow)",
        "  explore: is cancelled (wrong quay)",
    ]


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (GateChecked(attempt=1, ok=False, errors=("Read it.",)), "its result was sent back (attempt 1): Read it."),
        (GateChecked(tool="validate", attempt=0, ok=True), "its result would be accepted"),
        (GateChecked(attempt=2, ok=True), "its result was accepted"),
        (AgentStep(name="nudge", message="Try another."), "goes round in circles and is told so: Try another."),
        (AgentStep(name="provisioned", message="provisioned 3 tools"), "provisioned 3 tools"),
        (AgentReused(message="And the tests?", turn=2), "is asked again (turn 2): And the tests?"),
        (
            ToolFinished(call_id="1", name="read_file", content="a…", is_error=False, artifact="0123456789abcdef99"),
            "read_file brought more than fits; the whole is artifact 0123456789abcdef",
        ),
    ],
    ids=["sent back", "would do", "accepted", "nudged", "provisioned", "asked again", "kept whole"],
)
def test_how_an_agent_came_to_its_result_is_a_plain_line(fact: Fact, said: str) -> None:
    entry = Draft(at=BEGAN, origin=CHILD, data=fact).numbered(ORDER_ID, 1)
    assert str(Lines().line_of(entry)).endswith(f"explore: {said}")


def test_what_a_gate_refused_is_told_once() -> None:
    refused = ToolFinished(call_id="1", name="submit_result", content="Not accepted: Read it.", is_error=True)
    assert Lines().line_of(Draft(at=BEGAN, origin=CHILD, data=refused).numbered(ORDER_ID, 1)) is None


def test_a_failed_order_says_why() -> None:
    failed = OrderFinished(status=OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR, detail="401: wrong key")
    line = Lines().line_of(journal((ORDER, failed))[0])
    assert line is not None
    assert line.endswith("order failed (model_error): 401: wrong key")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain\n\ttext ü 漢", "plain\n\ttext ü 漢"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;c2VjcmV0\x07copied", "copied"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1bP1$r\x1b\\after", "after"),
        ("\x1b]0;no end, and the text stays", "0;no end, and the text stays"),
        ("over\rwritten", "overwritten"),
        ("line\r\nline", "line\nline"),
        ("bell\x07 nul\x00 del\x7f", "bell nul del"),
        ("lone \ud800 surrogate", "lone \N{REPLACEMENT CHARACTER} surrogate"),
        ("right\u202eleft\u200b", "rightleft"),
        ("tag\U000e0041s", "tags"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, safe: str) -> None:
    assert clean(text) == safe


def test_a_flood_of_openings_is_cleaned_in_one_pass() -> None:
    assert clean("\x9d" * 200_000 + "\x1b]" * 200_000 + "end") == "end"


def test_one_line_is_short_and_whole() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"status":"blocked","summary":"It had no time.","findings":[]}', "It had no time."),
        ('{"status":"blocked"', '{"status":"blocked"'),
        ('{"summary":7}', '{"summary":7}'),
        ("[" * 3, "[" * 3),
        ('{"a":' * 5_000, "…"),
    ],
)
def test_a_failed_subagent_is_told_of_in_words_and_not_in_json(content: str, said: str) -> None:
    (entry,) = journal((MASTER, result("3", "subagent", content, is_error=True)))
    line = Lines().line_of(entry)
    assert line is not None and line.endswith(said) and "master: subagent failed: " in line


def test_agents_of_one_name_are_told_apart_in_lines() -> None:
    twin = Origin(record_id="twin", parent_id=CHILD.parent_id, agent="explore", depth=1)
    shown = Lines()
    lines = [shown.line_of(entry) for entry in journal((CHILD, started("one")), (twin, started("two")))]
    assert "explore: starts" in str(lines[0]) and "explore 2: starts" in str(lines[1])


def test_an_agent_of_the_workspace_is_shown_with_its_file_and_an_installed_one_without() -> None:
    origin = DefinitionOrigin(scope="workspace", path=".mcc/agents/scout\x1b[2J.md")
    shipped = DefinitionOrigin(scope="shipped", path="master/system.md")
    entries = journal(
        (MASTER, started().model_copy(update={"definition_origin": shipped})),
        (CHILD, started(call_id="d").model_copy(update={"definition_origin": origin})),
    )
    lines = Lines()
    plain = [lines.line_of(entry) or "" for entry in entries]
    drawn = shown(entries)
    assert "from" not in plain[0] and "from .mcc/agents/scout.md" in plain[1]
    assert drawn.count("from .mcc/agents/scout.md") == 1 and "master/system.md" not in drawn


def test_wishes_of_agent_files_that_do_not_count_are_shown_the_first_and_how_many_more() -> None:
    said = [AgentStep(name="definition_warning", message=f".mcc/agents/a{n}.md: not used") for n in range(3)]
    drawn = shown(journal((MASTER, started()), *((MASTER, step) for step in said)))
    assert ".mcc/agents/a0.md: not used (and 2 more: mcc agents check)" in drawn and "a1.md" not in drawn

"""An order as plain lines, what it waits for, its agents' names, and what it changed."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from mcc.cli.orders import _record_of
from mcc.contracts.agents import DefinitionOrigin
from mcc.contracts.changes import ChangedFile, Changes, CheckpointTaken, CommitMade, WorktreeChange
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import ORDER, Draft, Origin
from mcc.contracts.fact import Fact, NotedFact
from mcc.contracts.fold import Fold
from mcc.contracts.git_facts import WorktreeState
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    ControlApplied,
    GateChecked,
    ToolFinished,
    VerifyChecked,
)
from mcc.contracts.model_facts import ModelRetried
from mcc.contracts.order_facts import OrderFinished, OrderWaiting
from mcc.contracts.record import ChatRecord, NoteStep, RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.view.lines import (
    Lines,
    by_name,
    change_rows,
    clock,
    last_retry,
    paused_in,
    waiting_in_brief,
    what_to_do,
)
from mcc.view.steps import at_work, attached_in, log_lines
from tests.mcc.contracts.samples import FACTS
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
    journal,
    reply,
    result,
    shown,
    started,
)

GO_ON = f"mcc orders resume {ORDER_ID}"


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
        "  explore: starts with offline/offline (record c): Read [bold]the⟦U+001B⟧[31m code",
        "master: list_files failed: docs is not there",
        "  explore: read_file a.py",
        "  explore: completed",
        "master: completed",
        "order succeeded: 0 tokens · $0",
    ]


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
        "master: is to be told: Mind the tests",
        "  explore: loses run_shell (too slow)",
        "  explore: is cancelled (wrong quay)",
    ]


REST = ("nudged", "provisioned", "asked again", "kept whole", "command")


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (GateChecked(attempt=1, ok=False, errors=("Read it.",)), "its result was sent back (attempt 1): Read it."),
        (GateChecked(check_only=True, attempt=0, ok=True), "its result would be accepted"),
        (GateChecked(attempt=2, ok=True), "its result was accepted"),
        (VerifyChecked(verifier="verify", revision=0, passed=True), "verified by verify"),
        (
            VerifyChecked(verifier="review", revision=0, passed=False, points=("Read it.",), message="Not yet."),
            "sent back by the verifier review: Read it.",
        ),
        (
            VerifyChecked(verifier="verify", revision=1, passed=False, points=("Read it.", "Say so.")),
            "not accepted by the verifier verify: Read it.; Say so.",
        ),
        (VerifyChecked(verifier="verify", revision=0, passed=None, error="It is away."), "not verified: It is away."),
        (AgentStep(name="nudge", message="Try another."), "is told: Try another."),
        (AgentStep(name="provisioned", message="provisioned 3 tools"), "provisioned 3 tools"),
        (AgentReused(message="And the tests?", turn=2), "is asked again (turn 2): And the tests?"),
        (
            ToolFinished(call_id="1", name="read_file", content="a…", is_error=False, artifact="0123456789abcdef99"),
            "read_file brought more than fits; the whole is artifact 0123456789abcdef",
        ),
        (
            ToolFinished(call_id="1", name="run_shell", content="{}", is_error=False, artifact="01", exit_code=2),
            "run_shell ended with status 2",
        ),
    ],
    ids=["sent back", "would do", "accepted", "verified", "sent back by it", "not passed", "no verdict", *REST],
)
def test_how_an_agent_came_to_its_result_is_a_plain_line(fact: Fact, said: str) -> None:
    entry = Draft(at=BEGAN, origin=CHILD, data=fact).numbered(ORDER_ID, 1)
    assert str(Lines().line_of(entry)).endswith(f"explore: {said}")


@pytest.mark.parametrize("fact", [fact for fact in FACTS if isinstance(fact, NotedFact)], ids=lambda fact: fact.kind)
def test_whatever_the_record_notes_is_a_plain_line(fact: NotedFact) -> None:
    assert Lines().line_of(Draft(at=BEGAN, origin=CHILD, data=fact).numbered(ORDER_ID, 1)) is not None


def test_what_a_gate_refused_is_told_once() -> None:
    refused = ToolFinished(call_id="1", name="submit_result", content="Not accepted: Read it.", is_error=True)
    assert Lines().line_of(Draft(at=BEGAN, origin=CHILD, data=refused).numbered(ORDER_ID, 1)) is None


def test_why_an_order_failed_is_left_to_whoever_says_how_it_ended() -> None:
    end = AgentFinished(status=RecordStatus.FAILED, error="401: wrong key")
    failed = OrderFinished(status=OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR, detail="401: wrong key")
    told = Lines()
    lines = [told.line_of(entry) for entry in journal((MASTER, end), (CHILD, end), (ORDER, failed))]
    said = [line.split(" ", 1)[1] for line in lines if line]
    assert said == ["master: failed", "  explore: failed: 401: wrong key", "order failed (model_error): 0 tokens · $0"]


def test_a_model_that_is_asked_again_for_the_same_reason_says_it_once() -> None:
    def retried(attempt: int, seconds: float, error: str) -> tuple[Origin, Fact]:
        return MASTER, ModelRetried(round=1, attempt=attempt, model="a/b", error=error, wait_seconds=seconds)

    first, second = (
        (retried(1, 0.28, "busy"), retried(2, 1.627, "busy")),
        (retried(1, 3, "busy"), retried(2, 4, "away")),
    )
    busy = [*first, (MASTER, reply(1)), *second]
    told = Lines()
    said = [line.split("asked again ")[1] for entry in journal(*busy) if (line := told.line_of(entry))]
    assert said == [
        "in 0.3 s (2nd try): busy",
        "in 1.6 s (3rd try): the same",
        "in 3 s (2nd try): busy",
        "in 4 s (3rd try): away",
    ]


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
    assert "from" not in plain[0] and "from .mcc/agents/scout⟦U+001B⟧[2J.md" in plain[1]
    assert drawn.count("from .mcc/agents/scout⟦U+001B⟧[2J.md") == 1 and "master/system.md" not in drawn


def paused(control_id: str = "c1", kind: str = "pause") -> ControlApplied:
    return ControlApplied(control_id=control_id, control=kind)


def test_the_plain_line_of_a_waiting_order_ends_with_what_to_do_however_long_the_reason_is() -> None:
    (line,) = _lines(OrderWaiting(reason=WaitingReason.PAUSED, message="because " * 40))
    assert GO_ON in line
    (line,) = _lines(LIMITED)
    assert f"waiting (rate_limit, until {clock(BEGAN + timedelta(hours=1))}): it is busy" in line and GO_ON in line


@pytest.mark.parametrize("reason", list(WaitingReason))
def test_only_what_a_person_can_do_is_advised(reason: WaitingReason) -> None:
    advised = what_to_do("o1", reason)
    resumed = {WaitingReason.PAUSED, WaitingReason.RATE_LIMIT, WaitingReason.PROVIDER, WaitingReason.NOT_BEFORE}
    by_a_person = {*resumed, WaitingReason.DELIVERY, WaitingReason.APPROVAL, WaitingReason.QUESTION}
    assert (advised is not None) is (reason in by_a_person)
    assert what_to_do("o1", None) is None


def test_the_moment_is_said_where_a_clock_ends_the_wait() -> None:
    assert waiting_in_brief(PAUSED) == "waiting (paused): the order is paused until someone resumes it"
    assert "until" in waiting_in_brief(LIMITED)


def test_a_running_order_is_called_paused_as_a_whole_or_by_those_of_its_agents_that_rest() -> None:
    assert paused_in(_record()) is None
    assert paused_in(_record((ORDER, paused()))) == "paused"
    assert paused_in(_record((CHILD, paused()))) == "1 of its agents paused: c"
    assert paused_in(_record((CHILD, paused()), (CHILD, paused("c2", "resume")))) is None


def test_subagents_that_have_not_ended_are_named_and_those_that_nobody_waits_for_marked() -> None:
    left = ToolFinished(call_id="k", name="subagent", content="{}", is_error=False, background=("c",))
    ended = AgentFinished(status=RecordStatus.COMPLETED, answer="…")
    assert [*at_work(_record())] == ["explore: Below"]
    assert [*at_work(_record((MASTER, left)))] == ["explore: Below, in the background"]
    assert [*at_work(_record((MASTER, left), (SECOND, started()), (CHILD, ended)))] == ["explore 2"]


def test_the_files_that_an_order_was_given_are_named_once_its_agent_has_begun() -> None:
    told = NoteStep(seq=2, name="attachments", message="It was given 2 files: a.png, b.txt.")
    record = _record()
    assert attached_in(record.model_copy(update={"steps": (told,)}), 2) == "a.png, b.txt"
    assert [attached_in(None, count) for count in (0, 1, 2)] == [None, "a file", "2 files"]


def test_who_brought_a_report_is_named_as_everywhere_else() -> None:
    delivered = AgentDelivered(child_id="c", status=RecordStatus.COMPLETED, content="…")
    entries = journal(QUEUED, CLAIMED, (MASTER, started()), (CHILD, started("Below", "k")), (MASTER, delivered))
    plain, record = Lines(), Fold.of(ORDER_ID, entries).record()
    assert record is not None
    told = "reads what its subagent explore brought: completed"
    assert [line for entry in entries if (line := plain.line_of(entry))][-1].endswith(f"master: {told}")
    assert any(line.endswith(f"master  {told}") for _, line in log_lines(record))
    assert told in shown(entries)


def _lines(waiting: OrderWaiting) -> list[str]:
    lines = Lines()
    return [line for entry in journal((ORDER, waiting)) if (line := lines.line_of(entry))]


def _record(*told: tuple[object, Fact]) -> ChatRecord:
    child: AgentStarted = started("Below", call_id="k")
    entries = journal(QUEUED, CLAIMED, (MASTER, started()), (CHILD, child), *told)  # type: ignore[arg-type]
    record = Fold.of(ORDER_ID, entries).record()
    assert record is not None
    return record


SECOND = Origin(record_id="c2", parent_id="m", agent="explore", depth=1)
ENTRIES = journal(*TURN, (SECOND, started("Look south")))


def record() -> ChatRecord:
    fold = Fold(ENTRIES[0].order_id)
    for entry in ENTRIES:
        fold.add(entry)
    found = fold.record()
    assert found is not None
    return found


def test_lines_tree_and_commands_call_an_agent_the_same() -> None:
    lines = Lines()
    said = [line for entry in ENTRIES if (line := lines.line_of(entry))]
    assert "explore 2: starts" in said[-1] and "explore 2  Look south" in shown(ENTRIES)
    assert {name: one.id for name, one in by_name(record()).items()} == {
        "master": MASTER.record_id,
        "explore": CHILD.record_id,
        "explore 2": SECOND.record_id,
    }


def test_an_agent_is_addressed_by_its_name_and_an_unknown_one_is_told_with_those_at_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = cast(Any, SimpleNamespace(orders=SimpleNamespace(record=lambda order_id: record())))
    assert _record_of(client, "o", "explore 2") == "c2"
    assert _record_of(client, "o", None) is None
    with pytest.raises(typer.Exit):
        _record_of(client, "o", "explore 3")
    assert "at work are: master, explore, explore 2" in capsys.readouterr().err


RECORD = "01a20813-70d6-760a-8906-246932d6d406"
FILES = tuple(ChangedFile(path=f"{name}.py", change="modified", added=2, removed=1) for name in "abcdefg")


def test_files_commits_what_was_not_merged_and_the_way_back_are_told() -> None:
    merged = WorktreeChange(record_id=RECORD, agent="one", ref="refs/mcc/o/r1", state=WorktreeState.MERGED)
    conflict = WorktreeChange(
        record_id=RECORD, agent="two", ref="refs/mcc/o/r2", state=WorktreeState.CONFLICT, conflicts=("a.py",)
    )
    changes = Changes(
        workspace="/w",
        commits=(CommitMade(id="e4cdb8c607242df18c1c", subject="Mend it"),),
        files=FILES,
        checkpoints=(CheckpointTaken(after=3, id="c"),),
        worktrees=(merged, conflict),
    )
    assert change_rows(changes, "o") == [
        ("changed", "+14 −7 lines: a.py, b.py, c.py, d.py, e.py, 2 more"),
        ("commit", "e4cdb8c60724 Mend it"),
        ("worktree", "two: conflict, refs/mcc/o/r2"),
        ("take back", "mcc orders revert o"),
    ]


def test_names_of_files_and_subjects_of_commits_make_no_line_of_their_own() -> None:
    changes = Changes(
        workspace="/w",
        commits=(CommitMade(id="e4cdb8c607242df18c1c", subject="Mend it\ntake back: rm -rf"),),
        files=(ChangedFile(path="src/nl\nchanged  9 files\x1b[31m\u202e", change="added", added=1, removed=0),),
        worktrees=(WorktreeChange(record_id=RECORD, agent="one", ref="refs/mcc/o/r1", state=WorktreeState.LOST),),
    )
    assert change_rows(changes, "o") == [
        ("changed", "+1 −0 lines: src/nl changed 9 files\x1b[31m\u202e"),
        ("commit", "e4cdb8c60724 Mend it take back: rm -rf"),
        ("worktree", "one: lost, refs/mcc/o/r1"),
    ]


def test_an_order_that_changed_nothing_tells_nothing() -> None:
    assert change_rows(None, "o") == []


def test_the_last_retry_of_any_agent_is_told_with_its_reason_and_its_wait() -> None:
    def retried(origin: Origin, error: str) -> tuple[Origin, Fact]:
        return origin, ModelRetried(round=1, attempt=1, model="a/b", error=error, wait_seconds=8)

    begun = [(MASTER, started()), (CHILD, started("Look"))]
    record = Fold.of(ORDER_ID, journal(*begun, retried(CHILD, "503"), retried(MASTER, "429"))).record()
    assert (
        record is not None
        and last_retry(record) == f"{clock(BEGAN + timedelta(seconds=3))} master: 429; asked again after 8 s"
    )
    untroubled = Fold.of(ORDER_ID, journal(*begun)).record()
    assert untroubled is not None and last_retry(untroubled) is None

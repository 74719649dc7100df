"""The log of an order: each step of each agent, what it was called with and what came of it."""

from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentFinished, AgentStep, ControlApplied, GateChecked, ToolFinished, VerifyChecked
from mcc.contracts.model_facts import ModelRetried, ModelStarted
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.view.steps import log_lines, steps_of
from tests.mcc.view.order_journal import CHILD, CLAIMED, MASTER, ORDER_ID, QUEUED, call, journal, reply, result, started

BAD = "no\x1b[2J such file\n   99  12:00:00  master  delete_file"


def tree() -> ChatRecord:
    asked = ModelStarted(round=1, attempt=1, model="a/b")
    retried = ModelRetried(round=1, attempt=1, model="a/b", error="429", wait_seconds=2)
    entries = journal(
        QUEUED,
        CLAIMED,
        (MASTER, started()),
        (MASTER, asked),
        (MASTER, retried),
        (MASTER, asked),
        (MASTER, reply(5)),
        (MASTER, call("k", "subagent", prompt="Look")),
        (CHILD, started("Look", "k")),
        (CHILD, call("1", "write_file", path="a\u202e", content="one\ntwo", more={"n": 1})),
        (CHILD, result("1", "write_file", "written")),
        (CHILD, call("2", "read_file", path="b")),
        (CHILD, result("2", "read_file", BAD, is_error=True)),
        (CHILD, AgentFinished(status=RecordStatus.FAILED, error="gave up")),
        (MASTER, ToolFinished(call_id="k", name="subagent", content="{}", is_error=False)),
        (MASTER, call("3", "run_shell", command="false")),
        (MASTER, ToolFinished(call_id="3", name="run_shell", content="", is_error=False, exit_code=1)),
        (MASTER, ControlApplied(control_id="c", control="steer", message="Be quick.")),
        (MASTER, AgentStep(name="cut_short", message="The reply ended early.")),
        (MASTER, GateChecked(attempt=1, ok=False, errors=("Name it.",))),
        (MASTER, VerifyChecked(verifier="judge", revision=0, passed=True)),
        (MASTER, AgentFinished(status=RecordStatus.COMPLETED, answer="done")),
    )
    record = Fold.of(ORDER_ID, entries).record()
    assert record is not None
    return record


def log(agent: str | None = None, *, failed: bool = False) -> list[str]:
    return [line for _, line in log_lines(tree(), agent, failed=failed)]


def test_every_step_of_every_agent_is_told_in_the_order_in_which_they_ended() -> None:
    heads = [line.split()[0] for line in log() if line[:5].strip().isdecimal()]
    assert heads == [str(taken.step.seq) for taken in steps_of(tree())]
    assert len(heads) == len(tree().steps) + len(tree().subagent_history[0].steps) == 10
    assert heads == sorted(heads, key=int)


def test_a_call_stands_with_its_arguments_and_its_result_and_no_line_of_them_looks_like_a_step() -> None:
    lines = "\n".join(log())
    assert "explore  write_file" in lines and "explore  read_file failed" in lines
    assert '       path: a⟦U+202E⟧\n       content:\n           one\n           two\n       more: {"n": 1}\n' in lines
    assert "       │ no⟦U+001B⟧[2J such file\n       │    99  12:00:00  master  delete_file" in lines
    assert not [line for line in log() if line.startswith("   99")]


def test_failed_is_what_failed_was_sent_back_or_tried_again_and_who_ended_so() -> None:
    lines = log(failed=True)
    told = ["asked again", "read_file failed", "run_shell exit 1", "was sent back", "explore failed: gave up"]
    assert [part for part in told if any(part in line for line in lines)] == told
    assert not [line for line in lines if "write_file  " in line or "is told" in line or "verified by" in line]
    assert not [line for line in lines if line.startswith("master completed")]


def test_one_agent_is_named_by_its_record_or_by_the_name_it_is_shown_by() -> None:
    assert {taken.name for taken in steps_of(tree(), "explore")} == {"explore"}
    assert log("explore") == log(tree().subagent_history[0].id)
    assert log("explore")[-1].startswith("explore failed: gave up") and "master" not in log("explore")[0]


def test_a_reply_is_told_with_its_text_and_the_tools_it_calls() -> None:
    head = next(line for line in log() if "replies" in line)
    assert "master  replies" in head and "offline/offline" in head

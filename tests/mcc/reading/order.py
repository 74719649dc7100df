"""An order with everything that a reader may meet, written by hand."""

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import call_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked, ShownPreview
from mcc.contracts.journal import AgentStep, ControlApplied, GateChecked, Outcome, ToolFinished
from mcc.contracts.model_facts import ModelRetried, ModelStarted
from tests.conformance.store.scene import Held, called, ended, replied, returned, started

HOSTILE = "<script>alert(1)</script> \u202e\x1b[31m"


def asked(number: int, attempt: int = 1) -> ModelStarted:
    return ModelStarted(round=number, attempt=attempt, model="openai/fast")


def write_everything(held: Held) -> str:
    """Write a turn with a subagent, an approval, a question, a retry, a failed call and a gate; the child's id."""
    master = held.origin.record_id or ""
    child = Origin(record_id=f"{master}-child", parent_id=master, agent="explore", depth=1)
    delegating = call_id(master, 1, 0)

    def write(*facts: Fact, origin: Origin | None = None) -> None:
        for fact in facts:
            held.write(fact, origin=origin) if origin else held.write(fact)

    write(started("Do **it**"), asked(1))
    write(ModelRetried(round=1, attempt=1, model="openai/fast", error="busy", wait_seconds=2), asked(1, 2), replied())
    write(called(master))
    write(started("look", call=delegating), asked(1), replied("found"), ended("found"), origin=child)
    write(returned(master, content="the report"))
    write(asked(2), replied(HOSTILE, round_number=2))
    for index in range(3):
        write(called(master, 2, index))
    for index in range(3):
        write(returned(master, 2, index))
    refused = call_id(master, 3, 0)
    write(asked(3), replied(round_number=3))
    preview = ShownPreview(kind="text", text="rm -rf /")
    write(ApprovalRequested(approval_id="a1", call_id=refused, tool="run_shell", digest="d", preview=preview))
    write(ApprovalDecided(approval_id="a1", call_id=refused, decision="deny", by="operator"))
    write(
        ToolFinished(call_id=refused, name="run_shell", content="no", is_error=True, outcome=Outcome.DENIED),
        QuestionAsked(question_id="q1", call_id="c9", question="Which?", choices=("a", "b")),
        QuestionAnswered(question_id="q1", call_id="c9", answer="a", by="operator"),
        ControlApplied(control_id="k", control="steer", message="Hurry"),
        TranscriptCompacted(message="shortened"),
        AgentStep(name="nudge", message="Go on."),
        AgentStep(name="provisioned", message="tools"),
        GateChecked(attempt=1, ok=False, errors=("size(result) > 0: is empty", "more")),
        GateChecked(attempt=2, ok=True),
    )
    write(ended())
    return child.record_id or ""

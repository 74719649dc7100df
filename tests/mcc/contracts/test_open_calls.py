"""The calls that a journal leaves open, from whichever entry it is read."""

from datetime import UTC, datetime

from mcc.contracts.blocks import ToolCall, blocks_of
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import call_id, child_record_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.open_calls import OpenCallTracker
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.usage import Usage

ORDER_ID = "01900000-0000-7000-8000-000000000001"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = root_record_id(ORDER_ID)
MASTER = Origin(record_id=ROOT, agent="master")
CHILD = Origin(record_id=child_record_id(call_id(ROOT, 1, 0), 0), parent_id=ROOT, agent="explore", depth=1)


def began() -> AgentStarted:
    choice = ModelChoice(requested="fast", effective="fast")
    return AgentStarted(title="t", prompt="p", model=choice, tools=(), definition_digest="", setup_digest="")


def asked() -> ModelStarted:
    return ModelStarted.model_validate({"round": 1, "try": 1, "model": "fast"})


def replied(*tools: str) -> ModelReplied:
    calls = tuple(
        ToolCall(call_id=call_id(ROOT, 1, index), provider_id="", name=name, arguments={})
        for index, name in enumerate(tools)
    )
    said = {"round": 1, "try": 1, "model": "fast", "blocks": blocks_of(tool_calls=calls), "finish_reason": "stop"}
    return ModelReplied.model_validate({**said, "usage": Usage()})


def called(name: str, index: int = 0) -> ToolStarted:
    fields = {"call_id": call_id(ROOT, 1, index), "round": 1, "index": index, "name": name, "arguments": {}}
    return ToolStarted.model_validate({**fields, "idempotent": True})


def returned(name: str, index: int = 0) -> ToolFinished:
    return ToolFinished(call_id=call_id(ROOT, 1, index), name=name, content="", is_error=False)


def after(*told: tuple[Origin, Fact]) -> list[tuple[str, bool]]:
    """The name of each open call, and whether the call has begun."""
    tracker = OpenCallTracker()
    for seq, (origin, fact) in enumerate(told, start=1):
        tracker.add(Draft(at=NOW, origin=origin, data=fact).numbered(ORDER_ID, seq))
    return [(call.name, call.begun) for call in tracker.calls]


def test_a_tool_is_wanted_then_begun_then_answered() -> None:
    wanted = ((MASTER, began()), (MASTER, asked()), (MASTER, replied("read_file", "run_shell")))
    assert after(*wanted) == [("read_file", False), ("run_shell", False)]
    begun = (*wanted, (MASTER, called("run_shell", 1)))
    assert after(*begun) == [("read_file", False), ("run_shell", True)]
    assert after(*begun, (MASTER, returned("read_file")), (MASTER, returned("run_shell", 1))) == []


def test_a_call_stands_before_those_of_the_agents_that_it_runs() -> None:
    told = ((MASTER, replied("subagents_run")), (MASTER, called("subagents_run")), (CHILD, asked()))
    assert after(*told) == [("subagents_run", True), ("fast", True)]


def test_what_an_earlier_reply_wanted_and_nobody_began_is_not_open_after_the_next() -> None:
    assert after((MASTER, replied("read_file")), (MASTER, asked()), (MASTER, replied("run_shell"))) == [
        ("run_shell", False)
    ]


def test_an_agent_that_ended_has_nothing_open_and_a_master_that_begins_anew_neither() -> None:
    end = AgentFinished(status=RecordStatus.CANCELLED)
    assert after((MASTER, called("run_shell")), (CHILD, asked()), (CHILD, end)) == [("run_shell", True)]
    assert after((MASTER, called("run_shell")), (CHILD, asked()), (MASTER, began())) == []


def test_a_model_that_is_asked_again_is_one_call() -> None:
    assert after((MASTER, asked()), (MASTER, asked())) == [("fast", True)]

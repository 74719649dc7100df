"""The journal of an order, its entries one second apart, for tests of terminal output."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.console import Console

from mcc.contracts.entry import ORDER, Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentFinished, AgentStarted, ControlApplied, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderQueued, OrderWaiting
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.contracts.usage import Usage
from mcc.view.story import Story
from mcc.view.tree import OrderPicture

BEGAN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ORDER_ID = "01890000-0000-7000-8000-000000000001"
MASTER = Origin(record_id="m", agent="master")
CHILD = Origin(record_id="c", parent_id="m", agent="explore", depth=1)


def journal(*told: tuple[Origin, Fact]) -> list[Entry]:
    """The entries of these facts, one second apart."""
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
    return ModelReplied(round=1, attempt=1, model="offline/offline", finish_reason="stop", usage=usage)


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
        console.print(OrderPicture(Story.of(entries), entries[-1].at))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def asked(control: str, **fields: object) -> ControlApplied:
    return ControlApplied.model_validate({"control_id": "x", "control": control, **fields})


PAUSED = OrderWaiting(reason=WaitingReason.PAUSED, message="the order is paused until someone resumes it")
LIMITED = OrderWaiting(reason=WaitingReason.RATE_LIMIT, message="it is busy", until=BEGAN + timedelta(hours=1))

"""`drone run`: one order in this process, shown on the terminal, without broker or database."""

import asyncio
import signal
from pathlib import Path

from pydantic import ValidationError

from drone.agent.memory import MemoryJournal
from drone.crew import Crew
from drone.settings import Settings
from drone.terminal import watcher
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import OrderClaimed, OrderFinished, OrderQueued
from mcc.contracts.mistakes import mistakes
from mcc.contracts.order import NewOrder, Outcome, WorkOrder
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.definitions.agents import limits_of


def order_from(prompt: str, workspace: Path, agent: str, model: str | None, limits: list[str]) -> WorkOrder:
    """An order as if it had been claimed. Raises ValueError with a sentence; `limits` are `key=value`."""
    try:
        new = NewOrder(prompt=prompt, workspace=str(workspace), agent=agent, model=model, limits=limits_of(limits))
    except ValidationError as error:
        raise ValueError(mistakes(error.errors())[0].sentence) from error
    return WorkOrder.model_validate(
        {
            **new.model_dump(exclude={"session_id"}),
            "id": fresh_id(),
            "session_id": fresh_id(),
            "session_seq": 1,
            "status": OrderStatus.RUNNING,
            "created_at": now(),
        }
    )


async def run_here(settings: Settings, order: WorkOrder, *, as_json: bool) -> bool:
    """Run the order and show it; whether it succeeded. Ctrl-C cancels it."""
    crew = Crew.from_settings(settings)
    with watcher(as_json=as_json) as watch:
        journal = MemoryJournal(order.id, watch=watch.entry, hear=watch.delta)
        journal.tell(OrderQueued.of(order, order.session_id, order.session_seq))
        journal.tell(OrderClaimed(attempt=1, epoch=1, drone="drone run", incarnation=fresh_id()))
        task = asyncio.ensure_future(crew.run(order, journal=journal))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        try:
            outcome = await task
        except asyncio.CancelledError:
            await journal.close(RecordStatus.CANCELLED, "stopped from the keyboard")
            outcome = Outcome(status=OrderStatus.CANCELLED, detail="stopped from the keyboard")
        finally:
            await crew.close()
        journal.tell(_finished(outcome, journal))
        watch.ended(outcome, journal)
    return outcome.status is OrderStatus.SUCCEEDED


def _finished(outcome: Outcome, journal: MemoryJournal) -> OrderFinished:
    return OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail, usage=journal.fold.usage)

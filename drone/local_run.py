"""`drone run` and `drone models`: a single turn and the models, in this process, without broker and database."""

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event

from pydantic import ValidationError

from drone.agent.control.approver import Asking
from drone.agent.ports.journal import MemoryJournal, TextDelta
from drone.crew import Crew
from drone.local_writing import LocalWriteAccess
from drone.models.registry import Models
from drone.order_context import OrderContext
from drone.settings import Settings
from drone.threads import in_thread
from mcc.contracts.answers import ModelCheck
from mcc.contracts.approvals import AnyItem, NewDecision
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.invisible import escape_on_one_line
from mcc.contracts.order import NewOrder, OrderOutcome, WorkOrder
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderQueued
from mcc.contracts.permission import SavedRule
from mcc.contracts.questions import NewAnswer
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.definitions.agents import limits_of
from mcc.rules.mistakes import mistakes
from mcc.view.offers import print_checks, print_offers
from mcc.view.output import print_json, say
from mcc.view.prompting import ReadLine, ask, possible, read_line
from mcc.view.screens import Screen, Shown, conclude, screen

DRONE = "drone run"
"""The drone that has the order, as its journal names it."""


class ShownJournal(MemoryJournal):
    """A journal in memory of which a screen shows every entry, and streamed text where it can."""

    def __init__(self, order_id: str, screen: Screen) -> None:
        super().__init__(order_id, watch=screen.show)
        self._screen = screen

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        if self._screen.needs_all and origin.record_id is not None:
            self._screen.show(delta.for_viewers(self.order_id, 1, origin))


class AtTerminal:
    """Asks the person at this terminal, one item at a time; `aside` stops drawing meanwhile."""

    def __init__(
        self,
        aside: Callable[[], AbstractContextManager[None]],
        read: ReadLine = read_line,
        kept: Callable[[str], str | None] = lambda digest: None,
    ) -> None:
        """`kept`: the stored text with this digest, None where there is none."""
        self._aside = aside
        self._read = read
        self._kept = kept
        self._lock = asyncio.Lock()
        self._saved: list[SavedRule] = []

    async def __call__(self, item: AnyItem) -> NewDecision | NewAnswer:
        """The person's answer. Raises TimeoutError at the end of the terminal's input."""
        async with self._lock:
            if item.kind == "approval" and item.would_save in self._saved:
                return NewDecision(decision="approve", note="The approval of a call like it was remembered.")
            over = Event()
            try:
                with self._aside():
                    answer = await in_thread(ask, item, over.is_set, self._read, lambda: self._whole(item))
            finally:
                over.set()
            if answer is None:
                raise TimeoutError
            if isinstance(answer, NewDecision) and answer.remember and item.kind == "approval" and item.would_save:
                self._saved.append(item.would_save)
            return answer

    def _whole(self, item: AnyItem) -> str | None:
        preview = item.preview if item.kind == "approval" else None
        return self._kept(preview.artifact) if preview is not None and preview.artifact is not None else None


def order_from(
    prompt: str,
    workspace: Path,
    agent: str = "master",
    model: str | None = None,
    limits: Iterable[str] = (),
    fields: Mapping[str, object] | None = None,
) -> WorkOrder:
    """A running order that no database has. Raises ValueError with a sentence.

    `limits`: `key=value` texts. `fields`: further fields of the order; those that are None are left out.
    """
    order = {"prompt": prompt, "workspace": str(workspace), "agent": agent, "model": model, "limits": limits_of(limits)}
    more = {name: value for name, value in (fields or {}).items() if value is not None}
    try:
        new = NewOrder.model_validate({**order, **more})
    except ValidationError as error:
        raise ValueError(mistakes(error.errors(), NewOrder)[0].sentence) from error
    return WorkOrder.model_validate(
        {
            **new.model_dump(exclude={"session_id"}),
            "id": fresh_id(),
            "session_id": fresh_id(),
            "session_seq": 1,
            "status": OrderStatus.RUNNING,
            "attempt": 1,
            "drone": DRONE,
            "created_at": (at := now()),
            "started_at": at,
        }
    )


async def run_here(settings: Settings, order: WorkOrder, shown: Shown) -> bool:
    """Run the order and show it. Answers whether it succeeded; Ctrl-C cancels it.

    Approvals and questions are asked at this terminal, if there is one and progress is shown there; else they are
    denied. `on_ask` of the order, else of the operator's settings, overrides that.
    """
    crew = Crew.from_settings(settings)
    attended = shown is Shown.ALL and possible()
    on_ask = order.on_ask or settings.approvals.on_ask or ("wait" if attended else "deny")
    order = order.model_copy(update={"on_ask": on_ask})
    with screen(shown) as onto:
        journal = ShownJournal(order.id, onto)
        asking = AtTerminal(onto.aside, kept=journal.texts.get)
        people = Asking(asking, expire_seconds=crew.expire_seconds) if attended else None
        journal.tell(OrderQueued.of(order, order.session_id, order.session_seq))
        journal.tell(OrderClaimed(attempt=order.attempt, epoch=1, drone=DRONE, incarnation=fresh_id()))
        access = _access(settings, order, onto)
        task = asyncio.ensure_future(crew.run(order, OrderContext(journal, people=people, access=access)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        try:
            outcome = await task
        except asyncio.CancelledError:
            await journal.close(RecordStatus.CANCELLED, "stopped from the keyboard")
            outcome = OrderOutcome(status=OrderStatus.CANCELLED, detail="stopped from the keyboard")
        finally:
            await crew.close()
            access.release()
        outcome = outcome.model_copy(update={"usage": journal.fold.usage})
        journal.tell(
            OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail, usage=outcome.usage)
        )
    return conclude(_ended(order, outcome, journal.fold.last_seq), shown, DRONE)


def _access(settings: Settings, order: WorkOrder, screen: Screen) -> LocalWriteAccess:
    """Its way to write in the workspace, which says on stderr for whom it waits."""

    def tell(sentence: str) -> None:
        with screen.aside():
            say(f"{DRONE}: {escape_on_one_line(sentence)}.")

    return LocalWriteAccess(order.id, Path(str(order.workspace)), settings.data_dir, tell)


def _ended(order: WorkOrder, outcome: OrderOutcome, last_seq: int) -> WorkOrder:
    """The order as a service would answer it now."""
    how = {name: getattr(outcome, name) for name in OrderOutcome.model_fields}
    return order.model_copy(update={**how, "finished_at": now(), "last_seq": last_seq})


def list_here(settings: Settings, as_json: bool) -> bool:
    """Print the configured models, and why one cannot be used. Answers True."""
    found = Models(settings).capabilities()
    if as_json:
        print_json({"items": found})
    else:
        print_offers(("NAME", "STATE", "DESCRIPTION"), [(one, (one.description,)) for one in found], empty="")
    return True


async def check_here(settings: Settings, names: Iterable[str], *, as_json: bool) -> bool:
    """Check these models, or all where none is named, and print the results. Answers whether all of them work."""
    checks: list[ModelCheck] = []

    async def tell(row: ModelCheck) -> None:
        checks.append(row)

    crew = Crew.from_settings(settings)
    try:
        await crew.check_models(names, tell)
    finally:
        await crew.close()
    rows = sorted(checks, key=lambda check: check.name)
    print_json({"items": rows}) if as_json else print_checks(rows)
    return all(check.problem is None for check in rows)

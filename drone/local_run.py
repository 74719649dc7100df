"""`drone run` and `drone models`: what is done in this process, without broker and database."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import Protocol

from pydantic import ValidationError

from drone.agent.approver import Asking
from drone.agent.journal import DeltaKind, MemoryJournal
from drone.agent.threads import in_thread
from drone.crew import Crew
from drone.models.registry import Models
from drone.order_context import OrderContext
from drone.settings import Settings
from mcc.contracts.answers import ModelCheck
from mcc.contracts.approvals import AnyItem, NewAnswer, NewDecision
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, Outcome, WorkOrder
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderQueued
from mcc.contracts.permission import SavedRule
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now, to_json
from mcc.contracts.status import OrderStatus
from mcc.definitions.agents import limits_of
from mcc.rules.mistakes import mistakes
from mcc.view.offers import print_checks, print_offers
from mcc.view.output import clean, clean_json, print_json
from mcc.view.prompting import ReadLine, ask, possible, read_line


class Watcher(Protocol):
    """What is called with each entry and each piece of text as they come, and with the outcome at the end."""

    def entry(self, entry: Entry) -> None: ...

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None: ...

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None: ...

    def aside(self) -> AbstractContextManager[None]:
        """Inside, nothing else is drawn on the terminal."""


@contextmanager
def watcher(*, as_json: bool) -> Iterator[Watcher]:
    """JSON lines on stdout if asked for, else on stderr a live tree where that is a terminal, else plain lines."""
    if as_json:
        yield JsonLines()
    elif _is_drawn():
        with LiveTree() as live:
            yield live
    else:
        yield PlainLines()


def _is_drawn() -> bool:
    if not sys.stderr.isatty():
        return False
    from mcc.view.live import is_drawn

    return is_drawn()


class Lasting:
    """What it shows stays where it is."""

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


class JsonLines(Lasting):
    def entry(self, entry: Entry) -> None:
        sys.stdout.buffer.write(clean_json(to_json(entry)) + b"\n")
        sys.stdout.buffer.flush()

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        """Nothing: text on its way is not part of the journal."""

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None:
        """Nothing: the journal's last line tells the outcome."""


class PlainLines(Lasting):
    def __init__(self) -> None:
        from mcc.view.lines import Lines

        self._lines = Lines()

    def entry(self, entry: Entry) -> None:
        if line := self._lines.line_of(entry):
            print(line, file=sys.stderr, flush=True)

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        """Nothing: a line shows a whole entry."""

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None:
        from mcc.view import figures

        if outcome.answer:
            print(clean(outcome.answer), flush=True)
        why = f": {clean(outcome.detail)}" if outcome.detail else ""
        print(f"{outcome.status}{why} · {figures.spent(journal.fold.usage)}", file=sys.stderr, flush=True)


class LiveTree(PlainLines):
    """Redraws itself several times a second while the turn runs; the whole tree stays on the screen after it."""

    def __init__(self) -> None:
        from mcc.view.story import Story

        super().__init__()
        self._story = Story()
        self._drawn = ExitStack()

    def __enter__(self) -> "LiveTree":
        from mcc.view.live import live_tree

        self._beside = self._drawn.enter_context(live_tree(self._story))
        return self

    def __exit__(self, *_: object) -> None:
        self._drawn.close()

    def aside(self) -> AbstractContextManager[None]:
        return self._beside()

    def entry(self, entry: Entry) -> None:
        self._story.add(entry)

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        self._story.add_delta(origin.record_id, kind, text)

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None:
        self._drawn.close()
        super().ended(outcome, journal)


class AtTerminal:
    """The person at this terminal, who is asked one thing after the other; `aside` keeps the rest from being drawn."""

    def __init__(self, aside: Callable[[], AbstractContextManager[None]], read: ReadLine = read_line) -> None:
        self._aside = aside
        self._read = read
        self._one = asyncio.Lock()
        self._stand: list[SavedRule] = []

    async def __call__(self, item: AnyItem) -> NewDecision | NewAnswer:
        """Raises TimeoutError where the terminal answers nothing any more."""
        async with self._one:
            if item.kind == "approval" and item.would_save in self._stand:
                return NewDecision(decision="approve", note="The approval of a call like it was remembered.")
            over = Event()
            try:
                with self._aside():
                    said = await in_thread(ask, item, over.is_set, self._read)
            finally:
                over.set()
            if said is None:
                raise TimeoutError
            if isinstance(said, NewDecision) and said.remember and item.kind == "approval" and item.would_save:
                self._stand.append(item.would_save)
            return said


def order_from(
    prompt: str,
    workspace: Path,
    agent: str = "master",
    model: str | None = None,
    limits: Iterable[str] = (),
    said: Mapping[str, object] | None = None,
) -> WorkOrder:
    """An order as if it had been claimed. Raises ValueError with a sentence; `limits` are `key=value`.

    `said`: what else is said of it, by the names of the order's fields; None is left out.
    """
    order = {"prompt": prompt, "workspace": str(workspace), "agent": agent, "model": model, "limits": limits_of(limits)}
    more = {name: value for name, value in (said or {}).items() if value is not None}
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
            "created_at": now(),
        }
    )


async def run_here(settings: Settings, order: WorkOrder, *, as_json: bool) -> bool:
    """Run the order and show it; whether it succeeded. Ctrl-C cancels it.

    What a person is to be asked is asked on this terminal, where there is one to read and type at, and the order, else
    the operator, does not say otherwise.
    """
    crew = Crew.from_settings(settings)
    attended = possible() and not as_json
    on_ask = order.on_ask or settings.approvals.on_ask or ("wait" if attended else "deny")
    order = order.model_copy(update={"on_ask": on_ask})
    with watcher(as_json=as_json) as watch:
        people = Asking(AtTerminal(watch.aside), expire_seconds=crew.expire_seconds) if attended else None
        journal = MemoryJournal(order.id, watch=watch.entry, hear=watch.delta)
        journal.tell(OrderQueued.of(order, order.session_id, order.session_seq))
        journal.tell(OrderClaimed(attempt=1, epoch=1, drone="drone run", incarnation=fresh_id()))
        task = asyncio.ensure_future(crew.run(order, OrderContext(journal, people=people)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        try:
            outcome = await task
        except asyncio.CancelledError:
            await journal.close(RecordStatus.CANCELLED, "stopped from the keyboard")
            outcome = Outcome(status=OrderStatus.CANCELLED, detail="stopped from the keyboard")
        finally:
            await crew.close()
        journal.tell(
            OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail, usage=journal.fold.usage)
        )
        watch.ended(outcome, journal)
    return outcome.status is OrderStatus.SUCCEEDED


def list_here(settings: Settings, as_json: bool) -> bool:
    """Print them, and why one cannot be asked; True."""
    found = Models(settings).capabilities()
    if as_json:
        print_json({"items": found})
    else:
        print_offers(("NAME", "STATE", "DESCRIPTION"), [(one, (one.description,)) for one in found], empty="")
    return True


async def check_here(settings: Settings, names: Iterable[str], *, as_json: bool) -> bool:
    """Try these, all of them where none is named, and print what was found; whether all of them answered."""
    found: list[ModelCheck] = []

    async def tell(row: ModelCheck) -> None:
        found.append(row)

    crew = Crew.from_settings(settings)
    try:
        await crew.check_models(names, tell)
    finally:
        await crew.close()
    rows = sorted(found, key=lambda one: one.name)
    print_json({"items": rows}) if as_json else print_checks(rows)
    return all(one.problem is None for one in rows)

"""`drone run` and `drone models`: a single turn and the models, in this process, without broker and database."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import Protocol

from pydantic import ValidationError

from drone.agent.control.approver import Asking
from drone.agent.ports.journal import DeltaKind, MemoryJournal
from drone.crew import Crew
from drone.models.registry import Models
from drone.order_context import OrderContext
from drone.settings import Settings
from drone.threads import in_thread
from mcc.contracts.answers import ModelCheck
from mcc.contracts.approvals import AnyItem, NewAnswer, NewDecision
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, OrderOutcome, WorkOrder
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderQueued
from mcc.contracts.permission import SavedRule
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now, to_json
from mcc.contracts.status import OrderStatus
from mcc.definitions.agents import limits_of
from mcc.rules.mistakes import mistakes
from mcc.view.offers import print_checks, print_offers
from mcc.view.output import can_draw, clean, clean_json, print_json
from mcc.view.prompting import ReadLine, ask, possible, read_line


class Watcher(Protocol):
    """Shows a turn: gets each entry and each piece of streamed text as it comes, and the outcome at the end."""

    def entry(self, entry: Entry) -> None: ...

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None: ...

    def ended(self, outcome: OrderOutcome, journal: MemoryJournal) -> None: ...

    def aside(self) -> AbstractContextManager[None]:
        """Within this context, nothing is drawn on the terminal."""


@contextmanager
def watcher(*, as_json: bool) -> Iterator[Watcher]:
    """JSON lines on stdout if asked for, else on stderr a live tree where that is a terminal, else plain lines."""
    if as_json:
        yield JsonLines()
    elif can_draw():
        with LiveTree() as live:
            yield live
    else:
        yield PlainLines()


class Undrawn:
    """A watcher without a picture, which other output needs not avoid."""

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


class JsonLines(Undrawn):
    def entry(self, entry: Entry) -> None:
        sys.stdout.buffer.write(clean_json(to_json(entry)) + b"\n")
        sys.stdout.buffer.flush()

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        """Nothing: streamed text is not part of the journal."""

    def ended(self, outcome: OrderOutcome, journal: MemoryJournal) -> None:
        """Nothing: the journal's last entry has the outcome."""


class PlainLines(Undrawn):
    def __init__(self) -> None:
        from mcc.view.lines import Lines

        self._lines = Lines()

    def entry(self, entry: Entry) -> None:
        if line := self._lines.line_of(entry):
            print(line, file=sys.stderr, flush=True)

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        """Nothing: a line shows a whole entry."""

    def ended(self, outcome: OrderOutcome, journal: MemoryJournal) -> None:
        from mcc.view import figures

        if outcome.answer:
            print(clean(outcome.answer), flush=True)
        why = f": {clean(outcome.detail)}" if outcome.detail else ""
        print(f"{outcome.status}{why} · {figures.spent(journal.fold.usage)}", file=sys.stderr, flush=True)


class LiveTree(PlainLines):
    """A tree that is redrawn several times a second while the turn runs; its last picture stays."""

    def __init__(self) -> None:
        from mcc.view.story import Story

        super().__init__()
        self._story = Story()
        self._drawn = ExitStack()

    def __enter__(self) -> "LiveTree":
        from mcc.view.live import live_tree

        self._target_for = self._drawn.enter_context(live_tree(self._story))
        return self

    def __exit__(self, *_: object) -> None:
        self._drawn.close()

    def aside(self) -> AbstractContextManager[None]:
        return self._target_for()

    def entry(self, entry: Entry) -> None:
        self._story.add(entry)

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        self._story.add_delta(origin.record_id, kind, text)

    def ended(self, outcome: OrderOutcome, journal: MemoryJournal) -> None:
        self._drawn.close()
        super().ended(outcome, journal)


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
                    answer = await in_thread(ask, item, over.is_set, self._read, None, lambda: self._whole(item))
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
            "created_at": now(),
        }
    )


async def run_here(settings: Settings, order: WorkOrder, *, as_json: bool) -> bool:
    """Run the order and show it. Answers whether it succeeded; Ctrl-C cancels it.

    Approvals and questions are asked at this terminal, if there is one; without one they are denied. `on_ask` of the
    order, else of the operator's settings, overrides that.
    """
    crew = Crew.from_settings(settings)
    attended = possible() and not as_json
    on_ask = order.on_ask or settings.approvals.on_ask or ("wait" if attended else "deny")
    order = order.model_copy(update={"on_ask": on_ask})
    with watcher(as_json=as_json) as watch:
        journal = MemoryJournal(order.id, watch=watch.entry, hear=watch.delta)
        asking = AtTerminal(watch.aside, kept=journal.texts.get)
        people = Asking(asking, expire_seconds=crew.expire_seconds) if attended else None
        journal.tell(OrderQueued.of(order, order.session_id, order.session_seq))
        journal.tell(OrderClaimed(attempt=1, epoch=1, drone="drone run", incarnation=fresh_id()))
        task = asyncio.ensure_future(crew.run(order, OrderContext(journal, people=people)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        try:
            outcome = await task
        except asyncio.CancelledError:
            await journal.close(RecordStatus.CANCELLED, "stopped from the keyboard")
            outcome = OrderOutcome(status=OrderStatus.CANCELLED, detail="stopped from the keyboard")
        finally:
            await crew.close()
        journal.tell(
            OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail, usage=journal.fold.usage)
        )
        watch.ended(outcome, journal)
    return outcome.status is OrderStatus.SUCCEEDED


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

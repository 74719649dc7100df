"""`mcc run --file`: places many orders in groups, and waits for all of them to end."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from mcc.cli.command import DONE, FAILED, INTERRUPTED, USAGE, fail, plain_errors
from mcc.cli.order_file import OrderFile, OrderLine, open_orders
from mcc.cli.order_request import OrderRequest, allow_workspace
from mcc.cli.placing import PlacingOptions, service_for, sigterm_as_ctrl_c
from mcc.cli.server import exit_on_client_errors
from mcc.view.output import one_line, print_json, say, short_id
from mcc.view.screens import Shown, how_it_ended

if TYPE_CHECKING:
    from pathlib import Path

    from mcc.client import MCC
    from mcc.client.errors import Invalid
    from mcc.client.watching import Patience
    from mcc.contracts.answers import PlacedOrder
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.waits import WaitsFor, WaitsKind

GROUP_ORDERS = 500
GROUP_BYTES = 1_000_000
"""Most orders and bytes of one request, so that its transaction holds the database's write lock only for a moment."""

FULL_SECONDS = 5.0
REPORT_SECONDS = 10.0
LOOK_SECONDS = (0.3, 2.0)
"""Shortest and longest pause between two looks for orders that have ended; it grows while none has."""

PAGE = 200


def groups(lines: Iterable[OrderLine]) -> Iterator[list[OrderLine]]:
    """The lines of one request each, within GROUP_ORDERS and GROUP_BYTES; lines with a problem are kept in place."""
    group: list[OrderLine] = []
    size = 0
    for line in lines:
        length = len(str(line.fields))
        if group and (len(group) == GROUP_ORDERS or size + length > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(line)
        size += length
    if group:
        yield group


@dataclass(slots=True)
class Tally:
    """Counts the outcomes of the lines, and prints each as it comes."""

    shown: Shown
    detach: bool
    accepted: int = 0
    known: int = 0
    refused: int = 0
    ended: int = 0
    failed: int = 0
    lines: dict[str, list[int]] = field(default_factory=dict)
    """Line numbers of the orders that have not ended, by order id."""

    def accept(self, line: OrderLine, placed: "PlacedOrder") -> None:
        self.accepted += 1
        self.known += not placed.created
        if not self.detach:
            self.lines.setdefault(placed.id, []).append(line.number)
        if self.shown is Shown.JSON or (self.shown.as_json and self.detach):
            print_json({"line": line.number, "idempotency_key": line.key, **dict(placed)}, type="accepted")
        elif self.detach:
            print(placed.id, flush=True)

    def refuse(self, line: OrderLine, problem: str) -> None:
        self.refused += 1
        if self.shown.as_json:
            print_json({"line": line.number, "message": problem}, type="refused")
        say(f"mcc: line {line.number}: {problem}")

    def end(self, order: "WorkOrder") -> None:
        from mcc.contracts.status import OrderStatus

        self.ended += 1
        succeeded = order.status is OrderStatus.SUCCEEDED
        self.failed += not succeeded
        for number in self.lines.pop(order.id):
            if self.shown.as_json:
                print_json({"line": number, **dict(order)}, type="order")
                continue
            end = f"succeeded: {one_line(order.answer or '')}" if succeeded else one_line(how_it_ended(order), 120)
            print(f"line {number}  {short_id(order.id)}  {end}", flush=True)

    def say(self, sentence: str) -> None:
        if self.shown in (Shown.ALL, Shown.JSON):
            say(sentence)

    @property
    def code(self) -> int:
        if not self.accepted and self.refused:
            return USAGE
        return FAILED if self.refused or self.failed else DONE


T = TypeVar("T")


class Calls:
    """Calls of a service that may be away for a while, as it is when it restarts: they are made until it is back, for
    as long as `patience` lasts. `tell` is told of each absence once."""

    def __init__(self, patience: "Patience", tell: Callable[[str], None]) -> None:
        self._patience = patience
        self._tell = tell

    def make(self, call: Callable[[], T]) -> T:
        """What `call` answers, which must be harmless to repeat. Raises `ClientError`."""
        from mcc.client.calls import AWAY
        from mcc.client.errors import Refused, Unreachable

        while True:
            try:
                answer = call()
            except (Unreachable, Refused) as problem:
                if isinstance(problem, Refused) and problem.status not in AWAY:
                    self._patience.answered()
                    raise
                was_there = not self._patience.is_away
                wait = self._patience.next_wait(problem)
                if was_there:
                    self._tell("the service is away, trying again")
                time.sleep(wait)
                continue
            self._patience.answered()
            return answer


class Submission:
    """Places the lines of a file in groups; a line that is refused does not affect the others."""

    def __init__(self, client: "MCC", calls: Calls, tally: Tally, allow: Callable[[OrderLine, str], bool]) -> None:
        """`allow` gets a line whose workspace the service refused, and the refusal; it may make the service accept that
        directory, and answers whether it did."""
        self._client = client
        self._calls = calls
        self._tally = tally
        self._allow = allow

    def place(self, lines: Iterable[OrderLine]) -> None:
        """Raises `ClientError`. Lines accepted before that can be placed again: their keys keep them from counting
        twice."""
        reported_at = time.monotonic()
        for group in groups(lines):
            for line in group:
                if line.problem:
                    self._tally.refuse(line, line.problem)
            self._place([line for line in group if not line.problem])
            if time.monotonic() >= reported_at + 1.0:
                reported_at = time.monotonic()
                self._tally.say(f"{self._tally.accepted:,} orders accepted so far")

    def _place(self, lines: Sequence[OrderLine]) -> None:
        from mcc.client.errors import Invalid, Refused

        while lines:
            try:
                fields = [line.fields for line in lines]
                placed = self._calls.make(partial(self._client.orders.submit_many, fields))
            except Invalid as refusal:
                lines = self._without_refused(lines, refusal)
                continue
            except Refused as refusal:
                # A full queue passes by itself; halves fit sooner than the whole group does.
                if refusal.status != 429:
                    raise
                if len(lines) == 1 and "budget" in refusal.problem:
                    self._tally.refuse(lines[0], str(refusal))
                    return
                lines = self._in_halves(lines, refusal)
                continue
            for line, order in zip(lines, placed, strict=True):
                self._tally.accept(line, order)
            return

    def _in_halves(self, lines: Sequence[OrderLine], refusal: Exception) -> Sequence[OrderLine]:
        """Place the first half, and answer the rest; a single line is answered after a pause, to be tried again."""
        if len(lines) > 1:
            self._place(lines[: len(lines) // 2])
            return lines[len(lines) // 2 :]
        self._tally.say(f"waiting for room: {refusal}")
        time.sleep(FULL_SECONDS)
        return lines

    def _without_refused(self, lines: Sequence[OrderLine], refusal: "Invalid") -> Sequence[OrderLine]:
        """The lines to send again: those that the refusal does not name, or whose workspace is allowed now."""
        problems = {error["index"]: error for error in refusal.errors if isinstance(error.get("index"), int)}
        # A refusal that names no line is about one of them all the same: halving finds it.
        if not problems and len(lines) > 1:
            return self._in_halves(lines, refusal)
        if not problems:
            self._tally.refuse(lines[0], str(refusal))
            return ()
        left = []
        for index, line in enumerate(lines):
            problem = problems.get(index)
            name = "" if problem is None else str(problem.get("field", "")).rpartition(".")[2]
            if problem is None or (name == "workspace" and self._allow(line, str(problem["message"]))):
                left.append(line)
            else:
                self._tally.refuse(line, _message_of(problem))
        return left


def _message_of(problem: Mapping[str, Any]) -> str:
    """The problem of one order, its field named as in the file: without "orders.INDEX.", which is not its line."""
    place = str(problem.get("field", "")).split(".", 2)[2:]
    return f"{place[0]}: {problem['message']}" if place else str(problem["message"])


def follow_all(client: "MCC", calls: Calls, tally: Tally) -> None:
    """Report orders as they end, until all have. Raises `ClientError`."""
    from mcc.contracts.status import FINAL

    reported_at, pause = time.monotonic(), LOOK_SECONDS[0]
    total = len(tally.lines)
    while tally.lines:
        ended = 0
        waits: dict[str, WaitsFor] = {}
        ids = sorted(tally.lines)
        for start in range(0, len(ids), PAGE):
            for order in _orders_among(client, calls, ids[start : start + PAGE]):
                if order.status in FINAL:
                    tally.end(order)
                    ended += 1
                elif order.waits_for is not None:
                    waits[order.id] = order.waits_for
        pause = LOOK_SECONDS[0] if ended else min(pause * 1.5, LOOK_SECONDS[1])
        if tally.lines and time.monotonic() >= reported_at + REPORT_SECONDS:
            reported_at = time.monotonic()
            tally.say("\n  ".join((_so_far(tally, total), *waiting_lines(waits))))
        if tally.lines:
            time.sleep(pause)
    if total:
        tally.say(_so_far(tally, total))


def _so_far(tally: Tally, total: int) -> str:
    return f"{tally.ended:,} of {total:,} orders have ended, {tally.failed:,} without success"


WAITED_FOR: "Mapping[WaitsKind, str]" = {
    "workspace": "a workspace",
    "session": "an earlier turn",
    "slot": "a slot",
    "drone": "a drone",
    "not_before": "their time",
    "provider": "a provider",
    "delivery": "a forge",
    "person": "a person",
    "function": "a function",
    "disk": "disk space",
    "memory": "memory",
    "paused": "a resume",
}


def waiting_lines(waits: "Mapping[str, WaitsFor]") -> Iterator[str]:
    """What orders wait for (by their ids): a line for each kind, with the words of the oldest of its orders."""
    groups_of: dict[WaitsKind, list[str]] = {}
    for order_id in sorted(waits):
        groups_of.setdefault(waits[order_id].kind, []).append(order_id)
    for kind, ids in groups_of.items():
        who = f"{len(ids):,} wait for {WAITED_FOR[kind]}" if len(ids) > 1 else f"{short_id(ids[0])} waits"
        yield f"{who}: {one_line(waits[ids[0]].message, 160)}"


def _orders_among(client: "MCC", calls: Calls, ids: Sequence[str]) -> Iterator["WorkOrder"]:
    """The orders of `ids`, sorted from oldest to newest."""
    from uuid import UUID

    # Ids are in the order of time, and a page holds those below its cursor: this one begins at the newest of `ids`.
    wanted, cursor = set(ids), str(UUID(int=UUID(ids[-1]).int + 1))
    while wanted:
        page = calls.make(partial(client.orders.list, cursor=cursor, limit=PAGE))
        for order in page.items:
            if order.id in wanted:
                yield order
        if page.next_cursor is None or page.next_cursor <= ids[0]:
            return
        cursor = page.next_cursor


def place_file(path: "Path", request: OrderRequest, options: PlacingOptions, shown: Shown) -> NoReturn:
    """Place the orders of a file and follow them to their ends, or with --detach print their ids. Exits with the
    command's code."""
    from mcc.settings import load

    sigterm_as_ctrl_c()
    defaults = {name: value for name, value in request.order.items() if value is not None}
    tally = Tally(shown, options.detach)
    try:
        with open_orders(path) as stream, plain_errors():
            settings = load(data_dir=options.data_dir)
            new = request.checked()
            service = service_for(settings, options.url, request, new)
            with service as (server, _), exit_on_client_errors(settings.data_dir, server):
                from mcc.client import MCC
                from mcc.client.watching import Patience

                with MCC(server.url, token=server.token) as client:
                    added: set[str] = set()

                    def allow(line: OrderLine, refusal: str) -> bool:
                        where = str(line.fields.get("workspace"))
                        if where != defaults.get("workspace") or where in added:
                            return where in added
                        added.add(where)
                        request.tell(allow_workspace(new, settings, client.url, f"workspace: {refusal}"))
                        return True

                    # Each call is tried several times by the client itself.
                    calls = Calls(Patience(tries=1), tally.say)
                    Submission(client, calls, tally, allow).place(OrderFile(stream, defaults, request.key or ""))
                    _summary(tally)
                    follow_all(client, calls, tally)
    except KeyboardInterrupt:
        fail(f"Stopped; {tally.accepted:,} orders were accepted. {AGAIN}", INTERRUPTED)
    except typer.Exit as ended:
        if ended.exit_code and tally.accepted:
            say(f"{tally.accepted:,} orders were accepted. {AGAIN}")
        raise
    raise typer.Exit(tally.code)


AGAIN = "The same command goes on from there: what was accepted is not placed twice."


def _summary(tally: Tally) -> None:
    known = f", {tally.known:,} of them before (another --idempotency-key places them anew)" if tally.known else ""
    refused = f", {tally.refused:,} lines refused" if tally.refused else ""
    tally.say(f"{tally.accepted:,} orders accepted{known}{refused}")

"""`mcc run --file`: many orders placed in groups, and seen to their ends."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from mcc.cli.asking import OrderRequest, let_work
from mcc.cli.command import DONE, FAILED, INTERRUPTED, USAGE, fail, plain_errors
from mcc.cli.following import Shown, how_it_ended
from mcc.cli.order_file import Line, OrderFile, opened
from mcc.cli.placing import PlacingOptions, end_as_from_the_keyboard, serving
from mcc.cli.server import refusals
from mcc.view.output import one_line, print_json, say, short_id

if TYPE_CHECKING:
    from pathlib import Path

    from mcc.client import MCC
    from mcc.client.errors import Invalid
    from mcc.contracts.answers import PlacedOrder
    from mcc.contracts.order import WorkOrder

GROUP_ORDERS = 500
GROUP_BYTES = 1_000_000
"""Of one request: a database is not kept from others for longer than a moment."""

FULL_SECONDS = 5.0
TOLD_SECONDS = 10.0
LOOK_SECONDS = (0.3, 2.0)
"""How soon it is looked again who has ended: at first, and where nobody has for a while."""

PAGE = 200


def groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines that go out in one request; of those with a problem any number are among them."""
    group: list[Line] = []
    size = 0
    for line in lines:
        length = len(str(line.asked))
        if group and (len(group) == GROUP_ORDERS or size + length > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(line)
        size += length
    if group:
        yield group


@dataclass(slots=True)
class Tally:
    """What became of the lines, told as it comes."""

    shown: Shown
    detach: bool
    accepted: int = 0
    known: int = 0
    refused: int = 0
    ended: int = 0
    failed: int = 0
    lines: dict[str, list[int]] = field(default_factory=dict)
    """Of the orders that have not ended, by their ids."""

    def accept(self, line: Line, placed: "PlacedOrder") -> None:
        self.accepted += 1
        self.known += not placed.created
        if not self.detach:
            self.lines.setdefault(placed.id, []).append(line.number)
        if self.shown is Shown.JSON or (self.shown.as_json and self.detach):
            print_json({"line": line.number, "idempotency_key": line.key, **dict(placed)}, type="accepted")
        elif self.detach:
            print(placed.id, flush=True)

    def refuse(self, line: Line, problem: str) -> None:
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
            said = one_line(order.answer or "") if succeeded else one_line(how_it_ended(order), 120)
            print(f"line {number}  {short_id(order.id)}  {said if not succeeded else f'succeeded: {said}'}", flush=True)

    def say(self, sentence: str) -> None:
        if self.shown in (Shown.ALL, Shown.JSON):
            say(sentence)

    @property
    def code(self) -> int:
        if not self.accepted and self.refused:
            return USAGE
        return FAILED if self.refused or self.failed else DONE


class Submission:
    """Places the lines of a file, each by itself as far as its caller sees: what is wrong with one loses no other."""

    def __init__(self, client: "MCC", tally: Tally, let: Callable[[Line, str], bool]) -> None:
        """`let` may make it possible that an order works where a service has refused it, and answers whether it did."""
        self._client = client
        self._tally = tally
        self._let = let

    def place(self, lines: Iterable[Line]) -> None:
        """Raises `ClientError`; what was accepted before is not placed again under the same keys."""
        told = time.monotonic()
        for group in groups(lines):
            for line in group:
                if line.problem:
                    self._tally.refuse(line, line.problem)
            self._place([line for line in group if not line.problem])
            if time.monotonic() >= told + 1.0:
                told = time.monotonic()
                self._tally.say(f"{self._tally.accepted:,} orders accepted so far")

    def _place(self, lines: Sequence[Line]) -> None:
        from mcc.client.errors import Invalid, Refused

        while lines:
            try:
                placed = self._client.orders.submit_many([line.asked for line in lines])
            except Invalid as refusal:
                lines = self._without_refused(lines, refusal)
                continue
            except Refused as refusal:
                if refusal.status != 429:
                    raise
                lines = self._in_halves(lines, refusal)
                continue
            for line, one in zip(lines, placed, strict=True):
                self._tally.accept(line, one)
            return

    def _in_halves(self, lines: Sequence[Line], refusal: Exception) -> Sequence[Line]:
        """There is not room for all of them; for a single one it is waited."""
        if len(lines) > 1:
            self._place(lines[: len(lines) // 2])
            return lines[len(lines) // 2 :]
        self._tally.say(f"waiting for room: {refusal}")
        time.sleep(FULL_SECONDS)
        return lines

    def _without_refused(self, lines: Sequence[Line], refusal: "Invalid") -> Sequence[Line]:
        problems = {one["index"]: one for one in refusal.errors if isinstance(one.get("index"), int)}
        if not problems and len(lines) > 1:
            return self._in_halves(lines, refusal)
        if not problems:
            self._tally.refuse(lines[0], str(refusal))
            return ()
        left = []
        for index, line in enumerate(lines):
            problem = problems.get(index)
            if problem is None or (_is_about(problem, "workspace") and self._let(line, str(problem["message"]))):
                left.append(line)
            else:
                self._tally.refuse(line, _said(problem))
        return left


def _is_about(problem: Mapping[str, Any], name: str) -> bool:
    return str(problem.get("field", "")).rpartition(".")[2] == name


def _said(problem: Mapping[str, Any]) -> str:
    """Without the place of the order in its request, which is not its line."""
    place = str(problem.get("field", "")).split(".", 2)[2:]
    return f"{place[0]}: {problem['message']}" if place else str(problem["message"])


def follow_all(client: "MCC", tally: Tally) -> None:
    """Until all have ended. Raises `ClientError`."""
    told, pause = time.monotonic(), LOOK_SECONDS[0]
    total = len(tally.lines)
    while tally.lines:
        ended = 0
        for page in _pages(sorted(tally.lines)):
            for order in _ended_of(client, page):
                tally.end(order)
                ended += 1
        pause = LOOK_SECONDS[0] if ended else min(pause * 1.5, LOOK_SECONDS[1])
        if tally.lines and time.monotonic() >= told + TOLD_SECONDS:
            told = time.monotonic()
            tally.say(_so_far(tally, total))
        if tally.lines:
            time.sleep(pause)
    if total:
        tally.say(_so_far(tally, total))


def _so_far(tally: Tally, total: int) -> str:
    return f"{tally.ended:,} of {total:,} orders have ended, {tally.failed:,} without success"


def _pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), PAGE):
        yield ids[start : start + PAGE]


def _ended_of(client: "MCC", ids: Sequence[str]) -> Iterator["WorkOrder"]:
    """Of these, from the oldest to the newest, those that have ended."""
    from uuid import UUID

    from mcc.contracts.status import FINAL

    wanted, cursor = set(ids), str(UUID(int=UUID(ids[-1]).int + 1))
    while wanted:
        page = client.orders.list(cursor=cursor, limit=PAGE)
        for order in page.items:
            if order.id in wanted and order.status in FINAL:
                yield order
        if page.next_cursor is None or page.next_cursor <= ids[0]:
            return
        cursor = page.next_cursor


def place_file(path: "Path", request: OrderRequest, options: PlacingOptions, shown: Shown) -> NoReturn:
    """Place the orders of a file and follow them, or leave them there; ends with the exit code."""
    from mcc.settings import load

    end_as_from_the_keyboard()
    defaults = {name: value for name, value in request.order.items() if value is not None}
    tally = Tally(shown, options.detach)
    try:
        with opened(path) as stream, plain_errors():
            settings = load(data_dir=options.data_dir)
            new = request.checked()
            with serving(settings, options.url, request, new) as (there, _), refusals(settings.data_dir):
                from mcc.client import MCC

                with MCC(there.url, token=there.token) as client:
                    added: set[str] = set()

                    def let(line: Line, refusal: str) -> bool:
                        where = str(line.asked.get("workspace"))
                        if where != defaults.get("workspace") or where in added:
                            return where in added
                        added.add(where)
                        request.tell(let_work(new, settings, client.url, f"workspace: {refusal}"))
                        return True

                    Submission(client, tally, let).place(OrderFile(stream, defaults, request.key or ""))
                    _summary(tally)
                    follow_all(client, tally)
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

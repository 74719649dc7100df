"""One order as people look at it, over HTTP: overview, rows and time line, as of any entry; and each model call."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from mcc.api.problems import Refusal, Unacceptable
from mcc.api.service import API, Cursor, OrderId, ServiceHere, answer, answers
from mcc.contracts.model_calls import ModelRequest
from mcc.contracts.reading import Overview, RowKind, Rows, Timeline
from mcc.contracts.shape import Moment, now
from mcc.reading.requests import JournalUnread, NoModelCall, RequestLost
from mcc.reading.rows import RowsWanted
from mcc.reading.timeline import ShownPart

ROWS_LIMIT = 200

router = APIRouter(prefix=API, tags=["orders"])

AsOf = Annotated[int | None, Query(ge=1, le=10**15, description="Show everything as of this entry.")]
Number = Annotated[int | None, Query(ge=0, le=10**15)]
Record = Annotated[str | None, Query(max_length=200)]


@router.get("/orders/{order_id}/overview", responses=answers(Overview))
async def overview(order_id: OrderId, service: ServiceHere, at: AsOf = None, cursor: Cursor = None) -> Response:
    """An order with its agents and the drones that held it. At most 2,000 agents, in the order of their starts.

    `index` says how much of a long journal has been read: while `to` is below `of`, ask again, and more is told. 410
    when the journal was pruned; the record is kept.
    """
    return answer(await service.reader.overview(order_id, at, _number(cursor, "an overview")))


def _number(cursor: str | None, giver: str) -> int:
    """How many things are skipped. Raises `Refusal`."""
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise Refusal(400, f"This cursor is not one that {giver} gave; begin without one.")
    return int(cursor or 0)


@router.get("/orders/{order_id}/timeline", responses=answers(Timeline))
async def timeline(
    order_id: OrderId,
    service: ServiceHere,
    start: Annotated[Moment | None, Query(alias="from")] = None,
    end: Annotated[Moment | None, Query(alias="to")] = None,
    px: Annotated[int, Query(ge=100, le=10_000)] = 1_200,
    by: Literal["record", "agent"] = "record",
    at: AsOf = None,
) -> Response:
    """Who ran when: a lane for each record, or each agent, with bars of agents, model calls, tool calls, waits and
    checks. At most 4,000 bars: those shorter than one of `px` pixels are merged. `from` and `to` show a part.

    `gaps` are times of half a minute or more in which nothing ran.
    """
    if start is not None and end is not None and start >= end:
        raise Unacceptable("to", "the end comes after the beginning.")
    return answer(await service.reader.timeline(order_id, ShownPart(now(), start, end, px, by), at))


@router.get("/orders/{order_id}/rows", responses=answers(Rows))
async def rows(
    order_id: OrderId,
    service: ServiceHere,
    record: Record = None,
    before: Number = None,
    after: Number = None,
    around: Number = None,
    limit: Annotated[int, Query(ge=1, le=ROWS_LIMIT)] = 100,
    kinds: Annotated[list[RowKind] | None, Query()] = None,
    errors: bool = False,
    at: AsOf = None,
) -> Response:
    """What the agents of an order said and did, by the entry with which each row began; of one `record` or of all. The
    newest rows, or those `before`, `after` or `around` an entry.

    A row appears when it begins and keeps its place. Neighbouring calls of one tool that did not fail are one row
    (`tools`); a call that started an agent is a row `child`. Texts are rendered, at most 4,000 characters of each
    (`cut`). An answer ends at 1.5 MB.
    """
    if sum(place is not None for place in (before, after, around)) > 1:
        raise Unacceptable("around", "name one of before, after and around.")
    wanted = RowsWanted(record, frozenset(kinds or ()), errors, before, after, around, limit)
    return answer(await service.reader.rows(order_id, wanted, at))


@router.get("/orders/{order_id}/calls/{seq}", responses=answers(ModelRequest))
async def model_request(
    order_id: OrderId, seq: Annotated[int, Path(ge=1, le=10**15)], service: ServiceHere, cursor: Cursor = None
) -> Response:
    """What a model was asked with: `seq` is the number of an entry `model.started`. The request is put together again
    from the journal, by the code with which drones make it: system prompt, tools, every message with the entry that it
    came from (`order_id`, `seq`; earlier turns of the session too), parameters. Secrets are left out as in the journal.

    An answer has at most 1 MB of messages; `next_cursor` leads to the next ones. Of a message, a system prompt or tools
    of more than 500 KB the texts are cut (`cut`), and of pictures only the block is told. 404 for an entry of another
    kind; 410 when the journal was pruned, or what the turn was shown of its session is not stored any more; 503 while a
    long journal is being read.
    """
    try:
        return answer(await service.reader.requests.of(order_id, seq, _number(cursor, "this call")))
    except NoModelCall as problem:
        raise Refusal(404, str(problem)) from problem
    except RequestLost as problem:
        raise Refusal(410, str(problem)) from problem
    except JournalUnread as problem:
        raise Refusal(503, str(problem), {"Retry-After": "1"}) from problem

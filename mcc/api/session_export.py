"""Exports of sessions, written turn by turn: Markdown for people, JSON lines for programs."""

from collections.abc import AsyncIterator, Iterator
from typing import Literal

from mcc.api.service import Service
from mcc.contracts.invisible import escape_invisible, escape_invisible_json
from mcc.contracts.order import WorkOrder
from mcc.contracts.sessions import PrunedTurn, Session
from mcc.contracts.shape import to_json

ExportFormat = Literal["md", "jsonl"]
MEDIA_TYPES: dict[ExportFormat, str] = {"md": "text/markdown; charset=utf-8", "jsonl": "application/x-ndjson"}

TURNS_AT_ONCE = 20


async def exported(service: Service, session: Session, form: ExportFormat) -> AsyncIterator[bytes]:
    """The session in pieces. Raises `UnknownSession` when it is deleted meanwhile, and other `StoreError`s."""
    yield _markdown_head(session) if form == "md" else b'{"session":%b}\n' % escape_invisible_json(to_json(session))
    turn = 0
    while page := await service.offload(service.store.sessions.exported, session.id, after=turn, limit=TURNS_AT_ONCE):
        for turn, ended in page:
            if form == "md":
                yield escape_invisible("\n".join(_lines(turn, ended)) + "\n").encode("utf-8", "backslashreplace")
            elif isinstance(ended, PrunedTurn):
                yield escape_invisible_json(to_json(ended)) + b"\n"
            else:
                async for piece in _line(service, ended):
                    yield piece


async def _line(service: Service, order: WorkOrder) -> AsyncIterator[bytes]:
    yield b'{"order":%b,"record":' % escape_invisible_json(to_json(order))
    record = await service.records.of(order.id)
    if record is None or isinstance(record, bytes):
        yield escape_invisible_json(record or b"null")
    else:
        async for piece in record:
            yield escape_invisible_json(piece)
    yield b"}\n"


def _markdown_head(session: Session) -> bytes:
    title = " ".join(session.title.split()) or "Session without a title"
    # In which Markdown finds no markup.
    plain = "".join(f"\\{one}" if one in r"\`*_{}[]<>()#+-.!|~" else one for one in title)
    turns = "1 turn" if session.turns == 1 else f"{session.turns} turns"
    head = f"# {plain}\n\nSession {session.id}, {session.created_at:%Y-%m-%d %H:%M} UTC, {turns}\n"
    return escape_invisible(head).encode("utf-8", "backslashreplace")


def _lines(turn: int, ended: WorkOrder | PrunedTurn) -> Iterator[str]:
    yield f"\n## Turn {turn}\n"
    if isinstance(ended, PrunedTurn):
        when = f"{ended.pruned_at:%Y-%m-%d}"
        yield f"Order {ended.order_id}. Its journal was pruned on {when}: prompt and answer are left.\n"
    else:
        used = f"{_counted(ended.usage.model_calls, 'model call')}, {_counted(ended.usage.tool_calls, 'tool call')}"
        rolled_back = ", rolled back" if ended.left_out else ""
        yield f"Order {ended.id}, {ended.created_at:%Y-%m-%d %H:%M} UTC, {ended.status}{rolled_back}; {used}.\n"
    yield "**Prompt**\n"
    yield _quoted(ended.prompt)
    yield "\n**Answer**\n"
    yield _quoted(ended.answer) if ended.answer else "None."


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _quoted(text: str) -> str:
    """The text as a quotation, so that no heading in it looks like one of the export."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])

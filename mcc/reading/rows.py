"""Rows of an order with their texts: which of them a page shows, and what each of them says."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.contracts.entry import Entry
from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.fact import Fact, NotedFact
from mcc.contracts.fence import unfenced
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.journal import (
    AgentFinished,
    AgentStarted,
    ControlApplied,
    GateChecked,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
)
from mcc.contracts.merging import UNMERGED
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.reading import RowKind, ShownRow
from mcc.contracts.shape import to_json
from mcc.reading.file_changes import shown_call
from mcc.reading.heads import RowHead, heads_of
from mcc.rendering.renderer import Form, Source
from mcc.store.database.clock import moment

TEXT_CHARACTERS = 4_000
ARGUMENT_CHARACTERS = 2_000
SHOWN_CALLS = 50
"""How many calls of a merged row are named."""


@dataclass(frozen=True, slots=True)
class RowsWanted:
    """Which rows: of one record (None: of all), of these kinds (none: of all), only those that failed.

    `before`, `after`, `around`: the entry to go on from, at most one of them; without, the newest. `limit`: how many.
    """

    record: str | None = None
    kinds: Collection[RowKind] = ()
    errors: bool = False
    before: int | None = None
    after: int | None = None
    around: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows to show, by number of their entries, and whether there are more on either side. `anchor`: the place of
    the one that is nearest to the reader."""

    heads: Sequence[RowHead]
    earlier: bool
    later: bool
    anchor: int


def choose(lines: Sequence[EntryLine], wanted: RowsWanted) -> Chosen:
    heads = [
        head
        for head in heads_of(lines, wanted.record)
        if (not wanted.kinds or head.kind in wanted.kinds) and (not wanted.errors or head.failed)
    ]
    if wanted.after is not None:
        start = anchor = sum(head.seq <= wanted.after for head in heads)
    elif wanted.around is not None:
        # The row that an entry belongs to began with it or before it.
        anchor = max(0, sum(head.seq <= wanted.around for head in heads) - 1)
        start = max(0, min(anchor - wanted.limit // 2, len(heads) - wanted.limit))
    else:
        anchor = len(heads) if wanted.before is None else sum(head.seq < wanted.before for head in heads)
        start = max(0, anchor - wanted.limit)
        return Chosen(heads[start:anchor], start > 0, anchor < len(heads), anchor - start)
    end = start + wanted.limit
    return Chosen(heads[start:end], start > 0, end < len(heads), anchor - start)


def numbers_of(head: RowHead) -> list[int]:
    """The entries whose texts the row shows."""
    calls = [call.seq for call in head.calls[:SHOWN_CALLS]]
    ended = [head.ended.seq] if head.ended is not None and not head.calls else []
    failures = [line.seq for line in head.tries if line.kind == ModelRetried.kind]
    return [head.seq, *failures[-1:], *ended, *calls]


@dataclass(frozen=True, slots=True)
class RowWords:
    """What a row says: its data, and the texts that are rendered: `text`, and `thinking` of a model."""

    data: dict[str, Any]
    text: str = ""
    form: Form = "plain"
    thinking: str = ""


def sources_of(said: RowWords) -> list[Source]:
    """The beginnings of the texts, as what they are rendered."""
    thinking = [Source(said.thinking[:TEXT_CHARACTERS], "markdown")] if said.thinking else []
    return [Source(said.text[:TEXT_CHARACTERS], said.form), *thinking]


def row_of(head: RowHead, said: RowWords, rendered: Sequence[list[Any]]) -> ShownRow:
    """The row; `rendered`: the nodes of its `sources_of`."""
    data = said.data
    if said.thinking:
        data = {**data, "thinking": rendered[1], "thinking_cut": len(said.thinking) > TEXT_CHARACTERS}
    return ShownRow(
        seq=head.seq,
        kind=head.kind,
        record_id=head.first.record,
        at=moment(head.first.at),
        ms=head.ms,
        data=data,
        text=rendered[0],
        cut=len(said.text) > TEXT_CHARACTERS,
    )


def said_by(head: RowHead, entries: Mapping[int, Entry]) -> RowWords:
    """What the row says, from the entries with its numbers; those that are missing say nothing."""
    first = entries.get(head.seq)
    last = entries.get(head.ended.seq) if head.ended is not None else None
    if head.kind == "tools":
        return _calls(head, entries)
    if head.kind in ("tool", "child"):
        return _call(head, first, last)
    if head.kind == "model":
        return _model(head, entries, last)
    return _of_fact(first.data if first else None, last.data if last else None, head.first.name)


def _model(head: RowHead, entries: Mapping[int, Entry], last: Entry | None) -> RowWords:
    data: dict[str, Any] = {"model": head.first.name, "round": None, "tries": 1, "error": None, "reply_seq": None}
    if head.first.kind == ModelStarted.kind:
        data |= {"round": head.first.state[0]}
    data["tries"] += sum(line.kind == ModelStarted.kind for line in head.tries)
    failures = [entry.data for line in head.tries if (entry := entries.get(line.seq)) is not None]
    if failures and isinstance(failures[-1], ModelRetried):
        data["error"] = failures[-1].in_words
    if last is None or not isinstance(reply := last.data, ModelReplied):
        return RowWords(data)
    data |= {
        "model": reply.model,
        "round": reply.round,
        "reply_seq": last.seq,
        "finish_reason": reply.finish_reason,
        "usage": reply.usage,
        "first_token_ms": reply.first_token_ms,
        "context_tokens": reply.context_tokens,
        "calls": [call.name for call in reply.tool_calls],
    }
    return RowWords(data, reply.text, "markdown", reply.thinking)


def _call(head: RowHead, first: Entry | None, last: Entry | None) -> RowWords:
    data: dict[str, Any] = {"call_id": head.first.call, "name": head.first.name, "outcome": None, "is_error": False}
    if first is not None and isinstance(first.data, ToolStarted):
        data["arguments"] = shortened(first.data.arguments)
    if head.kind == "child":
        data["records"] = head.records
    if last is None or not isinstance(ended := last.data, ToolFinished):
        return RowWords(data)
    data |= {
        "outcome": ended.outcome.value,
        "is_error": ended.is_error,
        "exit_code": ended.exit_code,
        "artifact": ended.artifact,
        "images": ended.images,
        "untrusted": ended.untrusted,
        "job": ended.job,
        "background": ended.background,
        "finished_seq": last.seq,
    }
    if head.first.name in UNMERGED and not ended.is_error:
        data["changes"] = shown_call(ended.content)
    return RowWords(data, unfenced(ended.content), "output")


def _calls(head: RowHead, entries: Mapping[int, Entry]) -> RowWords:
    calls = []
    for call in head.calls[:SHOWN_CALLS]:
        entry = entries.get(call.seq)
        arguments = entry.data.arguments if entry is not None and isinstance(entry.data, ToolStarted) else {}
        calls.append({"seq": call.seq, "call_id": call.first.call, "arguments": shortened(arguments, 200)})
    return RowWords(
        {
            "name": head.first.name,
            "n": len(head.calls),
            "first_seq": head.seq,
            "last_seq": head.calls[-1].seq,
            "calls": calls,
        }
    )


def shortened(value: Any, characters: int = ARGUMENT_CHARACTERS) -> Any:
    """Arguments of a call with long texts cut; those that are large all the same are one text, cut."""
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[:characters]}…"
    if isinstance(value, Mapping):
        short = {key: shortened(item, characters) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        short = [shortened(item, characters) for item in value]  # type: ignore[assignment]
    else:
        return value
    written = to_json(short)
    return short if len(written) <= 4 * characters else f"{written[:characters].decode('utf-8', 'ignore')}…"


def _of_fact(fact: Fact | None, reply: Fact | None, name: str) -> RowWords:
    match fact:
        case AgentStarted():
            data = {"title": fact.title, "agent": name, "node": fact.node, "attachments": len(fact.attachments)}
            return RowWords({**data, "call_id": fact.call_id}, fact.prompt, "markdown")
        case GateChecked():
            data = {"tool": fact.tool, "ok": fact.ok, "check_only": fact.check_only, "attempt": fact.attempt}
            return RowWords({**data, "errors": shortened(fact.errors)}, "\n".join(fact.errors))
        case VerifyChecked():
            data = {"verifier": fact.verifier, "ok": fact.passed, "verifier_id": fact.verifier_id}
            return RowWords({**data, "revision": fact.revision}, fact.error or "\n".join(fact.points))
        case ControlApplied():
            data = {"control": fact.control, "mode": fact.mode, "reason": fact.reason, "by": fact.by}
            return RowWords(
                {**data, "tools_removed": fact.tools_removed, "control_id": fact.control_id}, fact.message or ""
            )
        case ApprovalRequested():
            return _approval(fact, reply)
        case QuestionAsked():
            asked = {"question_id": fact.question_id, "call_id": fact.call_id, "choices": shortened(fact.choices)}
            ended = {"answers": reply.answers, "by": reply.by} if isinstance(reply, QuestionAnswered) else {}
            return RowWords({**asked, **ended}, "\n".join(question.question for question in fact.all_questions))
        case AgentFinished():
            data = {"name": fact.kind, "status": fact.status.value, "cause": fact.cause, "limit": fact.limit}
            return RowWords(data, fact.error or "")
        case NotedFact():
            return RowWords({"name": getattr(fact, "name", fact.kind)}, fact.in_words)
        case None:
            return RowWords({})
    message = str(getattr(fact, "message", "") or getattr(fact, "detail", "") or "")
    known = {name: value for name, value in fact if name in ("drone", "attempt", "status", "reason", "lost", "until")}
    return RowWords({"name": fact.kind, **known}, message)


def _approval(fact: ApprovalRequested, reply: Fact | None) -> RowWords:
    data: dict[str, Any] = {
        "approval_id": fact.approval_id,
        "call_id": fact.call_id,
        "tool": fact.tool,
        "decision": None,
        "preview": fact.preview.kind if fact.preview else None,
    }
    if isinstance(reply, ApprovalDecided):
        data |= {"decision": reply.decision, "by": reply.by, "note": reply.note}
    return RowWords(data, fact.preview.text if fact.preview else "")

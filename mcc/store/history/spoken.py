"""What journal entries say: the text of each, whose it is, and the excerpt that shows where words stand in it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from mcc.contracts.blocks import text_in
from mcc.contracts.fact import Fact
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import AgentFinished, AgentStarted, AnyFact, ControlApplied, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.shape import to_json
from mcc.contracts.tool_groups import TOOL_GROUPS
from mcc.store.rows.words import Term

HistoryKind: TypeAlias = Literal["prompt", "attachment", "steer", "task", "text", "call", "tool", "report", "answer"]
"""What people asked, gave with it, and told later; what a subagent was to do; what an agent wrote; arguments and result
of a call; what a subagent reported, and what the order answered."""

LASTING: frozenset[HistoryKind] = frozenset({"prompt", "steer", "answer"})
"""What is left of an order whose journal was pruned."""

OWN_TOOLS = frozenset(TOOL_GROUPS["history_read"])
"""Calls of these are not part of the history: a search would find itself."""

EXCERPT_CHARACTERS = 240
_BEFORE = 80
_PLACES = 40


@dataclass(frozen=True, slots=True)
class EntryText:
    """`name`: of the tool, if it is of a call. `artifact`: digest of the whole of what `text` has in part."""

    kind: HistoryKind
    text: str
    name: str = ""
    artifact: str | None = None


def spoken_in(fact: Fact, *, of_root: bool, prompt: str) -> EntryText | None:
    """What the entry says; None for one without words of its own. `prompt` is the order's; `of_root`: the record of the
    entry has no parent."""
    spoken = _spoken(cast(AnyFact, fact), of_root, prompt)
    return spoken if spoken is not None and spoken.text.strip() and spoken.name not in OWN_TOOLS else None


def _spoken(fact: AnyFact, of_root: bool, prompt: str) -> EntryText | None:
    match fact:
        case OrderQueued():
            return EntryText("prompt", prompt)
        case AgentStarted():
            attached = [attachment.text for attachment in fact.attachments]
            # The prompt of the root is the order's.
            if of_root:
                return EntryText("attachment", "\n".join(attached))
            return EntryText("task", "\n".join((fact.prompt, *attached)))
        case ControlApplied(control="steer", message=str(message)):
            return EntryText("steer", message)
        case ModelReplied():
            return EntryText("text", text_in(fact.blocks))
        case ToolStarted():
            arguments = fact.arguments if isinstance(fact.arguments, str) else to_json(fact.arguments).decode()
            return EntryText("call", arguments, fact.name)
        case ToolFinished():
            return EntryText("tool", unfenced(fact.content), fact.name, fact.artifact)
        case AgentFinished():
            result = fact.answer if fact.result is None else to_json(fact.result).decode()
            return EntryText("answer" if of_root else "report", result or fact.error or "")
        case _:
            return None


def excerpt_of(text: str, terms: Sequence[Term], most: int = EXCERPT_CHARACTERS) -> str:
    """One line of a text, at most `most` characters: where most of the words stand close together."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    lower = line.lower()
    places = sorted((place, term.shown) for term in terms for place in _places(lower, term))
    near: Counter[str] = Counter()
    best = start = first = 0
    for at, shown in places:
        near[shown] += 1
        while places[first][0] < at - (most - 2 * _BEFORE):
            near -= Counter([places[first][1]])
            first += 1
        if len(near) > best:
            best, start = len(near), places[first][0]
    start = max(0, min(start - _BEFORE, len(line) - most))
    cut_end = start + most < len(line)
    shown = line[start + (start > 0) : start + most - cut_end]
    return f"{'…' if start > 0 else ''}{shown}{'…' if cut_end else ''}"


def _places(lower: str, term: Term) -> Sequence[int]:
    """Where words begin with the term, some of them."""
    places: list[int] = []
    at = lower.find(term.shown)
    while at >= 0 and len(places) < _PLACES:
        end = at + len(term.shown)
        if (at == 0 or not lower[at - 1].isalnum()) and (term.begins or end == len(lower) or not lower[end].isalnum()):
            places.append(at)
        at = lower.find(term.shown, end)
    return places

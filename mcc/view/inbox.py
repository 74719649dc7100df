"""Items of the inbox in words: in a line of a list, and whole for whoever decides."""

import json
from collections.abc import Iterator

from mcc.contracts.approvals import AnyItem, ApprovalItem, OutlineItem, QuestionItem
from mcc.contracts.permission import SavedRule, Why
from mcc.view.lines import call_in_brief, clock
from mcc.view.output import clean, one_line

PREVIEW_LINES = 60
"""So many lines of a preview are shown where the person is asked right there; the whole is in `mcc inbox ID`."""

_SHOWN = 500


def in_brief(item: AnyItem) -> str:
    """What an item asks, on one line."""
    match item:
        case QuestionItem():
            return one_line(item.question)
        case OutlineItem():
            return f"the outline of document {item.document_id}"
        case ApprovalItem():
            return one_line(f"{item.tool} {call_in_brief(item.arguments)}")


def whole(item: AnyItem, preview_lines: int | None = None) -> str:
    """All that a person must know to decide; of a preview the first lines, None = all."""
    return clean("\n".join(_lines(item, preview_lines)))


def _lines(item: AnyItem, preview_lines: int | None) -> Iterator[str]:
    who = f"{item.agent or 'the order'}{' (a subagent)' if item.depth else ''}"
    match item:
        case QuestionItem():
            yield f"{who} asks: {item.question}"
            yield from (f"  {number}  {choice}" for number, choice in enumerate(item.choices, start=1))
            if item.default is not None:
                yield f"  without an answer: {item.default}"
        case OutlineItem():
            yield f"May the outline of document {item.document_id} count? (mcc documents show {item.document_id})"
        case ApprovalItem():
            yield from _call(item, who, preview_lines)
    if item.status != "pending":
        yield f"  {item.status}" + (f" by {item.by}" if item.by else "")
    elif item.expires_at is not None:
        yield f"  until {clock(item.expires_at)}"


def _call(item: ApprovalItem, who: str, preview_lines: int | None) -> Iterator[str]:
    yield f"{who} wants to use {item.tool}"
    if item.again:
        yield f"  asked again: {one_line(item.again, _SHOWN)}"
    for name, value in item.arguments.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        yield f"  {name}: {one_line(shown, _SHOWN)}"
    about = [item.effects, item.profile, item.workspace]
    yield f"  effects: {', '.join(part for part in about if part) or 'not said'}"
    if item.why is not None:
        yield f"  asked because {why_in_words(item.why)}"
    if item.would_save is not None:
        yield f"  remembered would be: {rule_in_words(item.would_save)}"
    if item.preview is not None:
        lines = item.preview.text.splitlines()
        shown_lines = lines if preview_lines is None else lines[:preview_lines]
        yield ""
        yield from shown_lines
        if len(shown_lines) < len(lines):
            yield f"[{len(lines) - len(shown_lines):,} more lines: mcc inbox {item.id}]"
        if item.preview.artifact is not None:
            yield f"[cut; the whole is artifact {item.preview.artifact[:16]} of the order]"
        yield ""


def why_in_words(why: Why) -> str:
    """What decided over a call, in words that go on after "because"."""
    what = {
        "operator": "the operator's configuration says so",
        "mode": "the mode of the order says so",
        "agent": "the agent's file says so",
        "ancestor": "the file of an agent above says so",
        "order": "the order says so",
        "default": "it cannot be undone",
        "grant": "a person let it stand",
    }[why.layer]
    named = f" of {why.key}" if why.key else ""
    when = f", where {one_line(why.when, 200)}" if why.when else ""
    return f"{what}{named}{when}{f': {one_line(why.message, 200)}' if why.message else ''}"


def rule_in_words(rule: SavedRule) -> str:
    """A rule that a person let stand, on one line."""
    when = f" where {one_line(rule.when, 300)}" if rule.when else ", always"
    return f"{rule.then} {rule.key}{when}"

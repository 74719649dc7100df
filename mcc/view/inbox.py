"""Inbox items as text: one line for lists, in full for the person who decides."""

import json
from collections.abc import Iterator

from mcc.contracts.approvals import AnyItem, ApprovalItem, NoteItem, OutlineItem, QuestionItem
from mcc.contracts.inbox_facts import ShownPreview
from mcc.contracts.invisible import CLOSES, OPENS
from mcc.contracts.line_ends import crlf_in_heads
from mcc.contracts.permission import Permission, SavedRule, Why
from mcc.contracts.questions import ONLY, OneQuestion
from mcc.view.lines import call_in_brief, clock
from mcc.view.output import brief, clean, exact_line, wrapped

PREVIEW_LINES = 60
"""Lines of a preview shown where a person is asked at the terminal; v there, and `mcc inbox ID`, show all of it."""

_SHOWN = 500
_INDENT = 4


def in_brief(item: AnyItem) -> str:
    """What an item asks for, on one line."""
    match item:
        case QuestionItem():
            more = len(item.questions) - 1
            return brief(item.question) + (f" (and {more} more)" if more > 0 else "")
        case OutlineItem():
            return f"the outline of document {item.document_id}"
        case NoteItem():
            return brief(f"{'forget' if item.deletes else 'remember'} {item.name}: {item.text}".rstrip(": "))
        case ApprovalItem():
            return brief(f"{item.tool} {call_in_brief(item.arguments)}")


def in_full(item: AnyItem, preview_lines: int | None = None, width: int | None = None, whole: str | None = None) -> str:
    """All that a person must know to decide, `clean`.

    `preview_lines`: how many lines of the preview to show, None = all. `width`: terminal columns to wrap to, None = do
    not wrap; the preview is never wrapped. `whole`: the whole of a preview that the item holds only a part of.
    """
    lines = [part for line in _lines(item) for part in wrapped(line, width, _INDENT)]
    if item.kind == "approval" and item.preview is not None:
        lines += ["", *_preview(item, item.preview, preview_lines, whole)]
    if status := _status(item):
        lines += wrapped(status, width, _INDENT)
    return "\n".join(lines)


def _status(item: AnyItem) -> str:
    if item.status != "pending":
        return exact_line(f"  {item.status}" + (f" by {item.by}" if item.by else ""))
    return "" if item.expires_at is None else f"  until {clock(item.expires_at)}"


def _lines(item: AnyItem) -> Iterator[str]:
    who = f"{item.agent or 'the order'}{' (a subagent)' if item.depth else ''}"
    match item:
        case QuestionItem():
            yield from _questions(item, exact_line(who))
        case OutlineItem():
            yield f"May the outline of document {item.document_id} count? (mcc documents show {item.document_id})"
        case NoteItem():
            yield from map(exact_line, _note(item, who))
        case ApprovalItem():
            yield from map(exact_line, _call(item, who))


def _note(item: NoteItem, who: str) -> Iterator[str]:
    yield f"{who} wants to {'forget' if item.deletes else 'remember'} {item.name}, version {item.version}"
    yield from (" " * _INDENT + "│ " + line for line in item.text.split("\n"))
    if item.tainted:
        yield "  it had read text from outside, such as a web page, which may have told it so"
    yield f"  for later orders on {item.workspace or 'this session'} (project {item.project[:12]})"


def questions_of(item: QuestionItem) -> tuple[OneQuestion, ...]:
    """What is asked, at least one question."""
    alone = OneQuestion(id=ONLY, question=item.question, choices=item.choices, default=item.default)
    return item.questions or (alone,)


def _questions(item: QuestionItem, who: str) -> Iterator[str]:
    answers = {answer.id: answer for answer in item.answers}
    questions = questions_of(item)
    if len(questions) > 1:
        yield f"{who} asks {len(questions)} questions:"
    for question in questions:
        first, *more = clean(question.question).split("\n")
        yield f"{who} asks: {first}" if len(questions) == 1 else f"{exact_line(question.id)}: {first}"
        # Indented, so that no line of a question looks like a choice or like what else is known of it.
        yield from (" " * _INDENT + "│ " + line for line in more)
        yield from (exact_line(f"  {number}  {choice}") for number, choice in enumerate(question.choices, start=1))
        if not question.free:
            yield "  (one of these)"
        if question.default is not None:
            yield exact_line(f"  without an answer: {question.default}")
        if (answer := answers.get(question.id)) is not None:
            yield exact_line(f"  {answer.status}" + (f": {answer.answer}" if answer.answer is not None else ""))


def _call(item: ApprovalItem, who: str) -> Iterator[str]:
    yield f"{who} wants to use {item.tool}"
    if item.again:
        yield f"  asked again: {item.again}"
    for name, value in item.arguments.items():
        yield f"  {name}: {_argument(value, is_below=item.preview is not None)}"
    about = [item.effects, item.profile, item.workspace]
    yield f"  effects: {', '.join(part for part in about if part) or 'not said'}"
    if item.why is not None:
        yield f"  asked because {why_in_words(item.why)}"
    if item.would_save is not None:
        yield f"  remembered would be: {rule_in_words(item.would_save)}"


def _argument(value: object, *, is_below: bool) -> str:
    """The beginning of an argument. `is_below`: all of it is in the preview; of several lines the first is enough."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    first, line_end, _ = text.partition("\n") if is_below else (text, "", "")
    shown = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}…"
    more = text.removesuffix("\n").count("\n") if line_end else 0
    return f"{shown} [and {more:,} more {'line' if more == 1 else 'lines'}]" if more else shown


def _preview(item: ApprovalItem, preview: ShownPreview, most: int | None, whole: str | None) -> Iterator[str]:
    # At line feeds only: `splitlines` would take other characters for line ends, and drop them.
    text = preview.text if whole is None else whole
    lines = clean(crlf_in_heads(text) if preview.kind == "diff" else text).removesuffix("\n").split("\n")
    yield from lines[:most]
    if most is not None and most < len(lines):
        yield f"[{len(lines) - most:,} more lines: mcc inbox {item.id}]"
    if preview.artifact is not None and whole is None:
        same = f", sha256 {preview.sha256}" if preview.sha256 else ""
        yield f"[cut; the whole is artifact {preview.artifact[:16]} of the order{same}]"
    if preview.hidden:
        many = "character" if preview.hidden == 1 else "characters"
        yield f"[it holds {preview.hidden:,} {many} that nobody sees, written as {OPENS}U+…{CLOSES}]"
    yield ""


def why_in_words(why: Why) -> str:
    """Which rule decided that a call needs approval, as words to follow "because"."""
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
    when = f", where {why.when}" if why.when else ""
    return f"{what}{named}{when}{f': {why.message}' if why.message else ''}"


def rule_in_words(rule: SavedRule) -> str:
    """A rule that a person saved with a decision, whole: it is what they agree to."""
    when = f" where {rule.when}" if rule.when else ", always"
    return f"{rule.then} {rule.key}{when}"


def permission_in_words(permission: Permission) -> Iterator[str]:
    """A line for each key that has one word ("allow", "ask", "deny"), and for each rule of a key that has rules; in the
    order in which they are tried."""
    for key, word_or_rules in permission.items():
        if isinstance(word_or_rules, str):
            yield f"{key}: {word_or_rules}"
            continue
        for rule in word_or_rules:
            when = f" when {rule.when}" if rule.when else ""
            yield f"{key}: {rule.then}{when}{f'  ({rule.message})' if rule.message else ''}"


def chosen(text: str, choices: tuple[str, ...]) -> str:
    """The choice that `text` numbers, from 1 on; `text` itself where it is no such number, or is a choice itself."""
    answer = text.strip()
    number = int(answer) if answer.isascii() and answer.isdigit() and len(answer) < 4 else 0
    return choices[number - 1] if answer not in choices and 1 <= number <= len(choices) else text

"""An order's story as lines: a heading, then its agents with what each of them does."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from mcc.contracts.status import OrderStatus
from mcc.view import figures, glyphs
from mcc.view.columns import Columns
from mcc.view.glyphs import GLYPHS
from mcc.view.output import clean, exact_line, one_line, short_id
from mcc.view.rows_below import Ended, Left, RowDetail, SameCalls, rows_below
from mcc.view.story import Story
from mcc.view.story_rows import ControlLine, NoteLine, StoryNode, WarningLine

SLACK = 3
"""Columns left free, for characters that a terminal draws wider than Unicode says."""


@dataclass(frozen=True, slots=True)
class OrderDetail:
    """How much of an order is drawn.

    `spoken`: how many lines of the master's current model output. `shown`: which rows.
    """

    spoken: int = 0
    shown: RowDetail = field(default_factory=RowDetail)


WHOLE = OrderDetail()
LAST = OrderDetail(shown=RowDetail(newest=20, agents=50))
"""What stays on the terminal at the end."""

_LOW = RowDetail(notes=False, newest=2)
DETAILS = (
    OrderDetail(8),
    OrderDetail(3),
    OrderDetail(3, RowDetail(notes=False)),
    OrderDetail(3, RowDetail(notes=False, newest=6)),
    OrderDetail(3, _LOW),
    OrderDetail(3, replace(_LOW, grouped=True)),
    OrderDetail(1, replace(_LOW, grouped=True, running=True)),
    OrderDetail(1, RowDetail(notes=False, newest=0, grouped=True)),
)
"""Detail while an order runs, from most to least."""


def fitting(story: Story, at: datetime, console: Console) -> RenderableType:
    """The order with the most detail that the window holds, so that running agents and model output stay visible."""
    height, columns = max(1, console.size.height - 1), Columns(console, max(1, console.size.width - SLACK))
    for detail in DETAILS:
        if (lines := _within(OrderPicture(story, at, detail), columns, height)) is not None:
            return Group(*lines)
    # Not even a line for each running agent: as many of them as there is room for.
    fits, too_many, best = 0, height + 1, None
    while too_many - fits > 1:
        detail = replace(DETAILS[-1], shown=replace(DETAILS[-1].shown, agents=(fits + too_many) // 2))
        lines = _within(OrderPicture(story, at, detail), columns, height)
        if lines is None:
            too_many = (fits + too_many) // 2
        else:
            fits, best = (fits + too_many) // 2, lines
    return Group(*(best or islice(OrderPicture(story, at, DETAILS[-1]).lines(columns), height)))


def _within(picture: "OrderPicture", columns: Columns, height: int) -> list[Text] | None:
    lines = list(islice(picture.lines(columns), height + 1))
    return lines if len(lines) <= height else None


@dataclass(frozen=True, slots=True)
class OrderPicture:
    """The order at the time `at`: a heading, then master, subagents and tools."""

    story: Story
    at: datetime
    detail: OrderDetail = WHOLE

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(Columns(console, max(1, options.max_width)))

    def lines(self, columns: Columns) -> Iterator[Text]:
        story = self.story
        yield from heading(story, self.at, columns)
        if story.advice and not story.asks:
            yield from columns.below("", ("›", ""), f"go on: {one_line(story.advice, 200)}", "bold")
        if story.root is None:
            return
        chosen = self.detail.shown.chosen(story.root)
        yield from _Branch(story, self.at, self.detail, columns, chosen).lines(
            story.root, ("", ""), paused=story.fold.paused
        )
        if self.detail.spoken and not story.waiting:
            yield from _spoken(story.root, self.detail.spoken, columns)


def heading(story: Story, at: datetime, columns: Columns) -> Iterator[Text]:
    """The order: where it is or how it ended, how long it took, what it spent. One line, if there is room."""
    name, said = Text(), Text()
    finished = story.fold.finished
    if finished is not None:
        reason = f" ({finished.reason})" if finished.reason else ""
        colours = {OrderStatus.SUCCEEDED: "bold green", OrderStatus.FAILED: "bold red"}
        said.append(f"{finished.status}{reason}", colours.get(finished.status, "bold"))
        name.append(*mark(glyphs.of_end(finished.status), story, at))
    else:
        is_paused = story.fold.paused and not story.waiting
        said.append(one_line(f"paused, {story.standing}" if is_paused else story.standing, 200))
        began = "running" if story.root is not None else "queued"
        kind = glyphs.of_wait(story.reason) if story.waiting else "paused" if is_paused else began
        name.append(*mark(kind, story, at))
    name.append(f"order {short_id(story.fold.order_id)} ", "bold")
    elapsed = ((story.ended or at) - story.began).total_seconds() if story.began else 0.0
    spent = columns.figures(figures.brief_seconds(elapsed, whole=finished is None), story.fold.usage)
    fits = name.cell_len + said.cell_len + cell_len(spent) <= columns.width
    yield columns.line("", name, Text(), said if fits else Text(), spent)
    if not fits:
        yield from columns.below("", (" ", ""), said.plain, str(said.spans[0].style) if said.spans else "")
    if story.away is not None:
        since, why = story.away
        words = f"not connected since {since.astimezone():%H:%M:%S}, tries again: {one_line(why, 200)}"
        yield from columns.below("", ("◷", ""), words, "bold")


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading as rich draws it."""

    story: Story
    at: datetime

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from heading(self.story, self.at, Columns(console, max(1, options.max_width)))


def mark(kind: str, story: Story, at: datetime) -> tuple[str, str]:
    """The glyph of this name, and a blank; its style."""
    elapsed = (at - story.began).total_seconds() if story.began else 0.0
    return f"{GLYPHS[kind].at(elapsed)} ", GLYPHS[kind].style


NAMED = 12
"""Columns that an agent's name has, however deep it is."""

Guides: TypeAlias = tuple[str, str]
"""What stands before the first line of a row, and before its other lines and all below it."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """Draws agents and their rows. `chosen`: records of the agents with a line of their own, None = all."""

    story: Story
    at: datetime
    detail: OrderDetail
    columns: Columns
    chosen: frozenset[str] | None

    def lines(self, node: StoryNode, guides: Guides, *, paused: bool, model: str = "") -> Iterator[Text]:
        """An agent, with all that is shown below it. `paused`: it or one above it is; `model`: of its parent."""
        paused = paused or node.record.paused
        rows = rows_below(node, self.detail.shown, self.chosen)
        first, other = self._short(guides[0]), self._short(guides[1])
        yield self._agent(node, first, paused=paused, model=model)
        yield from self._said_of(node, other + ("│ " if rows else "  "), paused=paused)
        for number, row in enumerate(rows, 1):
            branch, below = ("└─ ", "   ") if number == len(rows) else ("├─ ", "│  ")
            if isinstance(row, StoryNode):
                yield from self.lines(row, (guides[1] + branch, guides[1] + below), paused=paused, model=node.model)
            else:
                yield self._row(row, self._short(guides[1] + branch))

    def _short(self, guide: str) -> str:
        """Of a guide that leaves no room for words, the end."""
        most = max(3, min(self.columns.width // 3, self.columns.width - cell_len(self.columns.figures("")) - NAMED))
        return guide if cell_len(guide) <= most else f"…{guide[len(guide) - most + 1 :]}"

    def _agent(self, node: StoryNode, guide: str, *, paused: bool, model: str) -> Text:
        story, name, title, said = self.story, Text(), Text(), Text()
        kind = glyphs.of_record(node.status)
        if node.running:
            rest = glyphs.of_wait(story.reason) if story.waiting else "paused" if paused else kind
            kind = "approval" if node.asks else rest
        name.append(*mark(kind, story, self.at))
        name.append(exact_line(node.name), "bold")
        if node.origin:
            name.append(f"  from {one_line(node.origin, 60)}", "bold")
        if node.record.started.title:
            title.append(f"  {one_line(node.record.started.title, 80)}")
        if node.model and node.model != model:
            title.append(f"  {exact_line(node.model)}", "dim")
        if (earlier := node.record.started.continues_order) is not None:
            said.append(f"  goes on from order {short_id(earlier)}", "dim")
        if node.running and node.record.id in story.background:
            said.append("  in the background", "dim")
        if node.running and paused:
            said.append("  paused", "bold")
        elif node.running and not (story.waiting or node.asks) and (speech := _speech(node, story.root)):
            said.append(f"  {speech}", "italic")
        rows_are_hidden = self.detail.shown.newest == 0 or (node.record.parent_id is not None and not node.at_work)
        if rows_are_hidden and node.ended_calls:
            said.append(f"  {node.ended_calls}", "dim")
        elapsed = ((node.record.finished_at or _tick(story, self.at)) - node.record.started_at).total_seconds()
        spent = self.columns.figures(figures.brief_seconds(elapsed, whole=node.running), node.total)
        return self.columns.line(guide, name, title, said, spent)

    def _said_of(self, node: StoryNode, guide: str, *, paused: bool) -> Iterator[Text]:
        """What an agent waits for, and how people answer; what went wrong."""
        glyph = GLYPHS["approval"]
        for asked in tuple(node.asks.values()):
            yield from self.columns.below(guide, (glyph.shapes, glyph.style), f"waits: {one_line(asked, 300)}", "bold")
        # The command prints why an order failed, below the last picture.
        if node.note and not (node is self.story.root and self.story.fold.finished):
            kind = "later" if node.running else "error"
            if not (node.running and (paused or self.story.waiting)):
                yield from self.columns.below(
                    guide, (GLYPHS[kind].shapes, GLYPHS[kind].style), one_line(node.note, 200)
                )

    def _row(self, row: "SameCalls | Ended | Left | ControlLine | NoteLine | WarningLine", guide: str) -> Text:
        columns = self.columns
        match row:
            case SameCalls():
                return self._calls(row, guide)
            case Ended():
                return _ended(row, guide, columns)
            case Left():
                return columns.line(guide, Text(row.words, "dim"), Text(), Text(), "")
            case ControlLine():
                kind, text = "steer", one_line(row.text, 200)
            case WarningLine():
                more = f" (and {row.count - 1:,} more: mcc agents check)" if row.count > 1 else ""
                kind, text = "warning", f"{one_line(row.text, 300)}{more}"
            case NoteLine():
                kind, text = "note", one_line(row.text, 200) + (f" ×{row.count}" if row.count > 1 else "")
        glyph = GLYPHS[kind]
        return columns.line(
            guide, Text(f"{glyph.shapes} ", glyph.style), Text(text, "dim" * (kind == "note")), Text(), ""
        )

    def _calls(self, calls: SameCalls, guide: str) -> Text:
        name, title, said, last = Text(), Text(), Text(), calls.lines[-1]
        running = [line for line in calls.lines if line.running]
        name.append(*mark("running" if running else "error" if last.failed else "ok", self.story, self.at))
        name.append(one_line(last.name, 40))
        if len(calls.lines) > 1:
            name.append(f" ×{len(calls.lines)}")
        if brief := calls.brief:
            title.append(f"  {clean(brief)}", "dim")
        if last.exit_code:
            said.append(f"  exit {last.exit_code}", "red")
        if last.remark:
            said.append(f"  {one_line(last.remark, 200)}", "" if last.failed else "dim")
        if last.speech is not None and (spoken := last.speech.last_line):
            said.append(f"  {one_line(spoken, 80)}", "italic")
        seconds = calls.seconds
        if running:
            seconds = (_tick(self.story, self.at) - running[0].began).total_seconds()
        return self.columns.line(
            guide, name, title, said, self.columns.figures(figures.brief_seconds(seconds, whole=bool(running)))
        )


def _tick(story: Story, at: datetime) -> datetime:
    """The last whole second of the order: times of all that runs go on together."""
    return at if story.began is None else at - timedelta(microseconds=(at - story.began).microseconds)


def _speech(node: StoryNode, root: StoryNode | None) -> str:
    """What the model of a running agent is doing, and the end of its text; not the master's, shown below the tree."""
    if node.speech is None or (node.note and not node.speech.kind):
        return ""
    last = one_line(node.speech.tail[-60:], 60) if node is not root else ""
    return " ".join(filter(None, (one_line(node.speech.in_brief, 60), last)))


def _ended(ended: Ended, guide: str, columns: Columns) -> Text:
    """Agents that have ended, on one line."""
    name = Text()
    for status, count in Counter(node.status for node in ended.nodes).items():
        glyph = GLYPHS[glyphs.of_record(status)]
        name.append(f"{glyph.shapes} ", glyph.style)
        name.append(f"{count:,} {status.value}  ")
    names = dict.fromkeys(node.record.agent for node in ended.nodes)
    title = Text(one_line(", ".join(names), 60), "dim")
    return columns.line(guide, name, title, Text(), columns.figures("", ended.usage))


def _spoken(node: StoryNode, most: int, columns: Columns) -> Sequence[Text]:
    """The last `most` lines of this agent's current model output, or thinking."""
    if node.speech is None or not node.speech.tail:
        return ()
    style = "dim" if node.speech.kind == "thinking.delta" else ""
    text = clean(node.speech.tail).strip("\n")
    return list(columns.below("", (" ", ""), text, style))[-most:]

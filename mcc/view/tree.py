"""An order's story as a rich renderable: a heading, then a tree of agents and tools."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.text import Text
from rich.tree import Tree

from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.view import figures
from mcc.view.output import clean, exact_line, one_line, short_id
from mcc.view.story import ControlLine, NoteLine, Story, StoryNode, ToolLine, WarningLine

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 10

ECHOED = 3
"""Columns left free, as the terminal echoes ^C there."""

MARKS = {
    RecordStatus.COMPLETED: ("✓", "green"),
    RecordStatus.BLOCKED: ("!", "yellow"),
    RecordStatus.LIMIT_REACHED: ("!", "yellow"),
    RecordStatus.WAITING: ("…", "yellow"),
    RecordStatus.FAILED: ("✗", "red"),
    RecordStatus.CANCELLED: ("✗", "red"),
}


@dataclass(frozen=True, slots=True)
class OrderDetail:
    """How much of an order is drawn.

    `spoken`: how many lines of the master's current model output. `folded`: agents that ended are drawn without their
    rows. `grouped`: agents of one parent that ended share a line. `running`: only tools with running calls are drawn.
    `notes`: what the runtime did or found is drawn.
    """

    spoken: int = 0
    folded: bool = False
    grouped: bool = False
    running: bool = False
    notes: bool = True


WHOLE = OrderDetail()
DETAILS = (
    OrderDetail(spoken=8),
    OrderDetail(spoken=3),
    OrderDetail(spoken=3, notes=False),
    OrderDetail(spoken=3, notes=False, folded=True),
    OrderDetail(spoken=3, notes=False, folded=True, grouped=True),
    OrderDetail(spoken=1, notes=False, folded=True, grouped=True, running=True),
)
"""Detail while an order runs, from most to least."""


def fitting(story: Story, at: datetime, console: Console) -> RenderableType:
    """The order with the most detail that the window holds, so that running agents and model output stay visible.

    A few columns stay free: the terminal echoes keys there, and a line that wraps would be drawn twice.
    """
    height, width = console.size.height - 1, max(1, console.size.width - ECHOED)
    for detail in DETAILS:
        drawn = Constrain(tree(story, at, detail), width)
        if len(console.render_lines(drawn, pad=False)) <= height:
            break
    return drawn


def tree(story: Story, at: datetime, detail: OrderDetail = WHOLE) -> RenderableType:
    """The order at the time `at`: a heading, then master, subagents and tools."""
    lines: list[RenderableType] = [heading(story, at)]
    if story.advice:
        lines.append(Text(f"  go on: {one_line(story.advice, 200)}", "yellow", overflow="ellipsis", no_wrap=True))
    if story.root is None:
        return Group(*lines)
    top = Tree(_agent(story, story.root, at, paused=story.fold.paused), guide_style="dim")
    _grow(top, story, story.root, at, detail, paused=story.fold.paused)
    speech = _spoken(story.root, detail.spoken) if detail.spoken and not story.waiting else []
    return Group(*lines, top, *speech)


def heading(story: Story, at: datetime) -> Text:
    """The order on one line: where it is or how it ended, how long it took, what it spent."""
    heading = Text(overflow="ellipsis", no_wrap=True)
    if story.waiting:
        heading.append("… ", "yellow")
    elif story.fold.finished is None:
        heading.append(f"{frame(story, at)} ", "cyan")
    heading.append(f"order {short_id(story.fold.order_id)} ", "bold")
    if story.fold.finished is None:
        paused = story.fold.paused and not story.waiting
        heading.append(one_line(f"paused, {story.standing}" if paused else story.standing, 100))
    else:
        reason = f" ({story.fold.finished.reason})" if story.fold.finished.reason else ""
        style = "bold green" if story.fold.finished.status is OrderStatus.SUCCEEDED else "bold red"
        heading.append(f"{story.fold.finished.status}{reason}", style)
    elapsed = ((story.ended or at) - story.began).total_seconds() if story.began else 0.0
    return heading.append(f"  {figures.seconds(elapsed)} · {figures.spent(story.fold.usage)}", "dim")


def _grow(branch: Tree, story: Story, node: StoryNode, at: datetime, detail: OrderDetail, *, paused: bool) -> None:
    """Add the rows of `node` to `branch`. `paused`: this agent or one above it is paused."""
    if detail.folded and not node.running:
        return
    if detail.grouped and (ended := [row for row in node.rows if isinstance(row, StoryNode) and not row.running]):
        branch.add(_ended(ended))
    for row in node.rows:
        match row:
            case StoryNode() if detail.grouped and not row.running:
                continue
            case ToolLine(running=0) if detail.running:
                continue
            case NoteLine() if not detail.notes:
                continue
            case StoryNode():
                is_paused = paused or row.record.paused
                _grow(branch.add(_agent(story, row, at, paused=is_paused)), story, row, at, detail, paused=is_paused)
            case ControlLine():
                branch.add(Text(f"» {one_line(row.text, 200)}", "magenta", overflow="ellipsis", no_wrap=True))
            case WarningLine():
                more = f" (and {row.count - 1:,} more: mcc agents check)" if row.count > 1 else ""
                branch.add(Text(f"! {one_line(row.text, 300)}{more}", "yellow"))
            case NoteLine():
                more = f" ×{row.count}" if row.count > 1 else ""
                branch.add(Text(f"· {one_line(row.text, 200)}{more}", "dim", overflow="ellipsis", no_wrap=True))
            case ToolLine():
                branch.add(_tool(story, row, at))
            case _:
                assert_never(row)


@dataclass(frozen=True, slots=True)
class AgentLine:
    """An agent on one line. Where the window is too narrow, first the title gives way to the figures, then what the
    model says; each keeps `_KEPT` columns. A `stall`, why the model is silent, then gets lines of its own."""

    name: Text
    title: Text
    speech: Text
    stall: Text
    figures: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        title, speech = self.title.copy(), self.speech.copy()
        fits = self.name.cell_len + 2 + self.stall.cell_len + self.figures.cell_len <= options.max_width
        stall = Text("  ").append_text(self.stall) if self.stall and fits else Text()
        for part in (title, speech):
            room = options.max_width - sum(part.cell_len for part in (self.name, title, speech, stall, self.figures))
            if room < 0:
                part.truncate(max(_KEPT, part.cell_len + room), overflow="ellipsis")
        yield Text.assemble(self.name, title, speech, stall, self.figures, overflow="ellipsis", no_wrap=True)
        if self.stall and not fits:
            for line in self.stall.wrap(console, max(1, options.max_width - 2)):
                yield Text("  ").append_text(line)


_KEPT = 16


def _agent(story: Story, node: StoryNode, at: datetime, *, paused: bool) -> AgentLine:
    line, name, speech, stall = Text(), Text(), Text(), Text()
    is_paused, rests = paused and node.running, (paused or story.waiting) and node.running
    mark, style = MARKS.get(RecordStatus.WAITING if rests else node.status, (frame(story, at), "cyan"))
    name.append(f"{mark} ", style)
    name.append(exact_line(node.name), "bold")
    if node.origin:
        name.append(f"  from {one_line(node.origin, 60)}", "yellow")
    title = Text(f"  {one_line(node.record.started.title, 60)}" if node.record.started.title else "")
    is_stalled = bool(node.note) and not rests and node.speech is not None and not node.speech.kind
    if is_stalled:
        stall.append(one_line(node.note, 200), "yellow")
    elif not rests and (said := _speech(node, story.root)):
        speech.append(f"  {said}", "italic cyan")
    elapsed = ((node.record.finished_at or at) - node.record.started_at).total_seconds()
    line.append(f"  {figures.seconds(elapsed)} · {figures.spent(node.total())} · {exact_line(node.model)}", "dim")
    if node.running and node.record.id in story.background:
        line.append("  in the background", "dim")
    if is_paused:
        line.append("  paused", "yellow")
    if node.note and not is_stalled and not (node is story.root and story.fold.finished):
        # The command prints why an order failed, below the last picture.
        line.append(f"  {one_line(node.note, 200)}", "yellow")
    return AgentLine(name, title, speech, stall, line)


def _speech(node: StoryNode, root: StoryNode | None) -> str:
    """What the model of a running agent is doing, and the end of its text; not the master's, shown below the tree."""
    if node.speech is None:
        return ""
    last = one_line(node.speech.tail[-60:], 60) if node is not root else ""
    return " ".join(filter(None, (one_line(node.speech.in_brief, 60), last)))


def _ended(nodes: Sequence[StoryNode]) -> Text:
    """Agents that have ended, on one line."""
    line = Text(overflow="ellipsis", no_wrap=True)
    counts = Counter(node.status for node in nodes)
    for status, count in counts.items():
        mark, style = MARKS[status]
        line.append(f"{mark} ", style)
        line.append(f"{count} {status.value}  ")
    names = dict.fromkeys(node.record.agent for node in nodes)
    line.append(one_line(", ".join(names), 60), "dim")
    return line


def _spoken(node: StoryNode, most: int) -> list[RenderableType]:
    """The last `most` lines of this agent's current model output, or thinking."""
    if node.speech is None or not node.speech.tail:
        return []
    return [Spoken(clean(node.speech.tail), most, "dim" if node.speech.kind == "thinking.delta" else "")]


@dataclass(frozen=True, slots=True)
class Spoken:
    """The last `most` lines of a text once it is wrapped to the window."""

    text: str
    most: int
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        paragraphs = Text(self.text.strip("\n"), self.style).wrap(console, max(1, options.max_width - 2))
        for line in paragraphs[-self.most :]:
            yield Text("  ").append_text(line)


def _tool(story: Story, row: ToolLine, at: datetime) -> Text:
    line = Text(overflow="ellipsis", no_wrap=True)
    line.append(f"{frame(story, at)} " if row.running else "· ", "cyan" if row.running else "dim")
    line.append(one_line(row.name, 40))
    if row.calls > 1:
        line.append(f" ×{row.calls}")
    if row.failed:
        line.append(f" ({row.failed} failed)", "yellow")
    if row.brief:
        line.append(f"  {clean(row.brief)}", "dim")
    if row.exit_code:
        line.append(f"  exit {row.exit_code}", "yellow")
    if row.remark:
        line.append(f"  {one_line(row.remark, 200)}", "yellow" if row.failed else "dim")
    if row.speech is not None and (last := row.speech.last_line):
        line.append(f"  {one_line(last, 80)}", "italic cyan")
    return line


def frame(story: Story, at: datetime) -> str:
    elapsed = (at - story.began).total_seconds() if story.began else 0.0
    return FRAMES[int(elapsed * FRAMES_PER_SECOND) % len(FRAMES)]

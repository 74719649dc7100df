"""An order's story as a rich renderable: a heading, then a tree of agents and tools; nothing is kept."""

from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.view import figures
from mcc.view.output import clean, one_line
from mcc.view.story import ControlLine, Node, Story, ToolLine, WarningLine

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 10

MARKS = {
    RecordStatus.COMPLETED: ("✓", "green"),
    RecordStatus.BLOCKED: ("!", "yellow"),
    RecordStatus.LIMIT_REACHED: ("!", "yellow"),
    RecordStatus.WAITING: ("…", "yellow"),
    RecordStatus.FAILED: ("✗", "red"),
    RecordStatus.CANCELLED: ("✗", "red"),
}


def tree(story: Story, at: datetime) -> RenderableType:
    """The order as it is at the moment `at`: a line about it, then master, subagents and tools."""
    heading = Text(overflow="ellipsis", no_wrap=True)
    if story.waiting:
        heading.append("… ", "yellow")
    elif story.fold.finished is None:
        heading.append(f"{_frame(story, at)} ", "cyan")
    heading.append(f"order {story.fold.order_id[:8]} ", "bold")
    if story.fold.finished is None:
        paused = story.fold.paused and not story.waiting
        heading.append(one_line(f"paused, {story.headline}" if paused else story.headline, 100))
    else:
        reason = f" ({story.fold.finished.reason})" if story.fold.finished.reason else ""
        style = "bold green" if story.fold.finished.status is OrderStatus.SUCCEEDED else "bold red"
        heading.append(f"{story.fold.finished.status}{reason}", style)
    elapsed = ((story.ended or at) - story.began).total_seconds() if story.began else 0.0
    heading.append(f"  {figures.seconds(elapsed)} · {figures.spent(story.fold.usage)}", "dim")
    lines: list[RenderableType] = [heading]
    if story.advice:
        lines.append(Text(f"  go on: {one_line(story.advice, 200)}", "yellow", overflow="ellipsis", no_wrap=True))
    if story.root is None:
        return Group(*lines)
    top = Tree(_agent(story, story.root, at, paused=story.fold.paused), guide_style="dim")
    _grow(top, story, story.root, at, paused=story.fold.paused)
    return Group(*lines, top)


def _grow(branch: Tree, story: Story, node: Node, at: datetime, *, paused: bool) -> None:
    """`paused`: the node is, or one above it."""
    for row in node.rows:
        match row:
            case Node():
                held = paused or row.record.paused
                _grow(branch.add(_agent(story, row, at, paused=held)), story, row, at, paused=held)
            case ControlLine():
                branch.add(Text(f"» {one_line(row.text, 100)}", "magenta", overflow="ellipsis", no_wrap=True))
            case WarningLine():
                more = f" (and {row.count - 1:,} more: mcc agents check)" if row.count > 1 else ""
                branch.add(Text(f"! {one_line(row.text, 300)}{more}", "yellow"))
            case ToolLine():
                branch.add(_tool(story, row, at))


def _agent(story: Story, node: Node, at: datetime, *, paused: bool) -> Text:
    line = Text(overflow="ellipsis", no_wrap=True)
    held, rests = paused and node.running, (paused or story.waiting) and node.running
    mark, style = MARKS.get(RecordStatus.WAITING if rests else node.status, (_frame(story, at), "cyan"))
    line.append(f"{mark} ", style)
    line.append(clean(node.record.agent), "bold")
    if node.origin:
        line.append(f"  from {one_line(node.origin, 60)}", "yellow")
    if title := node.record.started.title:
        line.append(f"  {one_line(title, 60)}")
    elapsed = ((node.record.finished_at or at) - node.record.started_at).total_seconds()
    line.append(f"  {figures.seconds(elapsed)} · {figures.spent(node.total())} · {clean(node.model)}", "dim")
    if held:
        line.append("  paused", "yellow")
    if node.note:
        line.append(f"  {one_line(node.note, 100)}", "yellow")
    return line


def _tool(story: Story, row: ToolLine, at: datetime) -> Text:
    line = Text(overflow="ellipsis", no_wrap=True)
    line.append(f"{_frame(story, at)} " if row.running else "· ", "cyan" if row.running else "dim")
    line.append(one_line(row.name, 40))
    if row.calls > 1:
        line.append(f" ×{row.calls}")
    if row.failed:
        line.append(f" ({row.failed} failed)", "yellow")
    if row.brief:
        line.append(f"  {row.brief}", "dim")
    return line


def _frame(story: Story, at: datetime) -> str:
    elapsed = (at - story.began).total_seconds() if story.began else 0.0
    return FRAMES[int(elapsed * FRAMES_PER_SECOND) % len(FRAMES)]

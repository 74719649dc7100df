"""A generation as a rich renderable: a heading, its progress, and its nodes as the tree of the document."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text
from rich.tree import Tree

from mcc.view import figures
from mcc.view.generation import COUNTED, Branch, GenerationStory, part_of
from mcc.view.glyphs import of_wait
from mcc.view.output import exact_line, one_line
from mcc.view.tree import SLACK, Heading, mark

MARKS = {"running": "running", "done": "done", "failed": "failed", "waiting": "queued", "untouched": "untouched"}
"""The glyph of each state of a node."""


@dataclass(frozen=True, slots=True)
class DocumentDetail:
    """How much of the document is drawn.

    `folded`: a subtree that is done takes one line. `grouped`: sibling subtrees that are done share one line. `most`:
    no tree, only this many of the running and failed nodes.
    """

    folded: bool = False
    grouped: bool = False
    most: int | None = None


WHOLE = DocumentDetail()
MANY = 20
"""With more nodes than this for each line of the window, the tree is drawn grouped at once, without trying more."""


MOST_IN_FINAL = 200
"""With more nodes than this, the final picture is folded and grouped."""


def fitting(story: GenerationStory, at: datetime, console: Console) -> RenderableType:
    """The generation with the most detail that the window holds, so that running and failed nodes stay visible."""
    height, width = console.size.height - 1, max(1, console.size.width - SLACK)
    details = (WHOLE, DocumentDetail(folded=True)) if story.nodes <= height * MANY else ()
    for detail in (*details, DocumentDetail(folded=True, grouped=True)):
        drawn = Constrain(picture(story, at, detail), width)
        if len(console.render_lines(drawn, pad=False)) <= height:
            return drawn
    return Constrain(picture(story, at, DocumentDetail(most=max(1, height - 4))), width)


def picture(story: GenerationStory, at: datetime, detail: DocumentDetail = WHOLE) -> RenderableType:
    """The generation at the time `at`."""
    lines: list[RenderableType] = [Heading(story, at)]
    if story.advice:
        lines.append(_line(f"  go on: {one_line(story.advice, 200)}", "yellow"))
    if story.root is None:
        return Group(*lines)
    lines.append(_progress(story))
    if detail.most is not None:
        return Group(*lines, *_busiest(story, at, detail.most))
    done = story.done_below()
    top = Tree(_node(story, story.top, at), guide_style="dim")
    _grow(top, story, story.top, at, detail, done)
    return Group(*lines, top)


def final_picture(story: GenerationStory, at: datetime) -> RenderableType:
    """What stays on the terminal at the end: all nodes, or of a large document those that are not done."""
    return picture(story, at, WHOLE if story.nodes <= MOST_IN_FINAL else DocumentDetail(folded=True, grouped=True))


def _progress(story: GenerationStory) -> Text:
    """Nodes by state, rules that do not hold, and the time left."""
    line = Text("  ", overflow="ellipsis", no_wrap=True)
    parts = [f"{count:,} {word}" for name, word in COUNTED if (count := story.counts.get(name))]
    if failing := story.failing:
        parts.append(f"{failing:,} rule{'s' if failing > 1 else ''} failing")
    if story.progress is not None and story.ended is None and story.progress.seconds_left is not None:
        parts.append(f"about {figures.seconds(story.progress.seconds_left)} left")
    return line.append(" · ".join(parts) or "no node has begun")


def _grow(
    branch: Tree, story: GenerationStory, node: Branch, at: datetime, detail: DocumentDetail, done: Mapping[str, int]
) -> None:
    """Add the children of `node` to `branch`. `done`: sizes of the subtrees that are done, by path."""
    rows: Sequence[Branch] = node.children
    ended = [row for row in rows if row.path in done] if detail.grouped else []
    if len(ended) > 1:
        count = sum(done[row.path] for row in ended)
        branch.add(_line(f"✓ {count:,} done: {one_line(ended[0].key)} … {one_line(ended[-1].key)}", "green"))
        rows = [row for row in rows if row.path not in done]
    for row in rows:
        folded = detail.folded and row.path in done
        grown = branch.add(_node(story, row, at, below=done[row.path] - 1 if folded else 0))
        if not folded:
            _grow(grown, story, row, at, detail, done)


def _busiest(story: GenerationStory, at: datetime, most: int) -> Iterator[Text]:
    """A line for each of the running and then of the failed nodes, with its path; `most` of them."""
    of_interest = [one for state in ("running", "failed") for one in story.top.walk() if one.state == state]
    for one in of_interest[:most]:
        yield _node(story, one, at, name=one.path)
    if len(of_interest) > most:
        yield _line(f"  … and {len(of_interest) - most:,} more", "dim")


def _node(story: GenerationStory, branch: Branch, at: datetime, *, below: int = 0, name: str = "") -> Text:
    line = Text(overflow="ellipsis", no_wrap=True)
    state = branch.state
    rests = state == "running" and (story.waiting or story.fold.paused)
    resting = of_wait(story.reason) if story.waiting else "paused"
    line.append(*mark(resting if rests else MARKS[state], story, at))
    line.append(one_line(name or branch.key, 100), "bold")
    if not branch.agents:
        return line
    newest = branch.agents[-1]
    component = newest.record.agent.rpartition("/")[2].partition(":")[0]
    if branch.key == "/":
        line.append(f" {exact_line(component)}")
    if (title := newest.record.started.title) and title not in (branch.path, newest.record.agent, component):
        line.append(f"  {one_line(title, 60)}")
    if below:
        line.append(f"  and {below:,} below", "green")
    if state == "running" and not rests and (doing := _doing(branch)):
        line.append(f"  {doing}", "italic cyan")
    if state != "waiting":
        ended = newest.record.finished_at or at
        line.append(f"  {figures.seconds((ended - branch.agents[0].record.started_at).total_seconds())}", "dim")
    if newest.note:
        line.append(f"  {one_line(newest.note, 200)}", "yellow" if state == "running" else "red")
    return line


def _doing(branch: Branch) -> str:
    """What the running agent is doing: its part of the node, and the tool or the model that it waits for."""
    newest = branch.agents[-1]
    open_tools = list(newest.calls.values())
    doing = open_tools[-1].name if open_tools else newest.speech.in_brief if newest.speech is not None else ""
    part = part_of(newest.record.agent)
    return " ".join(filter(None, (f"{exact_line(part)}:" if part else "", one_line(doing, 60))))


def _line(text: str, style: str) -> Text:
    return Text(text, style, overflow="ellipsis", no_wrap=True)

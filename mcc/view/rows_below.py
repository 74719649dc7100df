"""Which rows of an agent are drawn, and in which order: its subagents, then its calls and notes as they came."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mcc.contracts.merging import joins
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.view.output import ELLIPSIS
from mcc.view.story_rows import ControlLine, NoteLine, StoryNode, ToolLine, WarningLine

BRIEF_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class RowDetail:
    """How much is drawn below agents.

    `notes`: what the runtime did or found. `newest`: of each agent so many of its rows that are not agents, None = all.
    `running`: calls that run alone. `grouped`: agents of one parent that ended share a line. `agents`: so many agents
    in all, those at work first; None = all.
    """

    notes: bool = True
    newest: int | None = None
    running: bool = False
    grouped: bool = False
    agents: int | None = None

    def chosen(self, root: StoryNode) -> frozenset[str] | None:
        """Records of the agents that are drawn: who asks people first, then who works, in the order of their starts."""
        if self.agents is None:
            return None
        above: dict[str, tuple[str, ...]] = {}
        ranked = sorted(_ranked(root, (), above), key=lambda ranked: ranked[0])
        taken: set[str] = set()
        for _, record in ranked:
            wanted = {record, *above[record]} - taken
            if len(taken) + len(wanted) <= self.agents:
                taken |= wanted
        return frozenset(taken)


def _ranked(node: StoryNode, above: tuple[str, ...], known: dict[str, tuple[str, ...]]) -> Iterator[tuple[int, str]]:
    known[node.record.id] = above
    bad = node.status not in (RecordStatus.COMPLETED, RecordStatus.CANCELLED)
    yield (0 if node.asks else 1 if node.running else 2 if bad else 3), node.record.id
    for child in list(node.children):
        yield from _ranked(child, (*above, node.record.id), known)


@dataclass(frozen=True, slots=True)
class SameCalls:
    """Neighbouring calls of one tool, in the order of the calls."""

    lines: Sequence[ToolLine]

    @property
    def seconds(self) -> float:
        """How long they took, from the begin of the first to the end of the last."""
        first, last = self.lines[0], self.lines[-1]
        return last.seconds if first is last else (last.began - first.began).total_seconds() + last.seconds

    @property
    def brief(self) -> str:
        """What they were called with, each once, in this order; if there is no room for all, the newest."""
        said = ""
        for brief in dict.fromkeys(line.brief for line in reversed(self.lines)):
            if said and len(brief) + len(said) > BRIEF_CHARACTERS:
                return f"{ELLIPSIS} {said}"
            said = ", ".join(filter(None, (brief, said)))
        return said


@dataclass(frozen=True, slots=True)
class Ended:
    """Agents of one parent that have ended."""

    nodes: Sequence[StoryNode]

    @property
    def usage(self) -> Usage:
        usage = Usage()
        for node in self.nodes:
            usage = usage.plus(node.total)
        return usage


@dataclass(frozen=True, slots=True)
class Left:
    """What is not drawn, in words."""

    words: str


AnyShown: TypeAlias = StoryNode | Ended | Left | SameCalls | ControlLine | NoteLine | WarningLine


def rows_below(node: StoryNode, shown: RowDetail, chosen: frozenset[str] | None) -> list[AnyShown]:
    """The rows below an agent: its subagents, then the rest. An agent that has ended is one line, without rows."""
    return [
        *_agents(list(node.children), shown, chosen),
        *(_others(node, shown) if node.running or not node.record.parent_id else ()),
    ]


def _agents(children: Sequence[StoryNode], shown: RowDetail, chosen: frozenset[str] | None) -> Iterator[AnyShown]:
    ended = [child for child in children if not child.at_work] if shown.grouped else []
    if ended:
        yield Ended(ended)
    rest = [child for child in children if not shown.grouped or child.at_work]
    drawn = [child for child in rest if chosen is None or child.record.id in chosen]
    yield from drawn
    if len(drawn) < len(rest):
        counts = Counter(child.status.value for child in rest if chosen is not None and child.record.id not in chosen)
        told = ", ".join(f"{count:,} {status}" for status, count in counts.items())
        yield Left(f"{ELLIPSIS} {len(rest) - len(drawn):,} more: {told}")


def _others(node: StoryNode, shown: RowDetail) -> Iterator[AnyShown]:
    if shown.newest == 0:
        return
    rows = list(merged(node))
    kept = rows if shown.notes else [row for row in rows if not isinstance(row, NoteLine)]
    if shown.running:
        kept = [row for row in kept if not isinstance(row, SameCalls) or any(line.running for line in row.lines)]
    kept = kept if shown.newest is None else kept[-shown.newest :]
    drawn = set(map(id, kept))
    left = [row for row in rows if id(row) not in drawn]
    counts = {
        "earlier call": sum(len(row.lines) for row in left if isinstance(row, SameCalls)),
        "note": sum(1 for row in left if not isinstance(row, SameCalls)),
    }
    told = ", ".join(f"{count:,} {word}{'s' if count > 1 else ''}" for word, count in counts.items() if count)
    if told:
        yield Left(f"{ELLIPSIS} {told}")
    yield from kept


def merged(node: StoryNode) -> Iterator[SameCalls | ControlLine | NoteLine | WarningLine]:
    """The rows of an agent that are not agents, neighbouring calls of one tool as one."""
    group: list[ToolLine] = []
    for row in list(node.rows):
        if isinstance(row, ToolLine) and (
            not group or joins((group[-1].name, group[-1].failed), (row.name, row.failed))
        ):
            group.append(row)
            continue
        if group:
            yield SameCalls(group)
            group = []
        if isinstance(row, ToolLine):
            group.append(row)
        else:
            yield row
    if group:
        yield SameCalls(group)

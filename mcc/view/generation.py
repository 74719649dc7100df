"""A generation as a viewer sees it: the story of its order, arranged by the nodes of the document."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentFinished, AgentStarted, GateChecked
from mcc.contracts.record import RecordStatus
from mcc.contracts.wire import GenerationProgress
from mcc.view import figures
from mcc.view.story import Node, Story

COUNTED = (
    ("done", "done"),
    ("running", "running"),
    ("pending", "pending"),
    ("stale", "stale"),
    ("failed", "failed"),
    ("conflicts", "in conflict"),
)
"""What is counted, and how people are told."""


def in_words(progress: GenerationProgress) -> str:
    """How far a generation is, on one line."""
    parts = [f"{count:,} {word}" for name, word in COUNTED if (count := getattr(progress, name))]
    left = [] if progress.seconds_left is None else [f"about {figures.seconds(progress.seconds_left)} left"]
    return " · ".join([*parts, f"{progress.output_tokens:,} tokens of output", *left])


def part_of(agent: str) -> str:
    """Of the names `course/lesson:metadata` and `course/lesson:outline` the last word; "" of the agent that sets the
    values of a node, after which nothing of it is left to be done."""
    return agent.rpartition("/")[2].partition(":")[2]


@dataclass(slots=True, eq=False)
class Branch:
    """A node of the document and those below it that are known so far; `agents` are the runs for it, the newest last.

    `failing`: rules that did not hold when its agent last asked.
    """

    path: str
    agents: list[Node] = field(default_factory=list)
    below: list["Branch"] = field(default_factory=list)
    failing: int = 0

    @property
    def key(self) -> str:
        return self.path.rpartition("/")[2] or self.path

    @property
    def state(self) -> str:
        """running, done, failed, waiting: nobody works on it, and it is not finished; or passed: nothing is to be done
        there, and it is known for what is below it."""
        if not self.agents:
            return "passed"
        newest = self.agents[-1]
        if newest.running:
            return "running"
        if newest.status is not RecordStatus.COMPLETED:
            return "failed"
        return "waiting" if part_of(newest.record.agent) else "done"

    def walk(self) -> Iterator["Branch"]:
        """It and all below it, depth first."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.below))


class Generation(Story):
    """Entries in, as in any story; `top` is the document's root once an agent has begun. `progress` is the newest that
    was heard of: entries alone do not tell of nodes that nobody has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.progress: GenerationProgress | None = None
        self.top = Branch("/")
        self._branches: dict[str, Branch] = {"/": self.top}
        self._at: dict[str, Branch] = {}

    @property
    def nodes(self) -> int:
        """How many are known so far."""
        return len(self._branches)

    def done_below(self) -> dict[str, int]:
        """Of the nodes that are done with all below them, by path, how many nodes that is."""
        done: dict[str, int] = {}
        for branch in reversed(list(self.top.walk())):
            below = branch.below
            if branch.state == "done" and all(one.path in done for one in below):
                done[branch.path] = 1 + sum(done[one.path] for one in below)
        return done

    @property
    def counts(self) -> dict[str, int]:
        """Nodes by state, as the generator says, else as far as agents have begun."""
        if (progress := self.progress) is not None and self.ended is None:
            return {name: getattr(progress, name) for name, _ in COUNTED}
        states = Counter(one.state for one in self._known() if one.agents)
        return {"done": states["done"], "running": states["running"], "failed": states["failed"]}

    @property
    def failing(self) -> int:
        """Rules that do not hold, of all nodes at work and of those that failed."""
        return sum(one.failing for one in self._known())

    def _known(self) -> list[Branch]:
        """A copy, made at once: a picture is drawn by another thread than the one that adds entries."""
        return list(self._branches.values())

    def hear_of_progress(self, progress: GenerationProgress) -> None:
        self.progress = progress

    def add(self, entry: Entry) -> None:
        super().add(entry)
        branch = self._at.get(entry.record_id or "")
        match entry.data:
            case AgentStarted(node=str() as path):
                branch = self._at[entry.record_id or ""] = self._branch(path)
                node = self._nodes.get(entry.record_id or "")
                if node is not None:
                    branch.agents.append(node)
                    branch.failing = 0
            case GateChecked(ok=ok, errors=errors) if branch is not None:
                branch.failing = 0 if ok else len(errors)
            case AgentFinished(status=RecordStatus.COMPLETED) if branch is not None:
                branch.failing = 0

    def _branch(self, path: str) -> Branch:
        """That of a node; those above it are made too, when an order begins further down."""
        found = self._branches.get(path)
        if found is None:
            found = self._branches[path] = Branch(path)
            above = self._branch(path.rpartition("/")[0] or "/")
            above.below = sorted([*above.below, found], key=_in_order)
        return found


def _in_order(branch: Branch) -> tuple[str, int]:
    """Children by component and number: lesson-2 before lesson-10."""
    name, _, number = branch.key.rpartition("-")
    return (name, int(number)) if number.isdecimal() and len(number) < 12 else (branch.key, 0)

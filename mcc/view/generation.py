"""The state of a generation for display: the story of its order, arranged by the nodes of the document."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentFinished, AgentStarted, GateChecked
from mcc.contracts.record import RecordStatus
from mcc.contracts.wire import GenerationProgress
from mcc.view import figures
from mcc.view.story import Story
from mcc.view.story_rows import StoryNode

COUNTED = (
    ("done", "done"),
    ("running", "running"),
    ("pending", "pending"),
    ("stale", "stale"),
    ("failed", "failed"),
    ("conflicts", "in conflict"),
)
"""Fields of `GenerationProgress` that are shown, each with its word."""


def in_words(progress: GenerationProgress) -> str:
    """A generation's progress on one line."""
    parts = [f"{count:,} {word}" for name, word in COUNTED if (count := getattr(progress, name))]
    left = [] if progress.seconds_left is None else [f"about {figures.seconds(progress.seconds_left)} left"]
    return " · ".join([*parts, f"{progress.output_tokens:,} tokens of output", *left])


def part_of(agent: str) -> str:
    """The part of a node that an agent works on: "metadata" for `course/lesson:metadata`, "outline" for
    `course/lesson:outline`, "" for the agent that sets the node's values, which comes last."""
    return agent.rpartition("/")[2].partition(":")[2]


@dataclass(slots=True, eq=False)
class Branch:
    """A node of the document with its children, as far as agents have started on them.

    `agents`: the runs for this node, newest last. `failing`: how many rules failed at its agent's latest gate check.
    """

    path: str
    agents: list[StoryNode] = field(default_factory=list)
    children: list["Branch"] = field(default_factory=list)
    failing: int = 0

    @property
    def key(self) -> str:
        return self.path.rpartition("/")[2] or self.path

    @property
    def state(self) -> str:
        """One of "running", "done", "failed", "waiting" (unfinished, no agent is running) and "untouched" (no agent
        worked on it; it is here because a descendant is)."""
        if not self.agents:
            return "untouched"
        newest = self.agents[-1]
        if newest.running:
            return "running"
        if newest.status is not RecordStatus.COMPLETED:
            return "failed"
        return "waiting" if part_of(newest.record.agent) else "done"

    def walk(self) -> Iterator["Branch"]:
        """This branch and all its descendants, depth first."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.children))


class GenerationStory(Story):
    """A story whose agents are also arranged by the nodes of the document; `top` is the document's root.

    `progress` is the generator's latest report: it counts nodes that no agent has started, which entries do not show.
    """

    def __init__(self) -> None:
        super().__init__()
        self.progress: GenerationProgress | None = None
        self.top = Branch("/")
        self._branches: dict[str, Branch] = {"/": self.top}
        self._at: dict[str, Branch] = {}

    @property
    def nodes(self) -> int:
        """How many nodes of the document are known so far."""
        return len(self._branches)

    def done_below(self) -> dict[str, int]:
        """Subtrees that are done entirely: the path of each one's top, and how many nodes it has."""
        done: dict[str, int] = {}
        for branch in reversed(list(self.top.walk())):
            if branch.state == "done" and all(one.path in done for one in branch.children):
                done[branch.path] = 1 + sum(done[one.path] for one in branch.children)
        return done

    @property
    def counts(self) -> dict[str, int]:
        """Number of nodes by state: the generator's report while the order runs, else a count of the known nodes."""
        if (progress := self.progress) is not None and self.ended is None:
            return {name: getattr(progress, name) for name, _ in COUNTED}
        states = Counter(one.state for one in self._snapshot() if one.agents)
        return {"done": states["done"], "running": states["running"], "failed": states["failed"]}

    @property
    def failing(self) -> int:
        """How many rules do not hold, in the nodes that are running or failed."""
        return sum(one.failing for one in self._snapshot())

    def _snapshot(self) -> list[Branch]:
        """A copy in one step: one thread adds entries while another draws."""
        return list(self._branches.values())

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
        """The branch of a node. Missing ones are made, ancestors included: an order may start below the root."""
        found = self._branches.get(path)
        if found is None:
            found = self._branches[path] = Branch(path)
            parent = self._branch(path.rpartition("/")[0] or "/")
            parent.children = sorted([*parent.children, found], key=_in_order)
        return found


def _in_order(branch: Branch) -> tuple[str, int]:
    """Sort key of siblings, by component and number: lesson-2 before lesson-10."""
    name, _, number = branch.key.rpartition("-")
    return (name, int(number)) if number.isdecimal() and len(number) < 12 else (branch.key, 0)

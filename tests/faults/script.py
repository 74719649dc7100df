"""Scripts: seeded trees of agents, so that whatever happens to an order, what it must become is known.

The prompt of an order carries everything (`prompt_of`), and each reply depends on nothing but the order, the agent's
path in its tree and the number of the step; all three are read from the request itself (`asked`). So every repetition
of a call, by whichever process, is comparable with the tree that `expected` makes of the same prompt.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

MASTER, READER, WORKER, AUDITOR = "master", "reader", "worker", "auditor"
"""Agents of the harness: all answer in text, but for an auditor, who hands in a report. A reader plays the master's
part without a tool that writes into the workspace."""

ONCE, IDEM, LINGER, KEEP = "ledger_once", "ledger_idem", "linger", "keep_file"
SUBAGENT, SUBAGENTS_RUN, SUBMIT = "subagent", "subagents_run", "submit_result"
MOST_STEPS, MOST_CHILDREN, MOST_CALLS = 12, 3, 3
STRANGE = "a NUL \x00, half a pair \ud800, a ship \U0001f6a2"

_MARK = re.compile(r"\[\[play ([^\]]*)\]\]")
_WORDS = (
    "the",
    "tide",
    "turns",
    "and",
    "every",
    "crane",
    "on",
    "the",
    "quay",
    "swings",
    "slowly",
    "back",
    "over",
    "its",
    "open",
    "ship",
)


@dataclass(frozen=True, slots=True)
class Play:
    """What a prompt says of its script; None is drawn from the seed.

    `key` names the order (its Idempotency-Key), `path` the agent in its tree: `master`, `master/1` …
    `steps` counts the master's replies, `linger_seconds` is how long each call of `linger` takes; `keeps`: files are
    written into the order's workspace.
    """

    key: str
    seed: int
    path: str = MASTER
    children: int | None = None
    steps: int | None = None
    linger_seconds: float = 0.05
    strange: bool = False
    keeps: bool = False
    background: bool = False
    """The master goes on while its children work."""

    @property
    def mark(self) -> str:
        said: dict[str, object] = {"key": self.key, "seed": self.seed, "path": self.path}
        if self.children is not None:
            said["children"] = self.children
        if self.steps is not None:
            said["steps"] = self.steps
        said["linger"] = f"{self.linger_seconds:g}"
        for name in ("strange", "keeps", "background"):
            if getattr(self, name):
                said[name] = 1
        return f"[[play {' '.join(f'{name}={value}' for name, value in said.items())}]]"

    @classmethod
    def of(cls, text: str) -> "Play | None":
        """The play that a text carries; None when it carries none."""
        found = _MARK.search(text)
        if found is None:
            return None
        said = dict(part.split("=", 1) for part in found[1].split())
        return cls(
            key=said["key"],
            seed=int(said["seed"]),
            path=said.get("path", MASTER),
            children=int(said["children"]) if "children" in said else None,
            steps=int(said["steps"]) if "steps" in said else None,
            linger_seconds=float(said.get("linger", 0.05)),
            strange="strange" in said,
            keeps="keeps" in said,
            background="background" in said,
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tool call of a step. `result`: what its result must be, None for a delegating call (see the children)."""

    name: str
    arguments: Mapping[str, Any]
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model."""

    text: str
    calls: tuple[Wanted, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One agent's run: what it is told, says, calls and answers; `report` is what an auditor hands in."""

    path: str
    agent: str
    prompt: str
    steps: tuple[Step, ...]
    answer: str
    report: Mapping[str, Any] | None = None
    children: tuple["Part", ...] = ()

    def walk(self) -> Iterator["Part"]:
        """This part, then all below it, in the order of their calls."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Tree:
    """What an order must become."""

    play: Play
    root: Part

    @property
    def parts(self) -> Mapping[str, Part]:
        """Every agent's part by its path."""
        return {part.path: part for part in self.root.walk()}

    def effects(self, tool: str | None = None) -> list[tuple[str, str]]:
        """(agent path, mark) of each call that writes into the ledger; only of this tool, when one is named."""
        return [
            (part.path, call.arguments["mark"])
            for part in self.root.walk()
            for step in part.steps
            for call in step.calls
            if call.name in (ONCE, IDEM) and tool in (None, call.name)
        ]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which reply a request asks for: of this play's agent, the step with this number (from 0)."""

    play: Play
    step: int


def prompt_of(
    key: str,
    seed: int,
    *,
    children: int | None = None,
    steps: int | None = None,
    linger_seconds: float = 0.05,
    strange: bool = False,
    keeps: bool = False,
    background: bool = False,
) -> str:
    """The prompt of an order. `children` 0 to 3 and `steps` 1 to 12 are drawn from the seed unless they are given."""
    play = Play(key, seed, MASTER, children, steps, linger_seconds, strange, keeps, background)
    return f"Play your part to its end. {play.mark}"


@lru_cache(maxsize=1_000)
def expected(prompt: str) -> Tree:
    """The tree that an order with this prompt must become. Raises ValueError for a prompt without a script."""
    play = Play.of(prompt)
    if play is None:
        raise ValueError("this prompt carries no script")
    return Tree(play, _master(play, prompt))


def reply(wanted: Asked) -> Step:
    """What the model says. A step after the last one repeats the last: a model that is asked on has no more to say."""
    whole = expected(_prompt_of_master(wanted.play))
    steps = whole.parts[wanted.play.path].steps
    return steps[min(wanted.step, len(steps) - 1)]


def asked(request: Mapping[str, Any]) -> Asked | None:
    """Read a request of either wire format; None when it belongs to no script.

    The last text of a user that carries a play says whose turn it is; the replies after it are the steps so far.
    """
    messages: Sequence[Mapping[str, Any]] = request.get("messages") or ()
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user" and (play := Play.of(text_of(messages[index].get("content")))):
            return Asked(play, sum(message.get("role") == "assistant" for message in messages[index:]))
    return None


def text_of(content: object) -> str:
    """The text of a message; results of tools, which may quote anything, are no text of the user."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


def _prompt_of_master(play: Play) -> str:
    return prompt_of(
        play.key,
        play.seed,
        children=play.children,
        steps=play.steps,
        linger_seconds=play.linger_seconds,
        strange=play.strange,
        keeps=play.keeps,
        background=play.background,
    )


def _master(play: Play, prompt: str) -> Part:
    dice = _dice(play)
    drawn = dice.randint(0, MOST_CHILDREN)
    count = play.children if play.children is not None else drawn
    length = play.steps if play.steps is not None else dice.randint(2 if count else 1, MOST_STEPS)
    children = tuple(_child(replace(play, path=f"{play.path}/{number}")) for number in range(1, count + 1))
    delegates_at = dice.randrange(max(length - 1, 1)) if children else None
    steps = [_acting(play, index, dice) for index in range(length - 1)]
    if delegates_at is not None:
        steps[delegates_at : delegates_at + 1] = [_delegating(play, delegates_at, children, dice)]
    last = Step(_text(play, length - 1, dice, "The harbour is at rest."))
    return Part(play.path, MASTER, prompt, (*steps, last), last.text, children=children)


def _child(play: Play) -> Part:
    dice = _dice(play)
    agent = dice.choice((WORKER, WORKER, AUDITOR))
    length = dice.randint(1, MOST_STEPS // 2)
    steps = [_acting(play, index, dice) for index in range(length - 1)]
    prompt = f"Do your share of the work. {play.mark}"
    said = _text(play, length - 1, dice, f"The share of {play.path} is done.")
    if agent == WORKER:
        return Part(play.path, agent, prompt, (*steps, Step(said)), said)
    report = {"status": "completed", "summary": f"{play.path} found everything in place."}
    handed_in = Step(said, (Wanted(SUBMIT, report, "Accepted."),))
    return Part(play.path, agent, prompt, (*steps, handed_in), report["summary"], report)


def _acting(play: Play, index: int, dice: random.Random) -> Step:
    """A step with calls that run side by side."""
    kinds: Sequence[str] = (ONCE, IDEM, LINGER, KEEP, KEEP) if play.keeps else (ONCE, ONCE, IDEM, IDEM, LINGER)
    if play.background and play.path != MASTER:
        # There the family's tool that cannot be undone is denied.
        kinds = [IDEM if kind == ONCE else kind for kind in kinds]
    names = [dice.choice(kinds) for _ in range(dice.randint(1, MOST_CALLS))]
    return Step(
        _text(play, index, dice, f"Step {index} of {play.path}."),
        tuple(_call(play, name, f"{play.path}#{index}.{position}") for position, name in enumerate(names)),
    )


def _call(play: Play, name: str, mark: str) -> Wanted:
    if name == LINGER:
        return Wanted(name, {"seconds": play.linger_seconds, "mark": mark}, lingered(mark))
    return Wanted(name, {"path": play.path, "mark": mark}, wrote(name, mark))


def wrote(tool: str, mark: str) -> str:
    """The result of a call of one of the ledger's tools."""
    return f"{tool} wrote {mark}"


def lingered(mark: str) -> str:
    return f"lingered at {mark}"


def _delegating(play: Play, index: int, children: tuple[Part, ...], dice: random.Random) -> Step:
    """One call for all children in parallel; for a lone one either that or the plain way, and an effect beside it."""
    said = _text(play, index, dice, "The work is shared out.")
    beside = _call(play, ONCE, f"{play.path}#{index}.1")
    meanwhile = {"background": True} if play.background else {}
    if len(children) == 1 and dice.random() < 0.5:
        (child,) = children
        hire = Wanted(SUBAGENT, {"agent_type": child.agent, "prompt": child.prompt, "title": child.path} | meanwhile)
        return Step(said, (hire, beside))
    agents = [{"id": child.path, "role": child.agent, "title": child.path, "task": child.prompt} for child in children]
    hire = Wanted(SUBAGENTS_RUN, {"agents": agents, "mode": "parallel", "max_concurrency": MOST_CHILDREN} | meanwhile)
    return Step(said, (hire, beside))


def _text(play: Play, index: int, dice: random.Random, first: str) -> str:
    words = " ".join(dice.choice(_WORDS) for _ in range(dice.randint(6, 20)))
    strange = f" {STRANGE}" if play.strange else ""
    return f"{first} {words}{strange} ({play.path}#{index})"


def _dice(play: Play) -> random.Random:
    return random.Random(json.dumps([play.seed, play.path]))

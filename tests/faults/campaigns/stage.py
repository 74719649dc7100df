"""What a campaign is, and what its function is given: a family at work, dice, a place for notes."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from tests.faults.assembly import MODEL, MODEL_OF_MESSAGES
from tests.faults.campaigns.ground import Ground, common_ground
from tests.faults.checker import INVARIANTS
from tests.faults.family import Family
from tests.faults.jsonlines import read
from tests.faults.plan import Plan
from tests.faults.script import prompt_of

Database = Literal["sqlite", "postgres"]
DATABASES: Sequence[Database] = ("sqlite", "postgres")

QUIET_SECONDS, STILL_SECONDS = 150.0, 60.0
"""A machine that does other things meanwhile is given this time."""


class Skipped(Exception):
    """This campaign cannot be run here; the sentence says why."""


@dataclass
class Stage:
    """A family at work. All that a campaign does by chance comes from `dice`, so that its seed replays it.

    `seconds`: how long a campaign goes on that has no end of its own. `whole`: try everything where a part is drawn.
    `missing`: harm that could not be done on this machine, and why.
    """

    family: Family
    ground: Ground
    seed: int
    dice: random.Random
    seconds: float = 20.0
    whole: bool = False
    problems: list[str] = field(default_factory=list)
    measured: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    missing: dict[str, str] = field(default_factory=dict)
    without_redis: set[str] = field(default_factory=set)
    """Orders that were cancelled while Redis was away."""

    _attempts: Iterator[int] = field(default_factory=count)

    def submit(
        self,
        key: str,
        *,
        watched: bool = True,
        model: str | None = None,
        tokens: int | None = None,
        asks: Mapping[str, Any] | None = None,
        **play: Any,
    ) -> str:
        """Place an order (its script as `prompt_of` takes it, `tokens` its limit) and watch it; its id.

        `asks`: what it says beside its prompt, such as its workspace.
        """
        script = {"children": self.dice.randint(0, 2), "steps": self.dice.randint(3, 7), **play}
        prompt = prompt_of(key, self.dice.randrange(10_000), **script)
        limits: dict[str, Any] = {} if tokens is None else {"limits": {"total_tokens": tokens}}
        chosen = model or self.dice.choice((MODEL, MODEL_OF_MESSAGES))
        order_id = self.family.clients.submit(prompt, model=chosen, **limits, **(asks or {}))
        if watched:
            self.family.watch(order_id, seed=self.dice.randrange(10_000) if self.dice.random() < 0.5 else None)
        return order_id

    def crowd(self, name: str, size: int, **play: Any) -> list[str]:
        return [self.submit(f"{name}-{number}", **play) for number in range(size)]

    def posted(self, name: str) -> int:
        """The status that a client gets for one attempt to place a new order; 0 when nobody answers."""
        key = f"{name}-attempt-{next(self._attempts)}"
        self.family.clients.post(prompt_of(key, self.seed, steps=2, children=0))
        return int(read(self.family.places.directory / "orders.jsonl")[-1]["status"])

    def wish(self, holds: bool, sentence: str) -> None:
        """What this campaign promises beyond the checker; noted as a problem when it does not hold."""
        if not holds:
            self.problems.append(sentence)

    def quiet(self) -> None:
        """Everything is done; whoever ended meanwhile was started again. Then nothing is armed any more."""
        self.family.quiesce(QUIET_SECONDS, STILL_SECONDS, restarting=True)
        self.family.failpoints.disarm()

    def succeeded(self, order_ids: Sequence[str], why: str) -> None:
        states = {state.order_id: state for state in self.family.observer.states()}
        for order_id in order_ids:
            state = states[order_id]
            self.wish(state.status == "succeeded", f"{order_id} is {state.status} ({state.reason}): {why}")

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.measured[what].append(time.monotonic() - began)


Act = Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Campaign:
    """One class of harm. `judged`: beside the promises of the checker, what `run.json` says (see `Plan.judged`).

    `around` is entered with the run's directory and the plan before the family starts, and may raise `Skipped`.
    """

    name: str
    title: str
    act: Act
    plan: Plan = field(default_factory=Plan)
    databases: Sequence[Database] = DATABASES
    promises: Sequence[str] = tuple(INVARIANTS)
    around: Callable[[Path, Plan], AbstractContextManager[Ground]] = common_ground


def pause(seconds: float) -> None:
    """Let a fault last."""
    time.sleep(seconds)


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))

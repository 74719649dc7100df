"""Sessions of the package `compaction_kit` as turns of a real session, and what a later turn finds in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from compaction_kit.canaries import Canary, seeded_canaries
from compaction_kit.corpus import build_random_session
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
from compaction_kit.session import SeededSession, build_seeded_session

from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.journal import MemoryJournal
from drone.tools.frame.tool import ToolContext
from drone.tools.history import history_search
from drone.worker.loop import AsyncStore
from drone.worker.sessions.history import OrderHistory
from mcc.contracts.entry import Origin
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.redaction import Redactor
from tests.conformance.store.scene import Scene, ended, replied, started

SEEDS = (1, 2, 3, 4)
"""Those of the package's own benchmark."""

FIRST = 20
"""Within so many results the words that a canary is known by have to stand."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A session of the package: what it says, and what was planted in it."""

    name: str
    session: SeededSession
    canaries: Sequence[Canary]


def talks() -> Iterator[Talk]:
    """All sessions of the package's benchmark, and its scripted one."""
    yield Talk("seeded", build_seeded_session(), seeded_canaries())
    for seed in SEEDS:
        yield Talk(f"random {seed}", *build_random_session(seed))
        for build in (build_semantic_session, build_semantic_heldout_session):
            session, canaries, _ = build(seed)
            yield Talk(f"{build.__name__} {seed}", session, canaries)


def held_in(scene: Scene, talk: Talk) -> WorkOrder:
    """A turn that follows the talk, whose turns are orders: what a user says is a prompt, what follows its answer."""
    session_id: str | None = None
    incarnation = scene.drone(lease_seconds=10**6)
    for prompt, answer in exchanges(talk):
        order = scene.place(prompt, session_id=session_id)
        session_id = order.session_id
        held = scene.hold(order.id, incarnation, token=order.id)
        held.write(started(prompt), replied(answer))
        held.finish(OrderStatus.SUCCEEDED, ended(answer))
        scene.clock.advance(60)
    order = scene.place("Go on.", session_id=session_id)
    assert not scene.store.history.index(scene.store.history.before(order), str, seconds=600)
    return order


def exchanges(talk: Talk) -> Iterator[tuple[str, str]]:
    """Prompts and answers: what its user says in a row, and what the assistant says then."""
    spoken = [turn for turn in talk.session.turns if turn.role != "system"]
    runs = [(role, "\n\n".join(turn.text for turn in turns)) for role, turns in groupby(spoken, lambda turn: turn.role)]
    prompts = [text for role, text in runs if role == "user"]
    answers = [text for role, text in runs if role != "user"]
    assert [role == "user" for role, _ in runs] == [True, False] * len(prompts), "it takes turns, and a user begins"
    yield from zip(prompts, answers, strict=True)


class OpenJournal:
    """The part of an order's journal that its history uses."""

    def check_open(self) -> None: ...


async def searched(store: AsyncStore, order: WorkOrder, question: str) -> str:
    """What an agent of the order is answered by `history_search`, in small letters."""
    history = OrderHistory(store, cast(Any, OpenJournal()), order, Redactor())
    artifacts = Artifacts(MemoryJournal(order.id))
    artifacts.history = history
    context = ToolContext("call", Origin(record_id="record", agent="master"), artifacts=artifacts)
    output = await history_search(context, question, limit=FIRST)
    assert not output.is_error, output.content
    assert len(output.content.splitlines()) <= FIRST, output.content
    return output.content.lower()


async def missed(store: AsyncStore, order: WorkOrder, talk: Talk) -> Sequence[str]:
    """The canaries that a search for their question does not find."""
    texts = {canary.id: await searched(store, order, canary.direct_question) for canary in talk.canaries}
    return [
        f"{talk.name} {canary.id}: {canary.direct_question}"
        for canary in talk.canaries
        if not all(token.lower() in texts[canary.id] for token in canary.required_tokens)
    ]

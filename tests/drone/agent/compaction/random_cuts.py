"""Conversations that are cut at random: by summaries and handles, by takeovers, forks and new turns, while calls are
open, people decide nothing and subagents work in the background. Never a call without its result in a request, nor a
result without its call.

`python -m tests.drone.agent.compaction.random_cuts 100000` makes so many cuts and says how many of each kind.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from mcc.contracts.blocks import AnyBlock, TextBlock, ToolCallBlock
from mcc.contracts.compaction import Clipped, TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import ORDER, Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import call_id, root_record_id
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.journal import AgentStarted, ControlApplied, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.rows.forking import cut, forked
from mcc.transcript.clipping import PUT_AWAY, to_clip
from mcc.transcript.compaction.built import BEGINNING
from mcc.transcript.compaction.cuts import ContextWindow, arguments_to_put_away, kept_from, results_to_put_away
from mcc.transcript.messages import AssistantMessage, Message
from mcc.transcript.own_messages import OwnMessages, TurnEnd
from mcc.transcript.shown import ShownMessage
from mcc.transcript.transcript import Transcript, opening_message
from tests.drone.agent.compaction.long_runs import unanswered

MOST_ENTRIES = 90
AT = now()
QUEUED = OrderQueued(session_id="s", session_seq=1, agent="master", queue="default", priority=5)


class RandomConversation:
    """One session of an agent. `cuts`: how many of each kind there were."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._seed = seed
        self.cuts = Counter[str]()
        self._orders = 0
        self._shown: tuple[ShownMessage, ...] = ()
        self._begin([])

    def _begin(self, entries: Sequence[Entry]) -> None:
        """Begin the next order, with these entries of a fork."""
        self._order_id = f"order-{self._seed}-{self._orders}"
        self._origin = Origin(record_id=root_record_id(self._order_id), agent="master", depth=0)
        self._entries = [*entries]
        self._children: list[str] = []
        self._tree = Tree.of(self._entries)
        if not entries:
            self._write(QUEUED, origin=ORDER)
            self._write(
                AgentStarted(
                    title="t",
                    prompt=f"Prompt {self._orders}",
                    model=ModelChoice(requested="m", effective="m"),
                    tools=("page", "read_artifact"),
                    limits=LimitChoice(),
                    definition_digest="",
                    setup_digest="",
                )
            )
        self._open(self._transcript)

    def _open(self, transcript: Transcript) -> None:
        started = next(one.data for one in self._entries if isinstance(one.data, AgentStarted))
        first = opening_message("", started.prompt, ())
        transcript.open((*(one.message for one in self._shown), first))

    @property
    def _state(self) -> RecordState:
        return self._tree.records[self._origin.record_id or ""]

    @property
    def _transcript(self) -> Transcript:
        return self._state.conversation.transcript

    def _write(self, fact: Fact, origin: Origin | None = None) -> None:
        draft = Draft(at=AT, origin=origin or self._origin, data=fact)
        entry = draft.numbered(self._order_id, len(self._entries) + 1)
        self._entries.append(entry)
        self._tree.apply(entry.origin, entry.data)

    def step(self) -> None:
        """Do something at random, and look at what the model would be shown."""
        dice = self._dice
        act = dice.random()
        if act < 0.55 and len(self._entries) < MOST_ENTRIES:
            (self._act if self._state.open is not None else self._speak)()
        elif act < 0.80:
            self._compact()
        elif act < 0.88:
            self._resume()
        elif act < 0.94:
            self._fork()
        else:
            self._end()
        self.check(self._transcript.messages)

    def check(self, messages: Sequence[Message]) -> None:
        """Raises AssertionError for a call without a result, or a result without a call."""
        calls = [] if self._state.open is None else [call.call_id for call in self._state.open.calls]
        assert unanswered(messages) == calls, (self._seed, len(self._entries), unanswered(messages), calls)
        if calls:
            assert isinstance(messages[-1], AssistantMessage), self._seed

    def _speak(self) -> None:
        """A reply, with or without calls, or what the agent is told before it."""
        dice, state = self._dice, self._state
        if dice.random() < 0.25:
            self._write(ControlApplied(control_id=f"c{len(self._entries)}", control="steer", message="Go.", at=AT))
        if self._children and dice.random() < 0.5:
            child = self._children.pop(dice.randrange(len(self._children)))
            content = f"<notice>Subagent {child} ended.</notice>"
            self._write(AgentDelivered(child_id=child, status=RecordStatus.COMPLETED, content=content))
        number = state.rounds + 1
        self._write(ModelStarted(round=number, attempt=1, model="m", reserved_tokens=1, reserved_output_tokens=1))
        blocks: list[AnyBlock] = [TextBlock(type="text", text="word " * dice.choice((1, 50, 400)))]
        for index in range(dice.choice((0, 1, 1, 2, 4))):
            arguments = {"text": "y" * dice.choice((1, 1_500))}
            made = call_id(self._origin.record_id or "", number, index)
            blocks.append(ToolCallBlock(type="tool_call", call_id=made, name="page", arguments=arguments))
        used = Usage(input_tokens=100, output_tokens=1, model_calls=1)
        self._write(
            ModelReplied(round=number, attempt=1, model="m", blocks=tuple(blocks), finish_reason="stop", usage=used)
        )

    def _act(self) -> None:
        """A call of the last reply begins, waits for a person, or ends, in any order."""
        dice, reply = self._dice, self._state.open
        assert reply is not None
        call = dice.choice([one for one in reply.calls if one.call_id not in reply.finished])
        index = reply.calls.index(call)
        if call.call_id not in reply.started and dice.random() < 0.3:
            if dice.random() < 0.5:
                self._write(
                    ApprovalRequested(approval_id=f"a{call.call_id}", call_id=call.call_id, tool="page", digest="d")
                )
            self._write(
                ToolStarted(
                    call_id=call.call_id,
                    round=reply.reply.round,
                    index=index,
                    name="page",
                    arguments={},
                    idempotent=True,
                )
            )
            return
        children = (f"child-{len(self._entries)}",) if dice.random() < 0.2 else ()
        self._children += children
        content = "x" * dice.choice((1, 300, 3_000))
        self._write(
            ToolFinished(call_id=call.call_id, name="page", content=content, is_error=False, background=children)
        )

    def _compact(self) -> None:
        """Put something away, or let a text take the place of the oldest messages, as the compactor does."""
        dice, transcript = self._dice, self._transcript
        messages = transcript.messages
        window = ContextWindow(dice.choice((400, 4_000, 40_000)))
        match dice.choice(("summary", "summary", "handles", "results", "arguments", "clip")):
            case "results":
                freed = results_to_put_away(messages, transcript.clips, window)
                clips = [
                    Clipped(call_id=one.call_id, kept=PUT_AWAY, characters=9, artifact="a") for one in freed.results
                ]
                self._put(TranscriptCompacted(stage="results", message="m", clipped=tuple(clips)), bool(clips))
            case "arguments":
                freed = arguments_to_put_away(messages, transcript.put_away, frozenset(("page",)), window)
                clips = [put_away(call.call_id) for call in freed.calls]
                self._put(TranscriptCompacted(stage="arguments", message="m", clipped=tuple(clips)), bool(clips))
            case "clip":
                chosen = to_clip(messages, transcript.clips, dice.choice((100, 5_000, 50_000)))
                clips = [
                    Clipped(
                        call_id=one.call_id, kept=min(kept, len(one.content)), characters=len(one.content), artifact="a"
                    )
                    for one, kept in chosen
                ]
                self._put(TranscriptCompacted(stage="clip", message="m", clipped=tuple(clips)), bool(clips))
            case stage:
                at = kept_from(messages, dice.randrange(len(messages)), dice.choice((0, 500, 5_000, 50_000)))
                if at is None or (at == 1 and transcript.summary is not None):
                    return
                text = f"{BEGINNING}turns 1–{self._orders})"
                fact = TranscriptCompacted(message="m", kept_messages=len(messages) - at, summary=text)
                self._put(fact.model_copy(update={"stage": stage}), True)

    def _put(self, fact: TranscriptCompacted, changes: bool) -> None:
        if changes:
            self._write(fact)
            self.cuts[fact.stage] += 1

    def _resume(self) -> None:
        """Another drone goes on: it is shown the same."""
        before = self._transcript.messages
        self._tree = Tree.of(self._entries)
        self._open(self._transcript)
        assert self._transcript.messages == before, self._seed
        self.cuts["takeover"] += 1

    def _fork(self) -> None:
        """A fork from somewhere in the order goes on, with open calls left out."""
        place = cut(self._entries, self._dice.randrange(1, len(self._entries) + 1))
        if place.root is None:
            return
        self._orders += 1
        order_id = f"order-{self._seed}-{self._orders}"
        made = forked(self._entries, place, order_id, AT, "Go on.")
        queued = Draft(at=AT, origin=ORDER, data=QUEUED.model_copy(update={"forked": made.forked}))
        drafts = (queued, *made.drafts)
        self._begin([draft.numbered(order_id, seq) for seq, draft in enumerate(drafts, start=1)])
        self.cuts["fork"] += 1

    def _end(self) -> None:
        """The turn ends, perhaps with calls still open, and the next one is shown what it leaves."""
        own = OwnMessages()
        for entry in self._entries:
            own.add(entry)
        self._orders += 1
        end = TurnEnd(self._order_id, self._orders, "p", OrderStatus.CANCELLED, None)
        shown, added = own.shown_before(self._shown), own.at_end(end, "full")
        self._shown = own.with_summaries(shown, added, self._orders) if own.summarised else (*shown, *added)
        self._begin([])
        self.cuts["turn"] += 1


def put_away(call_id: str, characters: int = 9, kept: int = PUT_AWAY) -> Clipped:
    return Clipped(call_id=call_id, kept=kept, characters=characters, artifact="a")


def many_cuts(wanted: int, first_seed: int = 0) -> Counter[str]:
    """Make at least so many cuts, in conversations of two hundred steps each. Raises AssertionError."""
    cuts = Counter[str]()
    seed = first_seed
    while cuts.total() < wanted:
        conversation = RandomConversation(seed)
        for _ in range(200):
            conversation.step()
        cuts += conversation.cuts
        seed += 1
    return cuts


if __name__ == "__main__":
    began = time.monotonic()
    made = many_cuts(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    listed = ", ".join(f"{count:,} {kind}" for kind, count in made.most_common())
    print(f"{made.total():,} cuts in {time.monotonic() - began:.0f} s, each call with its result: {listed}")

"""Whatever happens together in a long run, and wherever its drone is lost: each call has its result, each report
arrives once, and nothing that a person said is gone."""

import random
import re
from collections import Counter
from collections.abc import Sequence

import pytest

from drone.agent.state.tree import Tree
from mcc.contracts.compaction import Clipped, TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import ORDER as ORDER_ORIGIN
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.shape import now
from mcc.store.rows.forking import cut, forked
from mcc.transcript.compaction.built import AGENTS
from tests.drone.agent.compaction.long_runs import asks_for_summary, tokens_of, unanswered
from tests.drone.agent.compaction.mixed_runs import ORDER, WINDOW, MixedRun, all_text

CUTS = 4


def check(run: MixedRun, where: object) -> None:
    """What has to hold of an order that is over."""
    entries = run.journal.entries
    for record_id, ask in run.asked:
        assert not unanswered(ask.messages), (where, record_id)
        assert asks_for_summary(ask) or tokens_of(ask) <= WINDOW, (where, record_id)
    starts = Counter(one.record_id for one in entries if isinstance(one.data, AgentStarted))
    ends = Counter(one.record_id for one in entries if isinstance(one.data, AgentFinished))
    assert starts == ends and set(starts.values()) == {1}, where
    hired = {child for one in entries if isinstance(one.data, ToolFinished) for child in one.data.background}
    brought = Counter[str]()
    for one in entries:
        if isinstance(one.data, AgentDelivered):
            brought[one.data.child_id] += 1
        elif isinstance(one.data, ToolFinished):
            brought.update(one.data.delivered)
    assert brought.keys() == hired and set(brought.values()) <= {1}, where


def check_what_is_shown(run: MixedRun, where: object) -> None:
    """What has to hold of each request of the master: what people said, and who works for it, stands in it."""
    steers = run.steers()
    for record_id, ask in run.asked:
        if record_id != run.root or asks_for_summary(ask):
            continue
        text = all_text(ask.messages)
        newest = max((number for number, said in enumerate(steers) if said in text), default=-1)
        assert [said for said in steers[: newest + 1] if said not in text] == [], where
    for number, one in enumerate(run.journal.entries):
        fact = one.data
        if isinstance(fact, TranscriptCompacted) and fact.summary is not None and one.record_id == run.root:
            listed = fact.summary.partition("\n<untrusted ")[0].partition(f"{AGENTS}\n")[2]
            children = Tree.of(run.journal.entries[:number]).records[run.root].children
            assert [child for child in children.undelivered if child not in listed] == [], where
            ids = [line.split()[1] for line in listed.partition("\n\n")[0].split("\n") if line]
            assert len(ids) == len(set(ids)), where


@pytest.mark.parametrize("seed", range(3))
async def test_long_runs_with_summaries_subagents_and_people_lose_nothing(seed: int) -> None:
    first = MixedRun(seed)
    report = await first.run()
    assert report.completed and report.text.startswith("All read"), report.error
    stages = {one.data.stage for one in first.journal.entries if isinstance(one.data, TranscriptCompacted)}
    assert {"results", "arguments", "summary"} <= stages
    check(first, seed)
    check_what_is_shown(first, seed)
    chance = random.Random(seed)
    for after in sorted(chance.sample(range(1, len(first.journal.entries)), CUTS)):
        second = MixedRun(seed, first.journal.entries[:after], first.journal.texts)
        report = await second.run()
        assert report.completed and report.text.startswith("All read"), (seed, after, report.error)
        check(second, (seed, after))
        check_what_is_shown(second, (seed, after))


FORK = "order-2"


def fork(source: Sequence[Entry], after: int) -> tuple[Sequence[Entry], Sequence[Entry]] | None:
    """The entries of this order that a fork cut at or before entry `after` has, and those of the fork; None where no
    reply would be copied."""
    queued = OrderQueued(session_id="s", session_seq=1, agent="master", queue="default", priority=5)
    at = now()
    moved = [entry.model_copy(update={"seq": entry.seq + 1}) for entry in source]
    entries = [Draft(at=at, origin=ORDER_ORIGIN, data=queued).numbered(ORDER, 1), *moved]
    place = cut(entries[: after + 2], after + 1)
    if place.after < 5:
        return None
    made = forked(entries, place, FORK, at)
    first = Draft(at=at, origin=ORDER_ORIGIN, data=queued.model_copy(update={"forked": made.forked}))
    begun = [first.numbered(FORK, 1), *(draft.numbered(FORK, seq) for seq, draft in enumerate(made.drafts, start=2))]
    return source[: place.after - 1], begun


def ids_in(entries: Sequence[Entry]) -> set[str]:
    """The ids of the order's own records and calls that these entries have."""
    calls = (fact.call_id for one in entries if isinstance(fact := one.data, ToolFinished))
    return {*calls, *(one.record_id for one in entries if one.record_id)}


def shown_by(entries: Sequence[Entry], record_id: str) -> tuple[str, list[Clipped]]:
    """What an agent is shown of its own after these entries, and what is shortened of it."""
    transcript = Tree.of(entries).records[record_id].conversation.transcript
    text = f"{transcript.summary}{all_text(transcript.said)}"
    return text, [*transcript.clips.values(), *transcript.put_away.values()]


@pytest.mark.parametrize("seed", range(2))
async def test_a_fork_of_a_turn_with_summaries_shows_the_same_under_ids_of_its_own(seed: int) -> None:
    first = MixedRun(seed)
    await first.run()
    entries = first.journal.entries
    compacted = [n for n, one in enumerate(entries, 1) if one.kind == "transcript.compacted" and not one.parent_id]
    ids, ends = ids_in(entries), 0
    for after in sorted({*compacted, *range(20, len(entries), 25)}):
        if (begun := fork(entries, after)) is None:
            continue
        source, left = begun
        (text, clips), (before, clips_before) = shown_by(left, root_record_id(FORK)), shown_by(source, first.root)
        assert _nameless(text) == _nameless(before) and not [one for one in ids if one in text], after
        assert not ids.intersection(clip.call_id for clip in clips) and len(clips) == len(clips_before), after
        if ends < CUTS and after in compacted[1::4]:
            ends += 1
            second = MixedRun(seed, left, first.journal.texts, FORK)
            assert (await second.run()).completed, after
            check(second, after)
            check_what_is_shown(second, after)
            assert not [one for _, ask in second.asked for one in ids if one in all_text(ask.messages)], after


def _nameless(text: str) -> str:
    """The text without ids."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)

"""Which model writes a summary: one that is meant to, the agent's own, or the one whose context is larger."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.compaction.summary import NOT_CACHED
from drone.agent.parts import Hired
from mcc.contracts.blocks import TextBlock, ToolCallBlock
from mcc.contracts.compaction import Compaction, CompactionTerms
from mcc.contracts.journal import AgentStarted, AgentStep
from mcc.contracts.shape import now
from mcc.contracts.turn_context import LastRequest, TurnBefore
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from mcc.transcript.opening import SessionOpening
from mcc.transcript.shown import ShownMessage
from tests.drone.agent.compaction.long_runs import LongModel, LongRun, tokens_of, unanswered


class OtherModel(LongModel):
    """A model that only writes summaries."""

    def __init__(self, window: int) -> None:
        super().__init__(0, window)

    @property
    def name(self) -> str:
        return "other/large"


def hired(
    world: LongRun,
    terms: CompactionTerms,
    other: OtherModel,
    session: SessionOpening | None = None,
    namesake: OtherModel | None = None,
) -> LongRun:
    """The run, as an agent that knows this other model, "large" to its operator. `namesake`: one of the same name that
    another provider has."""

    def model_of(name: str) -> OtherModel:
        return {"large": other, other.name: namesake or other}[name]

    known = Hired(compaction=terms, model_of=model_of)
    agent = world.agent
    world.agent = AgentRuntime(
        agent.definition,
        model=agent.model,
        tools=agent.tools,
        limits=agent.limits,
        hired=known if session is None else replace(known, session=session),
    )
    return world


async def test_a_model_that_is_meant_to_writes_the_summaries_and_its_price_is_told() -> None:
    other = OtherModel(50_000)
    world = hired(LongRun(LongModel(60, 12_000, length=700)), CompactionTerms(model="large"), other)
    assert (await world.run()).text == "All read."
    fact = world.compacted("summary")[0]
    assert fact.model == "other/large" and not world.model.summaries and other.summaries
    started, step, *_ = [one.data for one in world.summaries() if one.record_id == fact.record_id]
    assert isinstance(started, AgentStarted) and started.model is not None and started.model.effective == other.name
    assert isinstance(step, AgentStep) and step.name == NOT_CACHED
    assert not [wrong for ask in other.asks for wrong in unanswered(ask.messages)]


async def test_an_agent_file_says_it_before_the_operator() -> None:
    other = OtherModel(50_000)
    world = LongRun(LongModel(60, 12_000, length=700))
    definition = world.agent.definition.model_copy(update={"compaction": Compaction(model="inherit")})
    world.agent.definition = definition
    await hired(world, CompactionTerms(model="large"), other).run()
    assert world.model.summaries and not other.asks


async def test_a_model_whose_context_is_too_small_for_it_is_not_asked() -> None:
    other = OtherModel(4_000)
    world = hired(LongRun(LongModel(60, 12_000, length=700)), CompactionTerms(model="large"), other)
    assert (await world.run()).text == "All read."
    assert world.compacted("handles") and not other.asks


def test_a_model_that_is_not_known_is_refused_at_once() -> None:
    with pytest.raises(LookupError):
        hired(LongRun(LongModel(1, 12_000)), CompactionTerms(model="nobody"), OtherModel(1))


def earlier(
    model: str,
    *,
    requested: str | None = None,
    rolled_back: bool = False,
    results: bool = False,
    turns: int = 6,
    hours: int = 0,
) -> SessionOpening:
    """A session of some 18,000 tokens, the last turn of which asked this model so many hours ago."""
    shown = [
        ShownMessage.of(message, f"order-0{turn}", turn, seq)
        for turn in range(1, turns + 1)
        for seq, message in enumerate(_turn(turn, results=results), start=1)
    ]
    last = LastRequest(agent="master", model=model, requested=requested, at=now() - timedelta(hours=hours))
    before = TurnBefore(setup_digest="", setup_key="", last=last, rolled_back=rolled_back)
    return SessionOpening(tuple(shown), before=before, session_id="s")


def _turn(turn: int, *, results: bool) -> Sequence[Message]:
    prompt = UserMessage(f"Turn {turn}: look at page {turn}.", by_person=True)
    if not results:
        return (prompt, AssistantMessage.of("word " * 2_400))
    call = ToolCallBlock(type="tool_call", call_id=f"c{turn}", name="page", arguments={"number": turn})
    reply = AssistantMessage((TextBlock(type="text", text="I look."), call))
    return (
        prompt,
        reply,
        ToolResults((ToolResult(f"c{turn}", "page", "x" * 12_000, False),)),
        AssistantMessage.of("Seen."),
    )


async def test_a_session_too_long_for_a_smaller_model_is_summed_up_by_the_one_before() -> None:
    other = OtherModel(60_000)
    world = hired(LongRun(LongModel(2, 12_000)), CompactionTerms(), other, earlier(other.name))
    assert (await world.run()).text == "All read."
    (fact,) = world.compacted()
    assert (fact.stage, fact.reason, fact.model) == ("summary", "full", other.name)
    assert not world.model.summaries and all(tokens_of(ask) <= 12_000 for ask in world.model.asks)
    assert len(other.summaries[0].messages) == 6 * 2 + 2


async def test_the_one_before_is_that_of_the_provider_that_was_asked() -> None:
    other, namesake = OtherModel(60_000), OtherModel(60_000)
    session = earlier(other.name, requested="large")
    await hired(LongRun(LongModel(2, 12_000)), CompactionTerms(), other, session, namesake).run()
    assert other.summaries and not namesake.asks
    for unknown in (None, "inherit"):
        other, namesake = OtherModel(60_000), OtherModel(60_000)
        session = earlier(other.name, requested=unknown)
        await hired(LongRun(LongModel(2, 12_000)), CompactionTerms(), other, session, namesake).run()
        assert namesake.summaries and not other.asks


async def test_where_that_is_gone_lines_take_the_place_of_the_oldest_turns() -> None:
    world = hired(LongRun(LongModel(2, 12_000)), CompactionTerms(), OtherModel(60_000), earlier("gone/model"))
    assert (await world.run()).text == "All read."
    assert not world.compacted("summary") and all(tokens_of(ask) <= 12_000 for ask in world.model.asks)


async def test_after_a_rollback_what_does_not_fit_is_compacted_first() -> None:
    model = LongModel(2, 12_000)
    session = earlier(model.name, rolled_back=True, results=True)
    world = hired(LongRun(model), CompactionTerms(), OtherModel(1), session)
    assert (await world.run()).text == "All read."
    first = world.compacted()[0]
    assert (first.stage, first.reason) == ("results", "rollback") and not world.compacted("handles")
    assert all(tokens_of(ask) <= 12_000 for ask in world.model.asks)
